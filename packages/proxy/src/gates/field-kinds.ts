/**
 * Which fields of a request have a meaning for the proxy, by name: those that it reads, those that it forwards, and those that must
 * never pass.
 */

/** Which identifiers are read apart from the lines of a request: none, those of its trace, or its own as well (`x-request-id`). */
export type Identifiers = 'none' | 'trace' | 'trace and request';

export const FORWARD = 0;
/** Hop-by-hop (RFC 9110 section 7.6.1) and related fields: dropped. */
const DROP = 1;
export const AUTHORIZATION = 2;
export const HOST = 3;
export const CONTENT_LENGTH = 4;
export const TRANSFER_ENCODING = 5;
export const CONNECTION = 6;
export const UPGRADE = 7;
export const EXPECT = 8;
export const COOKIE = 9;
export const TRACEPARENT = 10;
export const TRACESTATE = 11;
export const REQUEST_ID = 12;
/** Only the proxy may write it: a client's is dropped. */
const OWN = 13;
/** Its name could be read as one of the above: dropped. */
const FOLDED = 14;
/** Written by the proxy on some routes (`forwarding.ts`), by the client on all others. Its name may be spelled in any way. */
export const ORIGIN = 15;
/** Some upstreams use its value in place of the path that the gates have judged: dropped. */
const PATH = 16;
/** Forwarded. Only this exact name counts: a folded spelling is another field. */
export const CONTENT_TYPE = 17;
/** Read apart from the lines if the request is a gRPC call, and otherwise forwarded like any field. */
export const GRPC_TIMEOUT = 18;
/** Hop-by-hop, and reported (`acceptsTrailers`, `announcedTrailers`). */
export const TE = 19;
export const TRAILER = 20;

/**
 * How many names are remembered with their kind, a power of two. Below, the longest of them in characters: all names with a meaning
 * are shorter.
 */
const RECENT_NAMES = 1024;
/** Reduces 32 bits to the index of a place. */
const PLACE_SHIFT = 32 - 10;
const MAX_RECENT_NAME = 64;

/** Fields with a meaning of their own, by lower-case name; all others are forwarded. */
export interface FieldTable {
	readonly kinds: ReadonlyMap<string, number>;
	/** 1 if some name of the table has that length. Most fields have another length, and need no lookup. */
	readonly lengths: Uint8Array;
	/** The last names that were found, by a hash of the name. */
	readonly recent: ({ readonly name: string; readonly kind: number } | undefined)[];
}

const REQUEST_FIELDS = fieldTable([
	['authorization', AUTHORIZATION],
	['host', HOST],
	['content-length', CONTENT_LENGTH],
	['transfer-encoding', TRANSFER_ENCODING],
	['connection', CONNECTION],
	['upgrade', UPGRADE],
	['expect', EXPECT],
	['cookie', COOKIE],
	['content-type', CONTENT_TYPE],
	['grpc-timeout', GRPC_TIMEOUT],
	['keep-alive', DROP],
	['proxy-connection', DROP],
	['proxy-authenticate', DROP],
	['proxy-authorization', DROP],
	['te', TE],
	['trailer', TRAILER],
	['http2-settings', DROP],
	['x-proxy-tenant', OWN],
	['x-forwarded-for', OWN],
	['x-forwarded-proto', OWN],
	['forwarded', OWN],
	['x-real-ip', OWN],
	// Dropped even if the proxy writes none of them: an upstream that reads them would trust the client (RFC 9440 section 4).
	['client-cert', OWN],
	['client-cert-chain', OWN],
	['x-forwarded-client-cert', OWN],
	// Gunicorn cuts `SCRIPT_NAME` from the path of a request that comes from the same machine.
	['script-name', PATH],
	['path-info', PATH],
	['x-script-name', PATH],
	// URL rewriting of IIS, and the frameworks that know it: Symfony before 4.1.3, Laminas.
	['x-original-url', PATH],
	['x-rewrite-url', PATH],
	['x-forwarded-host', ORIGIN],
	['x-forwarded-port', ORIGIN],
	['x-forwarded-prefix', ORIGIN],
]);

/** If requests are traced (`trace-context.ts`). */
const TRACED_FIELDS = fieldTable([...REQUEST_FIELDS.kinds, ['traceparent', TRACEPARENT], ['tracestate', TRACESTATE]]);
/** If they also get identifiers of their own (`correlation.ts`). */
const IDENTIFIED_FIELDS = fieldTable([...TRACED_FIELDS.kinds, ['x-request-id', REQUEST_ID]]);

/** By the identifiers that are read apart. */
export const FIELDS_READ: Readonly<Record<Identifiers, FieldTable>> = {
	none: REQUEST_FIELDS,
	trace: TRACED_FIELDS,
	'trace and request': IDENTIFIED_FIELDS,
};

/** A field's name in the sender's spelling, and its kind. */
export interface RequestField {
	readonly name: string;
	readonly kind: number;
}

/** @param apart as for `readHttp1Head`. */
export function requestField(name: string, apart: Identifiers): RequestField {
	return { name, kind: kindOf(name, FIELDS_READ[apart]) };
}

