import { connect, type Socket } from 'node:net';
import { type ConnectionOptions, connect as connectTls } from 'node:tls';
import { silenceCause } from '@mtls-edge-proxy/gate/words/causes.ts';
import type { UpstreamAddress } from '../../config/config.ts';
import { type ClientEvents, ClientProtocol } from '../../http2/client/client-protocol.ts';
import { ClientStream, type StreamEnd } from '../../http2/client/client-stream.ts';
import type { ClientStreams } from '../../http2/client/client-streams.ts';
import type { ResponseFacts } from '../../http2/client/response-fields.ts';
import { UNSHARED } from '../../http2/client/server-budget.ts';
import { ConnectionError } from '../../http2/errors.ts';
import { CODE } from '../../http2/frame-format.ts';
import { codedFields } from '../../http2/hpack-encoder.ts';
import { isAlpnAlert, NO_HTTP2 } from '../../tls/upstream-tls.ts';

interface Http2Question {
	readonly method: string;
	readonly path: string;
	/** Alternating names in lower case and values. */
	readonly fields: readonly string[];
	/** `undefined`: none. */
	readonly body?: Buffer | undefined;
}

interface Http2Response {
	readonly status: number;
	/** Alternating names and values. */
	readonly fields: readonly string[];
	/** At most `maxBody` bytes. */
	readonly body: Buffer;
	/** Alternating names and values; empty if the response was not read to its end. */
	readonly trailers: readonly string[];
}

/** A call without a response: the fault in words for operators, the connection's error, or a connection whose server chose HTTP/1.1. */
type NoResponse = { readonly cause: string } | { readonly error: NodeJS.ErrnoException } | { readonly http1: Socket };

/**
 * One request over HTTP/2 on a new connection, for health probes: an existing one does not show whether new ones are possible. It
 * does not reject.
 *
 * @param tls `undefined`: in the clear, by prior knowledge.
 * @param maxBody bytes; with 0 the call ends at the head.
 * @param limitMs for the whole call.
 * @param mayBeHttp1 the caller can continue on a connection on which nothing has been sent.
 */
export function callHttp2(
	{ host, port, authority, hostField }: UpstreamAddress,
	{ method, path, fields, body }: Http2Question,
	{ tls, maxBody, limitMs, mayBeHttp1 = false }: CallOptions,
	abandoned: AbortSignal,
): Promise<Http2Response | NoResponse> {
	return new Promise((resolve) => {
		const socket = tls === undefined ? connect({ host, port }) : connectTls({ ...tls, host, port });
		let call: Call | undefined;
		const leave = (response: Http2Response | NoResponse) => {
			clearTimeout(limit);
			abandoned.removeEventListener('abort', abandon);
			socket.off('error', onError).off('close', onClose);
			resolve(response);
		};
		const end = (response: Http2Response | NoResponse) => {
			leave(response);
			call?.end();
			// Errors after its end are irrelevant.
			socket.on('error', () => {}).destroy();
		};
		const abandon = () => end({ cause: silenceCause('response', limitMs) });
		const onError = (error: Error) => end({ error: !mayBeHttp1 && isAlpnAlert(error) ? withoutHttp2() : error });
		const onClose = () => end({ cause: CLOSED });
		// Timers run before sockets are read: on a busy thread an unread response may have arrived already.
		const limit = setTimeout(() => setImmediate(abandon), limitMs);
		abandoned.addEventListener('abort', abandon);
		socket.on('error', onError).on('close', onClose);
		socket.on(tls === undefined ? 'connect' : 'secureConnect', () => {
			if (tls !== undefined && (socket as Socket & { alpnProtocol?: unknown }).alpnProtocol !== 'h2') {
				if (mayBeHttp1) return leave({ http1: socket });
				return end({ error: withoutHttp2() });
			}
			call = new Call(socket, maxBody, end);
			const control = [':method', method, ':scheme', tls === undefined ? 'http' : 'https', ':path', path];
			call.ask(method, codedFields([...control, ':authority', hostField ?? authority, ...fields]), body);
		});
	});
}

