import type { Socket } from 'node:net';
import type { Trailers } from '../../gates/trailers.ts';
import { http } from '../../shared/node-http.ts';
import { SLAB_BYTES, SLABS } from '../../shared/slabs.ts';
import { datesOf, type ResponseFields } from '../client/response-fields.ts';
import type { Flushed, FlushQueue } from '../loop/turn-end.ts';
import { chunkedLines, fieldLines, lastChunk } from './last-chunk.ts';

/**
 * The responses of one HTTP/1.1 connection, one after the other, written straight to its socket (RFC 9112). A `ServerResponse`
 * would build each head from a table, check every byte again and report known facts by events: a good part of a request's
 * cost.
 */
export class Http1Response implements Flushed {
	/** The response is the last one on this connection, as far as is known: from its request, then also from its head. */
	isLast = true;
	isHttp11 = true;
	/** The body is chunked; its pieces then go out by `write`. */
	isChunked = false;
	readonly #socket: Socket;
	readonly #flushes: FlushQueue;
	readonly #onOut: () => void;
	/** Text that has been given but not written: it waits for more in the same turn of the loop. */
	#held = '';
	/** What the end of the turn writes: a part of the response, or the rest. */
	#due: 'nothing' | 'part' | 'end' = 'nothing';
	/** Slabs that a write still reads. */
	#slabs = 0;

	/** @param onOut called once for each response, when the kernel has all of it. */
	constructor(socket: Socket, flushes: FlushQueue, onOut: () => void) {
		this.#socket = socket;
		this.#flushes = flushes;
		this.#onOut = onOut;
	}

	/**
	 * Prepares for the next response.
	 *
	 * @param mayStay whether the connection may, by the request's version and `Connection` (RFC 9112 section 9.3).
	 */
	expect(isHttp11: boolean, mayStay: boolean): void {
		this.isLast = !mayStay;
		this.isHttp11 = isHttp11;
	}

	/**
	 * Begins the response. Its head goes out with the following bytes, at the latest at the end of the turn.
	 *
	 * @param hasBody whether a body follows. Without `content-length` among the fields it is chunked, or ends with the
	 *   connection if the client does not support chunks (RFC 9112 section 6.3).
	 * @param closes the connection must not be used again.
	 * @param wallSeconds for a response without a `date` (RFC 9110 section 6.6.1).
	 * @param announced names of trailers that may follow chunks, with commas between.
	 */
	begin(
		status: number,
		fields: ResponseFields,
		hasBody: boolean,
		closes: boolean,
		wallSeconds: number,
		announced = '',
	): void {
		fields.lines ??= fields.form(fieldLines(fields.list));
		let head = statusLine(status) + fields.lines;
		if (!fields.hasDate) head += dateLine(wallSeconds);
		const unsized = hasBody && !fields.hasLength;
		this.isChunked = unsized && this.isHttp11;
		if (this.isChunked) head += chunkedLines(announced);
		this.isLast ||= closes || (unsized && !this.isHttp11);
		// HTTP/1.0 clients need `keep-alive`, and some others look for it, too.
		this.#hold(head + (this.isLast ? 'connection: close\r\n\r\n' : 'connection: keep-alive\r\n\r\n'));
	}

	/** From here on the connection is a tunnel (RFC 9110 section 15.2.2). @param lines each ended by CRLF. */
	switchProtocols(lines: string): void {
		this.isChunked = false;
		this.isLast = true;
		this.#hold(`${statusLine(101)}${lines}\r\n`);
	}

	endTunnel(): void {
		this.flush();
		this.#socket.end(() => this.#onOut());
	}

	/** Sends the 100 that the client awaits before it sends the body (RFC 9110 section 10.1.1). HTTP/1.0 does not know it. */
	writeContinue(): void {
		if (this.isHttp11) this.#write('HTTP/1.1 100 Continue\r\n\r\n');
	}

