/** The end of every check: one line if its property holds; otherwise one line for each breach, and exit code 1. */
export function finish(check: string, property: string, breaches: readonly string[]): void {
	if (breaches.length === 0) console.log(`${check}: ${property}`);
	else process.exitCode = 1;
	for (const breach of breaches) console.error(`${check}: ${breach}`);
}
