/**
 * The header contract, one rule a line: what of a message's fields is passed on.
 * Says what the code says in other terms, and is in no hurry.
 */

export type Field = readonly [name: string, value: string];

/** Fields that say who is calling, from where, and that only the proxy may say. */
export const OURS = [
	'x-proxy-tenant',
	'x-forwarded-for',
	'x-forwarded-proto',
	'forwarded',
	'x-real-ip',
	'client-cert',
	'client-cert-chain',
	'x-forwarded-client-cert',
	// In place of the path.
	'script-name',
	'path-info',
	'x-script-name',
	'x-original-url',
	'x-rewrite-url',
];

/** The client's, unless the route writes them itself. */
export const OURS_BY_ROUTE = ['x-forwarded-host', 'x-forwarded-port', 'x-forwarded-prefix'];

/** What stays at the hop between client and proxy. */
export const HOP_BY_HOP = [
	'keep-alive',
	'proxy-connection',
	'proxy-authenticate',
	'proxy-authorization',
	'te',
	'trailer',
	'upgrade',
	'http2-settings',
];

/** What stays at the hop between proxy and upstream: no credentials for a proxy go this way. */
const RESPONSE_HOP_BY_HOP = HOP_BY_HOP.filter((name) => name !== 'proxy-authorization');

const FRAMING = ['transfer-encoding', 'content-length'];

/** Of a request's fields (without pseudo-headers) those that go to the upstream, in their order, cookies joined last. */
export function forwardedByTheContract(fields: readonly Field[]): Field[] {
	const named = namedByConnection(fields);
	const never = [...OURS, ...HOP_BY_HOP, ...FRAMING, 'connection', 'host', 'expect'];
	const kept = fields.filter(([name]) => {
		const lower = name.toLowerCase();
		return !never.includes(folded(name)) && !named.includes(lower);
	});
	const isCookie = ([name]: Field) => name.toLowerCase() === 'cookie';
	const cookies = kept.filter(isCookie).map(([, value]) => value);
	const others = kept.filter((field) => !isCookie(field));
	return cookies.length === 0 ? others : [...others, ['cookie', cookies.join('; ')]];
}

/** The same by a route that writes some fields itself. */
export function forwardedByTheRoute(fields: readonly Field[], own: readonly string[]): Field[] {
	return forwardedByTheContract(fields).filter(([name]) => !own.includes(folded(name)));
}

/** As CGI and its heirs read a name (RFC 3875 section 4.1.18). */
export function folded(name: string): string {
	return name.toLowerCase().replaceAll(/[^a-z0-9]/g, '-');
}

/** Of a response's fields those that go to the client, names in lower case, in their order. */
export function returnedByTheContract(fields: readonly Field[]): Field[] {
	const named = namedByConnection(fields);
	const never = [...RESPONSE_HOP_BY_HOP, ...FRAMING, 'connection'];
	return fields
		.map(([name, value]): Field => [name.toLowerCase(), value])
		.filter(([name]) => !never.includes(name) && !named.includes(name))
		.map(([name, value]) => [name, name === 'vary' ? variesFor(value) : value]);
}

/** Of the trailers behind these fields those that go beyond this hop (RFC 9110 section 7.6.1), names in lower case. */
export function trailersBeyond(fields: readonly Field[], trailers: readonly Field[]): Field[] {
	const named = namedByConnection(fields);
	return trailers.map(([name, value]): Field => [name.toLowerCase(), value]).filter(([name]) => !named.includes(name));
}

/** Whether the field is forbidden in trailers: it belongs in a head (RFC 9110 section 6.5.1), or only the proxy sets it. */
export function isNoTrailer(name: string): boolean {
	const heads = ['connection', 'host', 'authorization', 'cookie', 'expect', 'content-type'];
	return [...OURS, ...OURS_BY_ROUTE, ...HOP_BY_HOP, ...FRAMING, ...heads].includes(folded(name));
}

/** RFC 9440 section 2.4: of fields that no client sends, no cache behind the proxy can tell whether they are the same. */
function variesFor(vary: string): string {
	const ours = ['client-cert', 'client-cert-chain', 'x-forwarded-client-cert'];
	return vary.split(',').some((name) => ours.includes(name.trim().toLowerCase())) ? '*' : vary;
}

function namedByConnection(fields: readonly Field[]): string[] {
	return fields
		.filter(([name]) => name.toLowerCase() === 'connection')
		.flatMap(([, value]) => value.split(',').map((option) => option.trim().toLowerCase()));
}
