/** Members and elements below this depth are written in one step: a row of `upstreams.items` is. */
const DEPTH = 3;

/** As `JSON.stringify`, in steps. */
export function* jsonOf(value: unknown, depth = DEPTH): Generator<void, string> {
	if (depth === 0 || typeof value !== 'object' || value === null) {
		yield;
		return JSON.stringify(value);
	}
	const parts: string[] = [];
	if (Array.isArray(value)) {
		for (const element of value) parts.push(yield* jsonOf(element, depth - 1));
		return `[${parts.join(',')}]`;
	}
	for (const [name, member] of Object.entries(value)) {
		if (member !== undefined) parts.push(`${JSON.stringify(name)}:${yield* jsonOf(member, depth - 1)}`);
	}
	return `{${parts.join(',')}}`;
}
