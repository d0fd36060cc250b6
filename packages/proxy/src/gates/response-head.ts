import { parseContentLength, UNDECLARED } from './body-limit.ts';
import { namedByConnection } from './field-kinds.ts';

/**
 * Reads an upstream's response head, field by field: the fields for the client, the end of the message (RFC 9112 section 6.3), and
 * whether the connection can be reused. Framing fields are not passed on: the response gets its own framing.
 */
export class ResponseHeadReader {
	/** Fields for the client: alternating names and values, names in lower case as HTTP/2 requires. */
	fields: string[] = [];
	/** Bytes of the body as announced; `UNDECLARED`: not announced. */
	length = UNDECLARED;
	chunked = false;
	/** The protocol that the response switches to; `null`: more than one. */
	upgrade: string | null | undefined = undefined;
	/** The connection ends with this response. */
	close = false;
	/** For how long the upstream keeps an idle connection, ms; `undefined`: it does not say. */
	keepAliveTimeoutMs: number | undefined = undefined;
	/** Why the framing is ambiguous or invalid. */
	malformed: string | undefined = undefined;
	/** Values of `Trailer` fields, with commas between; empty: none. */
	announcedTrailers = '';
	/** Names that `Connection` fields declare hop-by-hop, in lower case; `undefined`: none. */
	named: Set<string> | undefined = undefined;

	field({ lower, kind }: ResponseField, value: string): void {
		switch (kind) {
			case FORWARD:
				this.fields.push(lower, value);
				break;
			case CONTENT_LENGTH:
				this.#length(value);
				break;
			case TRANSFER_ENCODING:
				// Only a single `chunked` is accepted: the proxy cannot decode another coding, nor find its end.
				if (value.toLowerCase() !== 'chunked') this.malformed = 'transfer coding other than chunked';
				else if (this.chunked) this.malformed = 'two transfer codings';
				this.chunked = true;
				break;
			case CONNECTION:
				// Nearly every upstream sends this, and it says nothing.
				if (value === 'keep-alive') break;
				this.named = namedByConnection(value, this.named);
				if (CLOSE.test(value)) this.close = true;
				break;
			case KEEP_ALIVE:
				this.#keepAlive(value);
				break;
			case UPGRADE:
				this.upgrade = this.upgrade === undefined ? value : null;
				break;
			case TRAILER:
				this.announcedTrailers += this.announcedTrailers === '' ? value : `, ${value}`;
				break;
			case VARY:
				// RFC 9440 section 2.4: the client has not sent that field, so a cache on its side would serve one answer for all requests.
				this.fields.push(lower, OUR_WORD.test(value) ? '*' : value);
				break;
		}
	}

	/** `Connection` names `upgrade`. */
	get namesUpgrade(): boolean {
		return this.named?.has('upgrade') === true;
	}

	finish(): void {
		if (this.chunked && this.length !== UNDECLARED) this.malformed ??= 'both content-length and transfer-encoding';
		const named = this.named;
		if (named !== undefined) {
			this.fields = this.fields.filter((_, i, fields) => !named.has(fields[i - (i % 2)]!));
		}
	}

	#length(value: string): void {
		const length = parseContentLength(value);
		if (length === undefined) this.malformed = 'malformed content-length';
		else if (this.length !== UNDECLARED) this.malformed = 'two content-lengths';
		else this.length = length;
	}

	#keepAlive(value: string): void {
		const timeout = /(?:^|[,;\s])timeout\s*=\s*([0-9]{1,6})/i.exec(value);
		if (timeout !== null) this.keepAliveTimeoutMs = Number(timeout[1]) * 1000;
	}
}

/** A field about the client's certificate, which only the proxy writes. */
const OUR_WORD = /(?:^|,)\s*(?:client-cert|client-cert-chain|x-forwarded-client-cert)\s*(?:,|$)/i;

const CLOSE = /(?:^|,)\s*close\s*(?:,|$)/i;

const FORWARD = 0;
const DROP = 1;
const CONTENT_LENGTH = 2;
const TRANSFER_ENCODING = 3;
const CONNECTION = 4;
const KEEP_ALIVE = 5;
const VARY = 6;
const UPGRADE = 7;
const TRAILER = 8;

/** Fields of a response that are not forwarded as they are: hop-by-hop fields and framing, which the response gets anew; and `vary`. */
const RESPONSE_FIELDS = new Map<string, number>([
	['content-length', CONTENT_LENGTH],
	['transfer-encoding', TRANSFER_ENCODING],
	['connection', CONNECTION],
	['keep-alive', KEEP_ALIVE],
	['proxy-connection', DROP],
	['proxy-authenticate', DROP],
	['te', DROP],
	['trailer', TRAILER],
	['upgrade', UPGRADE],
	['vary', VARY],
	// Meaningless in a response, and forbidden in HTTP/2 (RFC 9113 section 8.2.2).
	['http2-settings', DROP],
]);

/** A field's name and its kind. */
export interface ResponseField {
	/** The name as it was spelled, and the colon. */
	readonly opening: string;
	readonly lower: string;
	readonly kind: number;
}

export function responseField(name: string): ResponseField {
	const lower = name.toLowerCase();
	return { opening: `${name}:`, lower, kind: RESPONSE_FIELDS.get(lower) ?? FORWARD };
}
