/** The client's end of a conversation: a WebSocket, or a gRPC stream. */
import type { ClientHttp2Stream } from 'node:http2';
import { ERROR_CODE } from '../fixtures/h2-frames.ts';
import type { OpenWebSocket } from '../fixtures/web-socket-client.ts';

export interface Talk {
	/** The client's port, which identifies the proxy thread of the connection. */
	readonly port: number;
	/** How it ended: in order, cut, or with a gateway's status for a lost upstream. */
	readonly end: Promise<TalkEnd>;
	send(message: Buffer): void;
	/** `undefined`: it has ended. */
	next(): Promise<Buffer | undefined>;
	close(): void;
	cut(): void;
}

type TalkEnd = 'in order' | 'cut' | 'upstream lost' | `with ${number}`;

/** Received messages until they are read. */
class Inbox {
	readonly #messages: Buffer[] = [];
	#waiting: ((message: Buffer) => void) | undefined;

	push(message: Buffer): void {
		const waiting = this.#waiting;
		this.#waiting = undefined;
		if (waiting === undefined) this.#messages.push(message);
		else waiting(message);
	}

	/** @param end of the transport. */
	next(end: Promise<unknown>): Promise<Buffer | undefined> {
		const first = this.#messages.shift();
		if (first !== undefined) return Promise.resolve(first);
		const next = new Promise<Buffer>((resolve) => {
			this.#waiting = resolve;
		});
		return Promise.race([next, end.then(() => undefined)]);
	}
}

export class SocketTalk implements Talk {
	readonly port: number;
	readonly end: Promise<TalkEnd>;
	readonly #open: OpenWebSocket;
	readonly #inbox = new Inbox();

	constructor(open: OpenWebSocket, port: number) {
		this.#open = open;
		open.ws.on('message', (message) => this.#inbox.push(message as Buffer));
		this.port = port;
		this.end = open.closed.then((code): TalkEnd => CLOSES[code] ?? `with ${code}`);
	}

	send(message: Buffer): void {
		this.#open.ws.send(message, () => {});
	}

	next(): Promise<Buffer | undefined> {
		return this.#inbox.next(this.end);
	}

	close(): void {
		this.#open.ws.close(1000);
	}

	cut(): void {
		this.#open.ws.terminate();
	}
}

/** RFC 6455 section 7.4.1. */
const CLOSES: Readonly<Record<number, TalkEnd>> = { 1000: 'in order', 1006: 'cut', 1011: 'upstream lost' };

export class StreamTalk implements Talk {
	readonly port: number;
	readonly end: Promise<TalkEnd>;
	readonly #stream: ClientHttp2Stream;
	readonly #inbox = new Inbox();

	constructor(stream: ClientHttp2Stream, port: number) {
		this.#stream = stream;
		this.port = port;
		let status: unknown;
		stream.on('trailers', (fields) => {
			status = fields['grpc-status'];
			// A gRPC client sends nothing after the status of its call; `node:http2` would leave its side open.
			stream.close(ERROR_CODE.NO_ERROR);
		});
		this.end = new Promise((resolve) =>
			stream.once('close', () => resolve(status === '0' ? 'in order' : 'upstream lost')),
		);
		const reader = new MessageReader((message) => this.#inbox.push(message.subarray(PREFIX)));
		stream.on('data', (bytes: Buffer) => reader.push(bytes));
	}

	send(message: Buffer): void {
		const prefix = Buffer.alloc(PREFIX);
		prefix.writeUInt32BE(message.length, 1);
		this.#stream.write(Buffer.concat([prefix, message]));
	}

	next(): Promise<Buffer | undefined> {
		return this.#inbox.next(this.end);
	}

	close(): void {
		this.#stream.end();
	}

	cut(): void {
		this.#stream.close(ERROR_CODE.CANCEL);
	}
}

/** Prefix of a message: whether it is compressed, and its length. */
const PREFIX = 5;

/** Splits a byte stream into gRPC messages, with their prefixes. */
export class MessageReader {
	#bytes = Buffer.alloc(0);
	readonly #onMessage: (message: Buffer) => void;

	constructor(onMessage: (message: Buffer) => void) {
		this.#onMessage = onMessage;
	}

	push(bytes: Buffer): void {
		this.#bytes = Buffer.concat([this.#bytes, bytes]);
		while (this.#bytes.length >= PREFIX) {
			const end = PREFIX + this.#bytes.readUInt32BE(1);
			if (this.#bytes.length < end) return;
			this.#onMessage(this.#bytes.subarray(0, end));
			this.#bytes = this.#bytes.subarray(end);
		}
	}
}
