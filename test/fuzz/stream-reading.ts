import { FLAG, FRAME, PREFACE, SETTING } from '../fixtures/h2-frames.ts';
import { CompressionError, HpackReader } from './hpack.ts';
import { isAuthority, type SentRequest } from './request-reading.ts';
import { valuesOf } from './response-reading.ts';
import type { Field } from './responses.ts';

export interface SentStreams {
	/** Requests that a strict parser accepts, by stream. */
	readonly requests: ReadonlyMap<number, SentRequest>;
	/** Complete requests that the client has not reset: they get a response. */
	readonly awaited: readonly number[];
	/** Streams with a complete head, valid or not. */
	readonly opened: ReadonlySet<number>;
	/** The bytes from here on are not HTTP/2. */
	readonly isBroken: boolean;
	/** Bytes after the last whole frame, or an unfinished header block: later bytes have no effect. */
	readonly isUnfinished: boolean;
	/** The client prevents complete responses, by its windows or by a GOAWAY. */
	readonly holdsBack: boolean;
}

interface Stream {
	readonly fields: readonly Field[];
	body: string;
	/** The client has ended its side. */
	ended: boolean;
	/** The client reset it before that. */
	reset: boolean;
	malformed: boolean;
}

const MAX_FRAME = 16_384;

/**
 * Parses what a client sent over HTTP/2, by RFC 9113 and the stricter rules of docs/reference/protocol-strictness.md. What this parser does
 * not find, the upstream must never see.
 */
export function readStreams(bytes: string): SentStreams {
	return new StreamReader().read(bytes);
}

/** Thrown for a connection error (RFC 9113 section 5.4.1). */
class ConnectionError extends Error {}

class StreamReader {
	readonly #hpack = new HpackReader();
	readonly #streams = new Map<number, Stream>();
	#highest = 0;
	/** A header block that continues in CONTINUATION. */
	#block: { stream: number; text: string; endStream: boolean } | undefined;
	#holdsBack = false;

