import { parseAddress } from './upstream.ts';
import { quote } from './wording.ts';

/** Values of `host` other than a host name. */
export const HOST_WORDS: readonly string[] = ['upstream', 'client'];

/**
 * Judges the `host` of a route: one of its words, or `host[:port]` as it goes into `Host` (RFC 9110 section 7.2).
 *
 * @returns the fault and the remedy in words; `undefined` if valid.
 */
export function hostLineProblem(text: string): string | undefined {
	const problem = problemOf(text);
	if (problem === undefined) return undefined;
	const meant = [
		text.trim().toLowerCase(),
		text
			.trim()
			.replace(/^[a-z][a-z\d+.-]*:\/\//i, '')
			.replace(/[/?#].*$/s, ''),
	];
	const remedy = meant.find((one) => problemOf(one) === undefined) ?? 'billing.internal';
	return `must be "upstream", "client" or host[:port] (got ${quote(text)}): ${problem}; write for example ${quote(remedy)}`;
}

function problemOf(text: string): string | undefined {
	if (HOST_WORDS.includes(text)) return undefined;
	if (HOST_WORDS.includes(text.toLowerCase())) return 'these words must be lower case';
	if (/[/?#]/.test(text)) return 'it must be a host without scheme and path';
	const address = parseAddress(text, 80);
	return typeof address === 'string' ? address : undefined;
}