function withoutHttp2(): NodeJS.ErrnoException {
	return Object.assign(new Error('another protocol'), { code: NO_HTTP2 });
}

interface CallOptions {
	readonly tls: ConnectionOptions | undefined;
	readonly maxBody: number;
	readonly limitMs: number;
	readonly mayBeHttp1?: boolean;
}

export const CLOSED = 'connection closed without a response';

/** The connection and its one stream. */
class Call implements ClientEvents {
	readonly #socket: Socket;
	readonly #protocol = new ClientProtocol(this, LIMITS, UNSHARED);
	readonly #end: (response: Http2Response | NoResponse) => void;
	readonly #stream: ResponseStream;

	constructor(socket: Socket, maxBody: number, end: (response: Http2Response | NoResponse) => void) {
		this.#socket = socket;
		this.#end = end;
		this.#stream = new ResponseStream(this.#protocol.streams, maxBody, end);
		socket.on('data', (bytes) => this.#receive(bytes as Buffer));
	}

	ask(method: string, block: string, body: Buffer | undefined): void {
		this.#protocol.begin();
		this.#stream.begin(method, block, body === undefined);
		if (body !== undefined) this.#stream.sendData(body, true);
	}

	#receive(bytes: Buffer): void {
		try {
			this.#protocol.receive(bytes, 0);
		} catch (error) {
			if (!(error instanceof ConnectionError)) throw error;
			const isHttp1 = !this.#protocol.isGreeted && bytes.toString('latin1', 0, 7) === 'HTTP/1.';
			this.#end({ cause: isHttp1 ? 'it speaks HTTP/1.1 on this port' : `HTTP/2: ${error.message}` });
		}
	}

	/** Ends the call, whatever its result. */
	end(): void {
		this.#protocol.streams.end(CODE.NO_ERROR);
	}

	onOutput(): void {
		// One write for all output of this turn.
		queueMicrotask(() => {
			if (this.#socket.destroyed || this.#protocol.output.bytes === 0) return;
			const taken = this.#protocol.output.take();
			if (typeof taken === 'string') this.#socket.write(taken, 'latin1');
			else this.#socket.write(taken.bytes);
		});
	}

	onSettings(): void {}
	onStreamEnd(): void {}
	onGoaway(): void {}
	onPong(): void {}
	onLent(): void {}
}

class ResponseStream extends ClientStream {
	readonly #maxBody: number;
	readonly #end: (response: Http2Response | NoResponse) => void;
	#facts: ResponseFacts | undefined;
	readonly #pieces: Buffer[] = [];
	#length = 0;

	constructor(owner: ClientStreams, maxBody: number, end: (response: Http2Response | NoResponse) => void) {
		super(owner);
		this.#maxBody = maxBody;
		this.#end = end;
	}

	override onResponse(facts: ResponseFacts): void {
		this.#facts = facts;
		if (this.#maxBody === 0) this.#respond([]);
	}

	override onBody(bytes: Buffer): void {
		const piece = Buffer.from(bytes.subarray(0, this.#maxBody - this.#length));
		this.#pieces.push(piece);
		this.#length += piece.length;
		if (this.#length === this.#maxBody) this.#respond([]);
		else this.owner.release(this, bytes.length);
	}

	override onResponseEnd(trailers: readonly string[] = []): void {
		this.#respond(trailers);
	}

	override onClosed({ cause }: StreamEnd): void {
		this.#end({ cause });
	}

	override onRoom(): void {}

	#respond(trailers: readonly string[]): void {
		const { status, fields } = this.#facts!;
		const list = fields.flatMap(({ name, value }) => (name === ':status' ? [] : [name, value]));
		this.#end({ status, fields: list, body: Buffer.concat(this.#pieces), trailers });
	}
}

const LIMITS = { maxStreams: 1, untoldStreams: 1, window: 65_535, maxHeaderBytes: 65_536 };