/** Looks among the last names first: each request brings the same few, as new strings. */
export function kindOf(name: string, table: FieldTable): number {
	const { recent, lengths } = table;
	if (lengths[name.length] === 0) return FORWARD;
	const place = placeOf(name);
	const known = recent[place];
	if (known !== undefined && known.name === name) return known.kind;
	const kind = findKind(name, table);
	if (name.length <= MAX_RECENT_NAME) recent[place] = { name: Buffer.from(name, 'latin1').toString('latin1'), kind };
	return kind;
}

/** Spreads the usual fields over the places: two in one place would evict each other with each request. */
function placeOf(name: string): number {
	const { length } = name;
	const ends = name.charCodeAt(0) * 31 + name.charCodeAt(length - 1);
	const mixed = (ends * 31 + name.charCodeAt(length >> 1)) * 31 + length;
	return Math.imul(mixed, 0x9e3779b1) >>> PLACE_SHIFT;
}

function findKind(name: string, { kinds }: FieldTable): number {
	const kind = kinds.get(name) ?? kinds.get(name.toLowerCase());
	if (kind !== undefined) return kind;
	// CGI and its descendants fold `-` and `_` into one (RFC 3875 section 4.1.18), some of them every character other than a letter
	// or digit. They would trust X_Proxy_Tenant.
	if (!/[^A-Za-z0-9-]/.test(name)) return FORWARD;
	const read = kinds.get(foldedName(name));
	if (read === undefined || read === CONTENT_TYPE || read === GRPC_TIMEOUT) return FORWARD;
	return read === ORIGIN || read === PATH ? read : FOLDED;
}

/** A name as the reader sees it that folds the most characters. */
export function foldedName(name: string): string {
	return name.toLowerCase().replaceAll(/[^a-z0-9]/g, '-');
}

/**
 * Header lines without those of some names, in any spelling that could be taken for one of them.
 *
 * @param lines each ended by CRLF.
 * @param names folded.
 */
export function withoutFields(lines: string, names: ReadonlySet<string>): string {
	const kept = lines.split('\r\n').filter((line) => !names.has(foldedName(line.slice(0, line.indexOf(':')))));
	return kept.join('\r\n');
}

/** How a field reaches the upstream, or why it does not. */
export type FieldFate = 'forwarded' | 'rewritten' | 'hop-by-hop' | 'own' | 'path' | 'folded' | 'named by connection';

const HOP_BY_HOP_KINDS: ReadonlySet<number> = new Set([DROP, CONNECTION, UPGRADE, EXPECT, TE, TRAILER]);
const FORWARDED_KINDS: ReadonlySet<number> = new Set([FORWARD, AUTHORIZATION, COOKIE, ORIGIN, CONTENT_TYPE]);

/**
 * For explanations of a head that has been read.
 *
 * @param named by all the `Connection` fields of the head (`namedByConnection`).
 * @param apart as the head was read.
 */
export function fateOf(name: string, named: ReadonlySet<string> | undefined, apart: Identifiers): FieldFate {
	const kind = kindOf(name, FIELDS_READ[apart]);
	if (kind === OWN) return 'own';
	if (kind === PATH) return 'path';
	if (kind === FOLDED) return 'folded';
	if (kind === HOST || kind === CONTENT_LENGTH || kind === TRANSFER_ENCODING) return 'rewritten';
	if (HOP_BY_HOP_KINDS.has(kind)) return 'hop-by-hop';
	if (named?.has(name.toLowerCase())) return 'named by connection';
	return FORWARDED_KINDS.has(kind) ? 'forwarded' : 'rewritten';
}

/** Adds the fields that a `Connection` value declares hop-by-hop (RFC 9110 section 7.6.1). */
export function namedByConnection(value: string, named: Set<string> | undefined): Set<string> | undefined {
	const lower = value.toLowerCase();
	// Nearly every client sends one of these; they name no field.
	if (lower === 'keep-alive' || lower === 'close') return named;
	const names = named ?? new Set<string>();
	for (const option of lower.split(',')) names.add(option.trim());
	return names;
}

/** Builds the forwarded lines again, for the rare request whose `Connection` names fields. */
export function withoutNamed(raw: readonly string[], named: ReadonlySet<string>, fields: FieldTable): string {
	let lines = '';
	for (let i = 0; i < raw.length; i += 2) {
		const name = raw[i]!;
		if (name.charCodeAt(0) === COLON) continue;
		const kind = kindOf(name, fields);
		// The crumbs of a cookie are joined after the other lines.
		if (kind !== COOKIE && FORWARDED_KINDS.has(kind) && !named.has(name.toLowerCase())) {
			lines += `${name}: ${raw[i + 1]}\r\n`;
		}
	}
	return lines;
}

/** The lengths end at 256; `undefined === 0` is false for longer names. */
function fieldTable(entries: Iterable<readonly [name: string, kind: number]>): FieldTable {
	const kinds = new Map(entries);
	const lengths = new Uint8Array(256);
	for (const name of kinds.keys()) lengths[name.length] = 1;
	return { kinds, lengths, recent: new Array(RECENT_NAMES).fill(undefined) };
}

const COLON = 0x3a;