	read(bytes: string): SentStreams {
		const preface = PREFACE.toString('latin1');
		let at = preface.length;
		let isBroken = !bytes.startsWith(preface);
		try {
			while (!isBroken && at + 9 <= bytes.length) {
				const length = uint(bytes, at, 3);
				const type = bytes.charCodeAt(at + 3);
				// The frame's header is judged before its payload has arrived.
				if (length > MAX_FRAME) throw new ConnectionError('frame too long');
				const end = at + 9 + length;
				const flags = bytes.charCodeAt(at + 4);
				const id = uint(bytes, at + 5, 4) % 2 ** 31;
				if (end > bytes.length) {
					if (type === FRAME.DATA && this.#block === undefined)
						this.#partOfData(flags, id, bytes.slice(at + 9), length);
					break;
				}
				if (at === preface.length && type !== FRAME.SETTINGS)
					throw new ConnectionError('the first frame is not SETTINGS');
				this.#frame(type, flags, id, bytes.slice(at + 9, end));
				at = end;
			}
		} catch (error) {
			if (!(error instanceof ConnectionError || error instanceof CompressionError)) throw error;
			isBroken = true;
		}
		const requests = new Map<number, SentRequest>();
		for (const [id, stream] of this.#streams) {
			const request = asRequest(stream);
			if (request !== undefined) requests.set(id, request);
		}
		return {
			requests,
			awaited: [...requests]
				.filter(([id, { isComplete }]) => isComplete && !this.#streams.get(id)!.reset)
				.map(([id]) => id),
			opened: new Set(this.#streams.keys()),
			isBroken,
			isUnfinished: at < bytes.length || this.#block !== undefined,
			holdsBack: this.#holdsBack,
		};
	}

	#frame(type: number, flags: number, id: number, payload: string): void {
		if (this.#block !== undefined && (type !== FRAME.CONTINUATION || id !== this.#block.stream)) {
			throw new ConnectionError('a header block is interrupted');
		}
		switch (type) {
			case FRAME.DATA:
				return this.#data(flags, id, payload);
			case FRAME.HEADERS:
				return this.#headers(flags, id, payload);
			case FRAME.CONTINUATION:
				return this.#continuation(flags, payload);
			case FRAME.RST_STREAM: {
				if (payload.length !== 4 || id === 0 || id > this.#highest) throw new ConnectionError('RST_STREAM');
				const stream = this.#streams.get(id);
				if (stream !== undefined) stream.reset = true;
				return;
			}
			case FRAME.SETTINGS:
				return this.#settings(flags, id, payload);
			case FRAME.PING:
				if (payload.length !== 8 || id !== 0) throw new ConnectionError('PING');
				return;
			case FRAME.GOAWAY:
				if (payload.length < 8 || id !== 0) throw new ConnectionError('GOAWAY');
				this.#holdsBack = true;
				return;
			case FRAME.WINDOW_UPDATE:
				if (payload.length !== 4 || (id === 0 && uint(payload, 0, 4) % 2 ** 31 === 0))
					throw new ConnectionError('WINDOW_UPDATE');
				return;
			case FRAME.PUSH_PROMISE:
				throw new ConnectionError('PUSH_PROMISE');
		}
	}

	#data(flags: number, id: number, payload: string): void {
		if (id === 0 || id > this.#highest) throw new ConnectionError('DATA on no stream');
		const stream = this.#streams.get(id);
		// Dropped without a check of its padding.
		if (stream === undefined || stream.ended || stream.reset) return;
		stream.body += unpadded(flags, payload);
		if (flags & FLAG.END_STREAM) stream.ended = true;
	}

	/** Content counts as it arrives, even of an incomplete frame. */
	#partOfData(flags: number, id: number, payload: string, length: number): void {
		const isPadded = (flags & FLAG.PADDED) !== 0;
		const end = isPadded ? length - payload.charCodeAt(0) : length;
		const stream = this.#streams.get(id);
		if (stream !== undefined && !stream.ended && !stream.reset) stream.body += payload.slice(isPadded ? 1 : 0, end);
	}

	#headers(flags: number, id: number, payload: string): void {
		if (id === 0 || id % 2 === 0) throw new ConnectionError('HEADERS on a stream that is not the client to open');
		let text = unpadded(flags, payload);
		if (flags & FLAG.PRIORITY) {
			if (text.length < 5) throw new ConnectionError('a priority that breaks off');
			text = text.slice(5);
		}
		this.#block = { stream: id, text, endStream: (flags & FLAG.END_STREAM) !== 0 };
		if (flags & FLAG.END_HEADERS) this.#endOfBlock();
	}

	#continuation(flags: number, payload: string): void {
		if (this.#block === undefined) throw new ConnectionError('CONTINUATION without HEADERS');
		this.#block.text += payload;
		if (flags & FLAG.END_HEADERS) this.#endOfBlock();
	}

	#endOfBlock(): void {
		const { stream: id, text, endStream } = this.#block!;
		this.#block = undefined;
		const fields = this.#hpack.read(text);
		const known = this.#streams.get(id);
		if (known === undefined) {
			// Streams open in order; a skipped one is closed (RFC 9113 section 5.1.1).
			if (id < this.#highest) return;
			this.#highest = id;
			this.#streams.set(id, { fields, body: '', ended: endStream, reset: false, malformed: false });
		} else if (!known.ended && !known.reset) {
			// Trailers: they end the stream and have no pseudo-headers (RFC 9113 section 8.1).
			if (!endStream || fields.some(([name]) => name.startsWith(':'))) known.malformed = true;
			known.ended = true;
		}
	}

	#settings(flags: number, id: number, payload: string): void {
		if (id !== 0 || payload.length % 6 !== 0) throw new ConnectionError('SETTINGS');
		if (flags & FLAG.ACK && payload !== '') throw new ConnectionError('SETTINGS that acknowledge and say something');
		for (let at = 0; at < payload.length; at += 6) {
			const setting = uint(payload, at, 2);
			const value = uint(payload, at + 2, 4);
			if (setting === SETTING.INITIAL_WINDOW_SIZE && value >= 2 ** 31) throw new ConnectionError('SETTINGS');
			if (setting === SETTING.ENABLE_PUSH && value > 1) throw new ConnectionError('SETTINGS');
			if (setting === SETTING.MAX_FRAME_SIZE && (value < 16_384 || value >= 2 ** 24)) {
				throw new ConnectionError('SETTINGS');
			}
			this.#holdsBack = true;
		}
	}
}

