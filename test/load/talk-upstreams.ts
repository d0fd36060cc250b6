/** Upstreams of conversations: WebSocket servers over HTTP/1.1 and HTTP/2, and gRPC streams. */
import type { ServerHttp2Stream } from 'node:http2';
import type { WebSocket } from 'ws';
import type { RouteEntry } from '../../packages/proxy/src/cli/demo/config-file.ts';
import { abortStream } from '../fixtures/abort-stream.ts';
import { ERROR_CODE } from '../fixtures/h2-frames.ts';
import { type Http2Upstream, startHttp2Upstream } from '../fixtures/h2-upstream.ts';
import { startWebSocketUpstream, takeWebSockets, type WebSocketUpstream } from '../fixtures/web-socket-upstream.ts';
import { MessageReader } from './talks.ts';

/** Both upstreams echo what they get. After the number of messages in the path they end the conversation if that is their part. */
export class TalkUpstreams implements AsyncDisposable {
	readonly authorities: readonly string[];
	readonly #http1: WebSocketUpstream;
	readonly #http2: Http2Upstream;

	private constructor(http1: WebSocketUpstream, http2: Http2Upstream) {
		this.#http1 = http1;
		this.#http2 = http2;
		this.authorities = [`127.0.0.1:${http1.port}`, http2.authority];
	}

	get routes(): readonly RouteEntry[] {
		const [http1, http2] = this.authorities;
		return [
			// An upstream that cuts a conversation is a failure for its breaker.
			{ prefix: '/talk-h1', upstream: `http://${http1}`, websocket: true, failures: 100 },
			{ prefix: '/talk-h2', upstream: `h2c://${http2}`, websocket: true, failures: 100 },
		];
	}

	static async start(): Promise<TalkUpstreams> {
		const http1 = await startWebSocketUpstream(({ ws, request, socket }) => {
			answerMessages(ws, request.url!, () => socket.destroy());
		});
		const webSockets = takeWebSockets((ws, stream, headers) => {
			answerMessages(ws, headers[':path']!, () => abortStream(stream, ERROR_CODE.CANCEL));
		});
		const http2 = await startHttp2Upstream({
			settings: { enableConnectProtocol: true },
			script: (stream, headers, body) => {
				if (headers[':method'] === 'CONNECT') webSockets(stream, headers, body);
				else answerStream(stream, headers[':path']!);
			},
		});
		return new TalkUpstreams(http1, http2);
	}

	async [Symbol.asyncDispose](): Promise<void> {
		await this.#http1[Symbol.asyncDispose]();
		await this.#http2.stop();
	}
}

/** After how many messages the upstream ends the conversation, if at all, and how. */
function endOf(path: string): { readonly count: number; readonly ending: string } {
	const query = new URL(path, 'http://x').searchParams;
	return { count: Number(query.get('count')), ending: query.get('ending')! };
}

function answerMessages(ws: WebSocket, path: string, cut: () => void): void {
	const { count, ending } = endOf(path);
	let answered = 0;
	ws.on('message', (data) => {
		const isLast = ++answered === count;
		ws.send(data as Buffer, { binary: true }, () => {
			if (!isLast) return;
			if (ending === 'upstream closes') ws.close(1000);
			else if (ending === 'upstream cuts') cut();
		});
	});
}

/** A gRPC stream: messages with a five-byte prefix, echoed piece by piece. */
function answerStream(stream: ServerHttp2Stream, path: string): void {
	const { count, ending } = endOf(path);
	let answered = 0;
	const messages = new MessageReader((message) => {
		const isLast = ++answered === count;
		stream.write(message, () => {
			if (!isLast) return;
			if (ending === 'upstream closes') stream.end();
			else if (ending === 'upstream cuts') abortStream(stream, ERROR_CODE.CANCEL);
		});
	});
	stream.respond({ ':status': 200, 'content-type': 'application/grpc' }, { waitForTrailers: true });
	stream.on('wantTrailers', () => stream.sendTrailers({ 'grpc-status': '0' }));
	stream.on('data', (bytes: Buffer) => messages.push(bytes));
	stream.on('end', () => stream.end());
}
