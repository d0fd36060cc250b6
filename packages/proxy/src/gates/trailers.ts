import { isLowerCaseToken } from '@mtls-edge-proxy/gate/gates/grammar.ts';
import { foldedName } from './field-kinds.ts';

/** Trailers (RFC 9110 section 6.5) as alternating names in lower case and values. Never empty: without trailers it is `undefined`. */
export type Trailers = readonly string[];

/**
 * The trailers of a message that may pass.
 *
 * A reader of a message may merge its trailers into its head. So a trailer must not be a field that belongs in a head: framing,
 * routing, authentication, or how the message must be read or answered (RFC 9110 section 6.5.1). Nor may a client send as a trailer
 * a field that the proxy drops from heads. All other names pass: a client could send them as fields.
 */
export function passableTrailers(trailers: Trailers): Trailers | undefined {
	if (trailers !== lastRead) {
		lastPassable = keptOf(trailers, mayBeTrailer);
		lastRead = trailers;
	}
	return lastPassable;
}

/** Repeated trailers are the same array (`http2/client/response-fields.ts`), so its identity is the key. */
let lastRead: Trailers | undefined;
let lastPassable: Trailers | undefined;

/** Trailers, or fields, without those that the message's `Connection` names (RFC 9110 section 7.6.1). */
export function withoutNamed(trailers: Trailers | undefined, named: ReadonlySet<string> | undefined) {
	return trailers === undefined || named === undefined ? trailers : keptOf(trailers, (name) => !named.has(name));
}

function keptOf(trailers: Trailers, isKept: (name: string) => boolean): Trailers | undefined {
	let dropped = 0;
	for (let i = 0; i < trailers.length; i += 2) if (!isKept(trailers[i]!)) dropped++;
	if (dropped === 0) return trailers;
	if (2 * dropped === trailers.length) return undefined;
	return trailers.filter((_, i) => isKept(trailers[i - (i % 2)]!));
}

/** @param name in lower case. */
export function mayBeTrailer(name: string): boolean {
	// The reader of the message should have refused it already: control data of HTTP/2 is not a field.
	if (!isLowerCaseToken(name)) return false;
	const folded = foldedName(name);
	if (PERMITTED.has(folded)) return true;
	return !FORBIDDEN.has(folded) && !FORBIDDEN_FAMILIES.test(folded);
}

/**
 * The names of a `Trailer` field (RFC 9110 section 6.6.2) that the proxy announces as well, in lower case.
 *
 * @param announced the field's values, with commas between.
 */
export function announcedNames(announced: string): string {
	if (announced === '') return '';
	const names = announced.split(',').map((name) => name.trim().toLowerCase());
	return [...new Set(names)].filter(mayBeTrailer).join(', ');
}

/** The names of the trailers themselves, each once. */
export function namesOf(trailers: Trailers): string {
	return [...new Set(trailers.filter((_, i) => i % 2 === 0))].join(', ');
}

/** By folded name (`foldedName`): every spelling that a reader could take for one of these is forbidden. */
const FORBIDDEN: ReadonlySet<string> = new Set([
	// Framing, and hop-by-hop fields.
	...['transfer-encoding', 'te', 'trailer', 'connection', 'keep-alive', 'upgrade', 'http2-settings'],
	// Routing, and where the request came from.
	...['host', 'forwarded', 'x-real-ip', 'via', 'max-forwards', 'origin', 'referer', 'user-agent', 'from'],
	...['script-name', 'path-info', 'x-script-name', 'alt-svc', 'alt-used'],
	// Authentication.
	...['authorization', 'www-authenticate', 'authentication-info', 'client-cert', 'client-cert-chain', 'dpop'],
	...['cookie', 'cookie2', 'set-cookie', 'set-cookie2'],
	// Correlation.
	...['traceparent', 'tracestate', 'baggage', 'x-request-id'],
	// How to read the request.
	...[
		'expect',
		'range',
		'accept',
		'prefer',
		'pragma',
		'idempotency-key',
		'early-data',
		'priority',
		'x-method-override',
	],
	// How to read, cache or follow up the response.
	...[
		'age',
		'allow',
		'cache-control',
		'date',
		'expires',
		'last-modified',
		'location',
		'refresh',
		'retry-after',
		'server',
	],
	...['vary', 'warning', 'preference-applied', 'ratelimit', 'ratelimit-policy', 'clear-site-data', 'x-frame-options'],
	...['strict-transport-security', 'x-content-type-options', 'x-xss-protection', 'x-sendfile', 'status'],
]);

/** Beginnings of folded names. */
const FORBIDDEN_FAMILIES = new RegExp(
	`^(?:${[
		...['content-', 'accept-', 'if-', 'access-control-', 'proxy-', 'sec-', 'cdn-', 'cache-', 'cross-origin-'],
		...['x-proxy-', 'x-forwarded-', 'x-original-', 'x-rewrite-', 'x-http-method', 'x-accel-'],
	].join('|')})`,
);

/** RFC 9530 section 2: designed for trailers. */
const PERMITTED: ReadonlySet<string> = new Set(['content-digest']);
