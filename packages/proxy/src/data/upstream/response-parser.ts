import { UNDECLARED } from '../../gates/body-limit.ts';
import { ResponseHeadReader } from '../../gates/response-head.ts';
import { type Trailers, withoutNamed } from '../../gates/trailers.ts';
import { ResponseFields } from '../client/response-fields.ts';
import { ChunkDecoder } from '../http1/chunk-decoder.ts';
import { UnreadBytes } from '../http1/unread-bytes.ts';
import { ResponseHeads } from '../memo/response-heads.ts';
import type { ResponseEvents } from './contract.ts';
import { endOfStatusLine, isHttp11, readFields, readStatus } from './head-lines.ts';
import { ProtocolError, type ResponseHead, responseHead } from './response-head.ts';

/** A head longer than this is refused, bytes. */
const MAX_HEAD = 65_536;
/** Interim responses before the final one; more are a flood. */
const MAX_INTERIM = 32;

const HEAD = 0;
const FIXED = 1;
const UNTIL_CLOSE = 2;
const CHUNKED = 3;
const DONE = 4;
const TUNNEL = 5;

/**
 * Parses HTTP/1.1 responses (RFC 9112) to known requests on one connection, from reads cut anywhere. Strict: a response
 * that two readers could understand in two ways is an error, never repaired, since the connection behind it is shared
 * by tenants.
 */
export class ResponseParser {
	/** The connection may serve another request after this response. */
	keepAlive = false;
	/** Milliseconds for which the upstream promises to keep an idle connection; `undefined`: it says nothing. */
	keepAliveTimeoutMs: number | undefined = undefined;
	/** A byte of the current response has arrived. */
	started = false;
	/** Of the last response, as the upstream has sent them. */
	trailers: Trailers | undefined = undefined;
	/** Price of what responses do not need, in tokens (`PeerShare`). The connection that charges them sets it to 0. */
	cost = 0;
	#events: ResponseEvents | undefined;
	#state = DONE;
	#headRequest = false;
	#mayLeaveHttp = false;
	#interim = 0;
	/** Bytes still to come of a body with a known length. */
	#left = 0;
	#chunks: ChunkDecoder | undefined = undefined;
	/** Names of hop-by-hop trailers. */
	#named: ReadonlySet<string> | undefined = undefined;
	/** Announced length of the body, bytes. */
	#length = UNDECLARED;
	readonly #heads: ResponseHeads;
	readonly #endIsKnown: boolean;
	readonly #maxTrailers: number;
	/** The part of a head, or of a line of a chunked body, that has arrived so far. */
	readonly #pending = new UnreadBytes();
	/** Bytes of an incomplete head that have been searched: a head that comes byte by byte must not be searched from its start each time. */
	#searched = 0;

	/**
	 * @param heads of all connections to the upstream.
	 * @param endIsKnown whether only the upstream can end the connection, so that its end may end a response.
	 * @param maxTrailers longest trailers with their empty line, bytes.
	 */
	constructor(heads = new ResponseHeads(), endIsKnown = true, maxTrailers = MAX_HEAD) {
		this.#heads = heads;
		this.#endIsKnown = endIsKnown;
		this.#maxTrailers = maxTrailers;
	}

	/** No response is under way. */
	get isDone(): boolean {
		return this.#state === DONE;
	}

	/** The upstream has left HTTP: the bytes are not a response. */
	get isTunnel(): boolean {
		return this.#state === TUNNEL;
	}

	/** A request has been sent; the next bytes are its response. @param mayLeaveHttp it asks for a WebSocket. */
	expect(method: string, events: ResponseEvents, mayLeaveHttp = false): void {
		this.#events = events;
		this.#state = HEAD;
		this.#headRequest = method === 'HEAD';
		this.#mayLeaveHttp = mayLeaveHttp;
		this.#interim = 0;
		this.#pending.clear();
		this.#searched = 0;
		this.started = false;
		this.keepAlive = false;
		this.keepAliveTimeoutMs = undefined;
		this.trailers = undefined;
	}

	/** Nobody wants the rest of the response. */
	drop(): void {
		this.#events = undefined;
	}

	/**
	 * Consumes one read.
	 *
	 * @returns the number of bytes that belong to the response; fewer than given: others follow its end.
	 * @throws ProtocolError
	 */
	push(bytes: Buffer): number {
		this.started = true;
		const pending = this.#pending;
		const before = pending.bytes?.length ?? 0;
		if (before > 0) pending.add(bytes);
		const chunk = pending.bytes ?? bytes;
		let at = 0;
		while (at < chunk.length && this.#state !== DONE) {
			const next = this.#step(chunk, at);
			if (next === -1) {
				this.#keep(chunk, at);
				return bytes.length;
			}
			at = next;
		}
		// All of it was taken, or what was not is kept as another view.
		if (pending.bytes === chunk) pending.clear();
		return at - before;
	}

