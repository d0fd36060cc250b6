import { STATUS_CODES } from 'node:http';
import type { Socket } from 'node:net';
import { SLAB_BYTES, SLABS } from '../body/slabs.ts';

/**
 * One HTTP/1.1 answer, written straight to its socket (RFC 9112). A `ServerResponse` would build each head from a table, look
 * at every byte of it again and tell by events what we know: a good part of what a request costs.
 */
export class Http1Answer {
	/** Nothing follows it on this connection. */
	isLast = false;
	readonly socket: Socket;
	readonly #isHttp11: boolean;
	readonly #mayStay: boolean;
	readonly #onOut: () => void;
	#chunked = false;
	/** What has been given and not been written yet: the head at least waits for what comes in the same turn. */
	#held = '';

	/**
	 * @param mayStay whether the connection may, by the request's version and `Connection` (RFC 9112 section 9.3).
	 * @param onOut called once, when the kernel has the whole answer.
	 */
	constructor(socket: Socket, isHttp11: boolean, mayStay: boolean, onOut: () => void) {
		this.socket = socket;
		this.#isHttp11 = isHttp11;
		this.#mayStay = mayStay;
		this.#onOut = onOut;
	}

	/**
	 * Begins the answer.
	 *
	 * @param fields names (lower case) and values in turn, without hop-by-hop fields.
	 * @param hasBody whether a body follows. Without `content-length` among the fields it is chunked, or ends with the
	 *   connection where the client knows no chunks (RFC 9112 section 6.3).
	 * @param closes the connection is not to be used again.
	 * @param wallSeconds for an answer that brings no `date` (RFC 9110 section 6.6.1).
	 */
	begin(status: number, fields: readonly string[], hasBody: boolean, closes: boolean, wallSeconds: number): void {
		let head = statusLine(status);
		let sized = false;
		let dated = false;
		for (let i = 0; i < fields.length; i += 2) {
			const name = fields[i]!;
			head += `${name}: ${fields[i + 1]}\r\n`;
			if (name === 'content-length') sized = true;
			else if (name === 'date') dated = true;
		}
		if (!dated) head += dateLine(wallSeconds);
		const unsized = hasBody && !sized;
		this.#chunked = unsized && this.#isHttp11;
		if (this.#chunked) head += 'transfer-encoding: chunked\r\n';
		this.isLast = closes || !this.#mayStay || (unsized && !this.#isHttp11);
		// HTTP/1.0 clients need to be told that it stays, and some of the others look for it, too.
		this.#held = head + (this.isLast ? 'connection: close\r\n\r\n' : 'connection: keep-alive\r\n\r\n');
	}

	/** The client has been told to wait for this before it sends the body (RFC 9110 section 10.1.1). */
	writeContinue(): void {
		this.#write('HTTP/1.1 100 Continue\r\n\r\n');
	}

	/** Copies the chunk. @returns whether the client takes more at once; otherwise the socket's `drain` tells. */
	write(chunk: Buffer): boolean {
		// An empty chunk would be the last one.
		if (chunk.length === 0) return true;
		const opening = this.#chunked ? `${this.#held}${chunk.length.toString(16)}\r\n` : this.#held;
		const closing = this.#chunked ? '\r\n' : '';
		if (opening.length + chunk.length <= ONE_WRITE) {
			if (this.#held === '') this.flushSoon();
			this.#held = opening + chunk.toString('latin1') + closing;
			return this.socket.writable && !this.socket.writableNeedDrain;
		}
		return this.#writeCopy(opening, chunk, closing);
	}

	/**
	 * Writes without copying; for bodies with a `content-length`.
	 *
	 * @param bytes not changed by anybody until `onFlushed` is called without an error. @returns as `write`.
	 */
	writeKept(bytes: Buffer, onFlushed?: Flushed): boolean {
		if (this.#held === '') return this.#write(bytes, onFlushed);
		return this.#writeCopy(this.#held, bytes, '', onFlushed);
	}

	/** In one write, and one buffer: TLS would copy several into a new one. */
	#writeCopy(opening: string, chunk: Buffer, closing: string, onFlushed?: Flushed): boolean {
		this.#held = '';
		const length = opening.length + chunk.length + closing.length;
		const slab = length <= SLAB_BYTES ? SLABS.take() : undefined;
		const bytes = slab?.subarray(0, length) ?? Buffer.allocUnsafeSlow(length);
		bytes.write(opening, 'latin1');
		bytes.set(chunk, opening.length);
		bytes.write(closing, opening.length + chunk.length, 'latin1');
		return this.#write(bytes, (error) => {
			if (!error && slab !== undefined) SLABS.giveBack(slab);
			onFlushed?.(error);
		});
	}

	/** @param rest the last bytes of a body with a `content-length`, or all of them; as text latin1. */
	end(rest: Buffer | string = ''): void {
		if (typeof rest !== 'string' && rest.length > ONE_WRITE) return void this.writeKept(rest, this.#onFlushed);
		const text = typeof rest === 'string' ? rest : rest.toString('latin1');
		const held = this.#held;
		this.#held = '';
		this.#write(held + (this.#chunked ? LAST_CHUNK : text), this.#onFlushed);
	}

	/** What has been given goes out at the end of this turn, if nothing else has taken it along by then. */
	flushSoon(): void {
		process.nextTick(flush, this);
	}

	flush(): void {
		if (this.#held === '') return;
		const held = this.#held;
		this.#held = '';
		this.#write(held);
	}

	/** On a connection that is closing nothing more is said; its `close` ends whatever waits for it. */
	#write(bytes: Buffer | string, onFlushed?: Flushed): boolean {
		return this.socket.writable && this.socket.write(bytes as string, 'latin1', onFlushed);
	}

	readonly #onFlushed = (error?: Error | null): void => {
		if (!error) this.#onOut();
	};
}

type Flushed = (error?: Error | null) => void;

function flush(answer: Http1Answer): void {
	answer.flush();
}

/** Up to this size what is given is put together in one write, bytes. */
const ONE_WRITE = 16_384;
const LAST_CHUNK = '0\r\n\r\n';

const statusLines: (string | undefined)[] = [];

function statusLine(status: number): string {
	statusLines[status] ??= `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? 'Unknown'}\r\n`;
	return statusLines[status];
}

let dateSecond = 0;
let dateText = '';

function dateLine(wallSeconds: number): string {
	const second = Math.floor(wallSeconds);
	if (second !== dateSecond) {
		dateSecond = second;
		dateText = `date: ${new Date(second * 1000).toUTCString()}\r\n`;
	}
	return dateText;
}