/** RFC 9113 section 6.1: the padding must leave room for itself. */
function unpadded(flags: number, payload: string): string {
	if (!(flags & FLAG.PADDED)) return payload;
	const padding = payload.charCodeAt(0);
	if (payload === '' || padding >= payload.length) throw new ConnectionError('padding');
	return payload.slice(1, payload.length - padding);
}

const PSEUDO = [':method', ':path', ':scheme', ':authority'];
const FORBIDDEN = ['connection', 'transfer-encoding', 'keep-alive', 'proxy-connection', 'upgrade'];

/** RFC 9113 sections 8.2 and 8.3. `undefined`: a malformed request, which no upstream may see. */
function asRequest({ fields, body, ended, reset, malformed }: Stream): SentRequest | undefined {
	const firstRegular = fields.findIndex(([name]) => !name.startsWith(':'));
	const regular = firstRegular === -1 ? [] : fields.slice(firstRegular);
	const pseudo = fields.slice(0, fields.length - regular.length);
	if (regular.some(([name]) => name.startsWith(':'))) return undefined;
	if (pseudo.some(([name], i) => !PSEUDO.includes(name) || pseudo.findIndex(([other]) => other === name) !== i))
		return undefined;
	const control = new Map(pseudo);
	const method = control.get(':method');
	const path = control.get(':path');
	const scheme = control.get(':scheme');
	if (method === undefined || path === undefined || scheme === undefined) return undefined;
	if (!/^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/.test(method) || !/^https?$/.test(scheme)) return undefined;
	const isField = ([name, value]: Field) =>
		/^[!#$%&'*+\-.^_`|~0-9a-z]+$/.test(name) && /^[\t\x20-\x7e\x80-\xff]*$/.test(value);
	if (!regular.every(isField)) return undefined;
	if (
		regular.some(([name, value]) => FORBIDDEN.includes(name) || (name === 'te' && value.toLowerCase() !== 'trailers'))
	)
		return undefined;
	if (regular.some(([, value]) => /^[\t ]|[\t ]$/.test(value))) return undefined;
	const hosts = [...valuesOf(pseudo, ':authority'), ...valuesOf(regular, 'host')];
	if (hosts.length === 0 || valuesOf(regular, 'host').length > 1 || !hosts.every(isAuthority)) return undefined;
	if (new Set(hosts.map((host) => host.toLowerCase())).size > 1) return undefined;
	const lengths = valuesOf(regular, 'content-length');
	if (lengths.length > 1 || lengths.some((length) => !/^\d{1,16}$/.test(length))) return undefined;
	const hasItsLength = lengths.every((length) => Number(length) === body.length);
	// A body above the limit is not the beginning of a valid one, either.
	if (lengths.some((length) => Number(length) < body.length))
		return { method, target: path, fields: regular, body: body.slice(0, Number(lengths[0])), isComplete: false };
	return {
		method,
		target: path,
		fields: regular,
		body,
		isComplete: ended && !malformed && hasItsLength && !(reset && !ended),
	};
}

function uint(text: string, at: number, bytes: number): number {
	let value = 0;
	for (let i = 0; i < bytes; i++) value = value * 256 + text.charCodeAt(at + i);
	return value;
}
