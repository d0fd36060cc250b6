/** How every check ends: one line when its property holds; else each breach on a line of its own, and exit code 1. */
export function finish(check: string, property: string, breaches: readonly string[]): void {
	if (breaches.length === 0) console.log(`${check}: ${property}`);
	else process.exitCode = 1;
	for (const breach of breaches) console.error(`${check}: ${breach}`);
}
