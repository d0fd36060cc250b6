/** The rules for paths (docs/reference/protocol-strictness.md), without a regular expression: tokens first, then segments of tokens. */
export function refusedByTheModel(text: string): boolean {
	if (text[0] !== '/' || text[1] === '/') return true;
	for (const char of text) if (char <= ' ' || char > '~' || char === '#') return true;
	const query = text.indexOf('?');
	const path = query < 0 ? text : text.slice(0, query);
	const segments: string[][] = [[]];
	for (let at = 0; at < path.length; ) {
		let char = path[at]!;
		if (char === '\\') return true;
		if (char === '%') {
			const octet = hex(path[at + 1]) * 16 + hex(path[at + 2]);
			// Also `%u`: it is no octet.
			if (Number.isNaN(octet) || octet === 0) return true;
			char = String.fromCharCode(octet);
			at += 2;
		}
		at++;
		if (char === '/' || char === '\\') segments.push([]);
		else segments.at(-1)!.push(char);
	}
	for (const segment of segments) {
		const end = segment.indexOf(';');
		const name = (end < 0 ? segment : segment.slice(0, end)).join('');
		if (name === '.' || name === '..') return true;
		// What is still encoded after one decoding was encoded twice.
		const decoded = segment.join('').toLowerCase();
		if (['%2e', '%2f', '%5c'].some((twice) => decoded.includes(twice))) return true;
	}
	return false;
}

function hex(digit: string | undefined): number {
	const value = digit === undefined ? -1 : '0123456789abcdef'.indexOf(digit.toLowerCase());
	return value < 0 ? Number.NaN : value;
}