	#keep(chunk: Buffer, at: number): void {
		const pending = this.#pending;
		if (pending.bytes === chunk) return pending.leave(chunk, at);
		pending.add(chunk.subarray(at));
		pending.keep();
	}

	/** Bytes still to come of a body with a known length; 0: there is none, or something else comes first. */
	get leftOfBody(): number {
		return this.#state === FIXED ? this.#left : 0;
	}

	/** Counts bytes of a body with a known length, at most `leftOfBody`, that were read without `push`. */
	skip(bytes: number): void {
		this.#left -= bytes;
		if (this.#left === 0) this.#end();
	}

	/**
	 * The upstream has closed its side.
	 *
	 * @returns whether that completes the response.
	 */
	close(): boolean {
		if (this.#state === UNTIL_CLOSE) this.#end();
		return this.#state === DONE;
	}

	/** Position in the response, for one that breaks off: `after 312 of 1,024 bytes`. */
	get place(): string {
		if (!this.started) return 'before a response';
		if (this.#state === HEAD) return 'within the head';
		if (this.#state !== FIXED) return 'within a chunked body';
		const inWords = (bytes: number) => bytes.toLocaleString('en-US');
		return `after ${inWords(this.#length - this.#left)} of ${inWords(this.#length)} bytes`;
	}

	/** One step of the message's grammar; returns where the next begins, or -1 when it needs more bytes. */
	#step(chunk: Buffer, at: number): number {
		switch (this.#state) {
			case HEAD:
				return this.#head(chunk, at);
			case FIXED:
				return this.#data(chunk, at);
			case CHUNKED:
				return this.#chunked(chunk, at);
			default:
				this.#events?.onBody(at === 0 ? chunk : chunk.subarray(at));
				return chunk.length;
		}
	}

	#head(chunk: Buffer, at: number): number {
		const known = this.#heads.find(chunk, at);
		if (known !== undefined) {
			this.#begin(known);
			return at + known.bytes.length;
		}
		// Most heads are short, and searching text costs less than a call into the buffer's native search.
		const short = chunk.toString('latin1', at, at + SHORT_HEAD);
		const found = short.indexOf('\r\n\r\n');
		const isLong = found === -1 && chunk.length - at > SHORT_HEAD;
		// The delimiter may have been cut.
		const from = Math.max(at, at + this.#searched - 3);
		const end = found !== -1 ? at + found : isLong ? chunk.indexOf('\r\n\r\n', from, 'latin1') : -1;
		if (lengthSoFar(chunk, at, end, 4) > MAX_HEAD) throw new ProtocolError('head too long');
		if (end === -1) {
			// Detecting nonsense early avoids waiting for an end that will not come.
			if (!couldBeStatusLine(chunk, at)) throw new ProtocolError('no status line');
			if (hasBareLf(chunk, at, at + this.#searched)) throw new ProtocolError('bare LF in a head');
			this.#searched = chunk.length - at;
			this.cost += COSTS.partOfHead;
			return -1;
		}
		this.#searched = 0;
		const text = isLong ? chunk.toString('latin1', at, end + 2) : short;
		const status = readStatus(text);
		const reader = new ResponseHeadReader();
		// Remembered lines of a long head would keep all of it in memory.
		const lines = isLong ? [] : this.#heads.lines;
		const made = readFields(text, endOfStatusLine(text), end + 2 - at, reader, lines);
		if (status === 101 && this.#mayLeaveHttp) {
			// RFC 9110 section 7.8: `Upgrade` belongs to HTTP/1.1.
			if (!isHttp11(text)) throw new ProtocolError('switching protocols in HTTP/1.0');
			this.#leaveHttp(reader);
			return end + 4;
		}
		if (status < 200) {
			this.cost += COSTS.interim + made * COSTS.field;
			this.#interimResponse(status, isHttp11(text) && !reader.close);
			return end + 4;
		}
		this.cost += Math.max(0, made - FREE_FIELDS) * COSTS.field;
		const head = responseHead(status, isHttp11(text), reader);
		this.#begin(head);
		if (made === 0) this.#heads.remember(head, chunk.subarray(at, end + 4));
		return end + 4;
	}

	/** RFC 9110 section 15.2: 100, 102 and 103 end at this hop; 101 would leave HTTP, which was not requested. */
	#interimResponse(status: number, goesOn: boolean): void {
		if (status === 101) throw new ProtocolError('switching protocols without an upgrade request');
		// It promises another response behind it (HTTP/1.0 has none of this kind), so it cannot end the connection.
		if (!goesOn) throw new ProtocolError('interim response that ends the connection');
		if (++this.#interim > MAX_INTERIM) throw new ProtocolError('too many interim responses');
	}

	/** RFC 9110 section 15.2.2. The handshake checks the rest of the response (`gates/web-socket.ts`). */
	#leaveHttp(reader: ResponseHeadReader): void {
		if (reader.malformed !== undefined || reader.chunked || reader.length !== UNDECLARED) {
			throw new ProtocolError('ambiguous framing', { cause: 'a body after a 101' });
		}
		if (reader.upgrade?.toLowerCase() !== 'websocket' || !reader.namesUpgrade) {
			throw new ProtocolError('switching to a protocol other than websocket');
		}
		this.#state = TUNNEL;
		this.#events?.onTunnel?.(new ResponseFields(reader.fields));
	}

	/** The message body's length, RFC 9112 section 6.3, in that order. */
	#begin({ status, fields, length, chunked, keepAlive, keepAliveTimeoutMs, named }: ResponseHead): void {
		this.keepAlive = keepAlive;
		this.keepAliveTimeoutMs = keepAliveTimeoutMs;
		if (this.#headRequest || status === 204 || status === 205 || status === 304) {
			this.#events?.onHead(status, fields, length, false);
			return this.#end();
		}
		this.#length = length;
		this.#left = length;
		if (chunked) this.#chunks = new ChunkDecoder(this.#maxTrailers);
		this.#named = named;
		this.#state = chunked ? CHUNKED : length === UNDECLARED ? UNTIL_CLOSE : FIXED;
		if (this.#state === UNTIL_CLOSE) {
			// RFC 9112 section 9.8: without a close_notify it may be incomplete, and Node does not report that.
			if (!this.#endIsKnown) throw new ProtocolError('neither content-length nor chunked over TLS');
			this.keepAlive = false;
		}
		this.#events?.onHead(status, fields, length, true);
		if (length === 0) this.#end();
	}

	#data(chunk: Buffer, at: number): number {
		const end = Math.min(chunk.length, at + this.#left);
		this.#left -= end - at;
		this.#events?.onBody(chunk.subarray(at, end));
		if (this.#left === 0) this.#end();
		return end;
	}

	#chunked(chunk: Buffer, at: number): number {
		const chunks = this.#chunks!;
		const next = chunks.read(chunk, at);
		if (chunks.piece.length > 0) this.#events?.onBody(chunks.piece);
		this.cost += chunks.cost;
		if (chunks.problem !== undefined) throw new ProtocolError(chunks.problem);
		if (chunks.isComplete) {
			this.#end(withoutNamed(chunks.trailers, this.#named));
			return next;
		}
		if (next < chunk.length) this.#keep(chunk, next);
		return chunk.length;
	}

	#end(trailers?: Trailers): void {
		this.#state = DONE;
		this.#chunks = undefined;
		this.#events = undefined;
		this.trailers = trailers;
	}
}

/** Tokens. */
const COSTS = {
	/** A read that does not complete a head. */
	partOfHead: 3,
	interim: 2,
	/** A field that the last heads did not have. Heads have `FREE_FIELDS`, interim responses none. */
	field: 1 / 2,
} as const;
const FREE_FIELDS = 64;

const CR = 13;
const LF = 10;

/** Bytes. */
const SHORT_HEAD = 1024;

/**
 * The least length of data that ends with a delimiter. Until the delimiter is complete, its first bytes may be among those read,
 * and a limit must not depend on where a read ended.
 */
function lengthSoFar(chunk: Buffer, at: number, end: number, delimiter: number): number {
	return (end === -1 ? chunk.length - (delimiter - 1) : end) - at;
}

/** @param from where the search begins, in a head that begins at `at`. */
function hasBareLf(chunk: Buffer, at: number, from: number): boolean {
	for (let lf = chunk.indexOf(LF, from); lf !== -1; lf = chunk.indexOf(LF, lf + 1)) {
		if (lf === at || chunk[lf - 1] !== CR) return true;
	}
	return false;
}

function couldBeStatusLine(chunk: Buffer, at: number): boolean {
	const start = chunk.toString('latin1', at, Math.min(at + 7, chunk.length));
	return 'HTTP/1.'.startsWith(start);
}
