/**
 * What a token's bearer may do: the words of `scope` (RFC 8693 section 4.2: one string, separated by blanks) and of `scp`, which
 * other issuers use, as a string or as a list.
 */
export function readScopes({ scope, scp }: Readonly<Record<string, unknown>>): ReadonlySet<string> {
	const lists = Array.isArray(scp) ? scp : [scp];
	const words = [scope, ...lists].flatMap((text) => (typeof text === 'string' ? text.split(' ') : []));
	return new Set(words.filter((word) => word !== ''));
}
