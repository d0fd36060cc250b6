import { CodedName, codedField, codedInteger } from '../../http2/hpack-encoder.ts';
import { SENSITIVE } from '../../http2/sensitive-names.ts';
import type { HeadWriter } from '../client/outgoing-head.ts';
import { TextMemo } from './text-memo.ts';

/**
 * The header block of a request on its way to an HTTP/2 upstream, all but `:scheme` (RFC 9113 section 8.3.1). It is coded without a dynamic
 * table. So it is the same on every connection, one tenant's fields cannot shorten another's, and repeated fields are coded once. Requests
 * of one client connection mostly differ only in their targets.
 */
export class OutgoingBlock implements HeadWriter {
	/** Coded. */
	readonly #forwarded: string;
	#tenant = '';
	#certificate = '';
	/** `undefined`: no request so far. */
	#lines: string | undefined;
	#framing = '';
	#block = '';
	#isFlat = false;
	#sensitivity = 0;

	/** @param forwarded lines of the connection. */
	constructor(forwarded: string) {
		this.#forwarded = codedLines(forwarded);
	}

	/** Takes the arguments of `OutgoingHead.write`. */
	write(
		method: string,
		target: string,
		versionAndHost: string,
		tenant: string,
		certificate: string,
		own: string,
		lines: string,
		framing: string,
	): string {
		const isLast =
			tenant === this.#tenant &&
			certificate === this.#certificate &&
			framing === this.#framing &&
			lines === this.#lines &&
			SENSITIVE.version === this.#sensitivity;
		if (!isLast) {
			this.#sensitivity = SENSITIVE.version;
			this.#tenant = tenant;
			this.#certificate = certificate;
			this.#lines = lines;
			this.#framing = framing;
			const own = codedLines(tenant) + codedLines(certificate) + codedLines(lines) + codedLines(framing);
			this.#block = this.#forwarded + own + TAKES_TRAILERS;
			this.#isFlat = false;
		} else if (!this.#isFlat) {
			this.#block = Buffer.from(this.#block, 'latin1').toString('latin1');
			this.#isFlat = true;
		}
		const control =
			METHODS.get(method) + PATH + codedInteger(target.length, 0x7f, 0) + target + OPENINGS.get(versionAndHost);
		return control + codedLines(own) + this.#block;
	}
}

const HTTP = codedField(':scheme', 'http');
const HTTPS = codedField(':scheme', 'https');

/** The `:scheme` that the connection puts before the block. */
export function schemeField(isTls: boolean): string {
	return isTls ? HTTPS : HTTP;
}

/** The field that an extended CONNECT has before that (RFC 8441 section 4). */
export function webSocketField(): string {
	return codedField(':protocol', 'websocket');
}

/** RFC 9110 section 10.1.4: the proxy accepts trailers, whatever its client does. gRPC servers require it. */
const TAKES_TRAILERS = codedField('te', 'trailers');
/** Literal never indexed, name of the static table (RFC 7541 section 6.2.3): paths hold identifiers. */
const PATH = '\x14';
/** Fields that apply only to an HTTP/1.1 connection (RFC 9113 section 8.2.2). */
const DROPPED = new Set(['transfer-encoding', 'connection', 'keep-alive', 'proxy-connection', 'upgrade', 'host']);

/** Codes lines, each ended by CRLF, with names in any letter case. */
export function codedLines(lines: string): string {
	let block = '';
	for (let at = 0; at < lines.length; ) {
		const end = lines.indexOf('\r\n', at);
		const colon = lines.indexOf(':', at);
		const name = nameOf(lines.slice(at, colon));
		if (name !== null) block += name.field(valueIn(lines, colon + 1, end));
		at = end + 2;
	}
	return block;
}

/** By the name as it is spelled; `null`: dropped. */
let names = new Map<string, CodedName | null>();
const MAX_NAMES = 1024;
/** Longer names are not remembered, characters. */
const MAX_NAME = 64;

function nameOf(spelled: string): CodedName | null {
	const known = names.get(spelled);
	if (known !== undefined) return known;
	const lower = spelled.toLowerCase();
	const name = DROPPED.has(lower) ? null : new CodedName(lower);
	if (spelled.length <= MAX_NAME) {
		if (names.size === MAX_NAMES) names = new Map();
		// A copy: a substring would keep all lines in memory.
		names.set(Buffer.from(spelled, 'latin1').toString('latin1'), name);
	}
	return name;
}

/** The value without surrounding blanks (RFC 9110 section 5.5). Only SP and HTAB are blanks: 0xA0 ends many UTF-8 letters. */
function valueIn(lines: string, from: number, to: number): string {
	while (from < to && isBlank(lines.charCodeAt(from))) from++;
	while (from < to && isBlank(lines.charCodeAt(to - 1))) to--;
	return lines.slice(from, to);
}

function isBlank(code: number): boolean {
	return code === 0x20 || code === 0x09;
}

/** Few methods are let through (`gates/method.ts`). */
const METHODS = new TextMemo((method) => codedField(':method', method), 4_096);

/**
 * By `versionAndHost`: `:authority`, and the lines of the route. There are as many as there are addresses; a route may pass on the
 * authority that its clients name.
 */
const OPENINGS = new TextMemo((versionAndHost) => {
	const [, host = '', ...lines] = versionAndHost.split('\r\n');
	return codedField(':authority', host.slice('host: '.length)) + codedLines(lines.join('\r\n'));
}, 262_144);

SENSITIVE.clears(() => {
	names = new Map();
	METHODS.clear();
	OPENINGS.clear();
});