	/** Memory that its writes hold, bytes. A slab is held as a whole, however few of its bytes wait. */
	get heldBytes(): number {
		return Math.max(this.#socket.writableLength, this.#slabs * SLAB_BYTES);
	}

	/** Copies the chunk. @returns whether the client takes more at once; otherwise the socket's `drain` tells. */
	write(chunk: Buffer): boolean {
		// An empty chunk would be the last one.
		if (chunk.length === 0) return true;
		const opening = this.isChunked ? `${this.#held}${chunk.length.toString(16)}\r\n` : this.#held;
		const closing = this.isChunked ? '\r\n' : '';
		if (opening.length + chunk.length <= ONE_WRITE) {
			this.#hold(opening + chunk.toString('latin1') + closing);
			return this.#socket.writable && !this.#socket.writableNeedDrain;
		}
		return this.#writeCopy(opening, chunk, closing);
	}

	/**
	 * Writes without copying; for bodies with a `content-length`.
	 *
	 * @param bytes must not change until `onFlushed` is called without an error. @returns as `write`.
	 */
	writeKept(bytes: Buffer, onFlushed?: WriteCallback): boolean {
		if (this.#held === '') return this.#write(bytes, onFlushed);
		return this.#writeCopy(this.#held, bytes, '', onFlushed);
	}

	/** Joins the parts in one buffer and one write: TLS would copy several into a new one. */
	#writeCopy(opening: string, chunk: Buffer, closing: string, onFlushed?: WriteCallback): boolean {
		this.#held = '';
		const length = opening.length + chunk.length + closing.length;
		const slab = length <= SLAB_BYTES ? SLABS.take() : undefined;
		if (slab !== undefined) this.#slabs++;
		const bytes = slab?.subarray(0, length) ?? Buffer.allocUnsafeSlow(length);
		bytes.write(opening, 'latin1');
		bytes.set(chunk, opening.length);
		bytes.write(closing, opening.length + chunk.length, 'latin1');
		return this.#write(bytes, (error) => {
			if (!error && slab !== undefined) {
				this.#slabs--;
				SLABS.release(slab);
			}
			onFlushed?.(error);
		});
	}

	/**
	 * @param rest the last bytes of a body with a `content-length`, or all of them; as text latin1.
	 * @param trailers of a chunked one.
	 */
	end(rest: Buffer | string = '', trailers?: Trailers): void {
		if (typeof rest !== 'string' && rest.length > ONE_WRITE) return void this.writeKept(rest, this.#onFlushed);
		const text = typeof rest === 'string' ? rest : rest.toString('latin1');
		this.#hold(this.#held + (this.isChunked ? lastChunk(trailers) : text));
		this.#due = 'end';
	}

	#hold(text: string): void {
		this.#held = text;
		if (this.#due !== 'nothing') return;
		this.#due = 'part';
		this.#flushes.add(this);
	}

	/** Writes what is held: the end of the turn has come, or nothing more will be given. */
	flush(): void {
		const held = this.#held;
		const due = this.#due;
		this.#held = '';
		this.#due = 'nothing';
		if (due === 'end') this.#write(held, this.#onFlushed);
		else if (held !== '') this.#write(held);
	}

	onFault(error: unknown): void {
		this.#socket.destroy();
		throw error;
	}

	/** A closing connection writes nothing more; its `close` event ends everything that waits for it. */
	#write(bytes: Buffer | string, onFlushed?: WriteCallback): boolean {
		return this.#socket.writable && this.#socket.write(bytes as string, 'latin1', onFlushed);
	}

	readonly #onFlushed = (error?: Error | null): void => {
		if (!error) this.#onOut();
	};
}

type WriteCallback = (error?: Error | null) => void;

/** Up to this size, pieces are joined in one write, bytes. */
const ONE_WRITE = 16_384;

const statusLines: (string | undefined)[] = [];

function statusLine(status: number): string {
	statusLines[status] ??= `HTTP/1.1 ${status} ${http.STATUS_CODES[status] ?? 'Unknown'}\r\n`;
	return statusLines[status];
}

const dateLine = datesOf((date) => `date: ${date}\r\n`);
