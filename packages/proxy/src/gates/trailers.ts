import { isLowerCaseToken } from '@mtls-edge-proxy/gate/gates/grammar.ts';
import { foldedName } from './headers.ts';

/** Names (lower case) and values in turn, as they follow a message's content (RFC 9110 section 6.5). Never empty: no trailers are `undefined`. */
export type Trailers = readonly string[];

/**
 * Those of a message's trailers that may pass.
 *
 * A reader of a message may merge its trailers into its head. So a trailer must not say what is asked of a head only: where the message
 * ends or goes, who sends it, how it is to be read or answered (RFC 9110 section 6.5.1); and a client must not say by a trailer what the
 * proxy lets nobody say by a field. All other names pass: a client could send them as fields.
 */
export function passableTrailers(trailers: Trailers): Trailers | undefined {
	if (trailers !== lastRead) {
		lastPassable = keptOf(trailers, mayBeTrailer);
		lastRead = trailers;
	}
	return lastPassable;
}

/** Where trailers come again, so does their list (`http2/client/response-fields.ts`). */
let lastRead: Trailers | undefined;
let lastPassable: Trailers | undefined;

/** What is left of trailers, or of fields, without those that the message's `Connection` names (RFC 9110 section 7.6.1). */
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
	// Whoever has read them should have seen to it: control data of HTTP/2 is no field.
	if (!isLowerCaseToken(name)) return false;
	const folded = foldedName(name);
	if (PERMITTED.has(folded)) return true;
	return !FORBIDDEN.has(folded) && !FORBIDDEN_FAMILIES.some((family) => folded.startsWith(family));
}

/**
 * The names of a `Trailer` field (RFC 9110 section 6.6.2) that may be announced again, in lower case.
 *
 * @param announced the field's values, with commas between.
 */
export function announcedNames(announced: string): string {
	if (announced === '') return '';
	const names = announced.split(',').map((name) => name.trim().toLowerCase());
	return [...new Set(names)].filter(mayBeTrailer).join(', ');
}

/** Those of the trailers themselves, each once. */
export function namesOf(trailers: Trailers): string {
	return [...new Set(trailers.filter((_, i) => i % 2 === 0))].join(', ');
}

/** By folded name (`foldedName`): any spelling that a reader could take for one of these is one. */
const FORBIDDEN: ReadonlySet<string> = new Set([
	// Where the message ends, and what is between two neighbours only.
	...['transfer-encoding', 'te', 'trailer', 'connection', 'keep-alive', 'upgrade', 'http2-settings'],
	// Where it goes, and by whom it was asked.
	...['host', 'forwarded', 'x-real-ip', 'via', 'max-forwards', 'origin', 'referer', 'user-agent', 'from'],
	...['script-name', 'path-info', 'x-script-name', 'alt-svc', 'alt-used'],
	// Who asks.
	...['authorization', 'www-authenticate', 'authentication-info', 'client-cert', 'client-cert-chain', 'dpop'],
	...['cookie', 'cookie2', 'set-cookie', 'set-cookie2'],
	// By what the request is found again.
	...['traceparent', 'tracestate', 'baggage', 'x-request-id'],
	// How the request is to be read.
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
	// How the response is to be read, kept, or followed up.
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
const FORBIDDEN_FAMILIES: readonly string[] = [
	...['content-', 'accept-', 'if-', 'access-control-', 'proxy-', 'sec-', 'cdn-', 'cache-', 'cross-origin-'],
	...['x-proxy-', 'x-forwarded-', 'x-original-', 'x-rewrite-', 'x-http-method', 'x-accel-'],
];

/** RFC 9530 section 2: made for the trailers. */
const PERMITTED: ReadonlySet<string> = new Set(['content-digest']);
