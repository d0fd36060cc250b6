/** Client and server for the demo's subset of gRPC over HTTP/2: unary calls with one text field of up to 125 bytes. */
import { once } from 'node:events';
import { createServer, connect as http2Connect, type IncomingHttpHeaders, type ServerHttp2Stream } from 'node:http2';
import type { AddressInfo } from 'node:net';
import { HEALTH_CHECK_PATH } from '../../gates/grpc-health.ts';
import { type Credentials, connect } from './client.ts';

/** The result of a call. */
export interface GrpcResponse {
	/** `grpc-status`; NaN if there was none. */
	readonly code: number;
	/** The text of the server, or the reason of the failure. */
	readonly text: string;
}

/** One unary call on a new connection. Rejects if there is no complete answer within 10 s. */
export async function callGrpc(
	credentials: Credentials,
	path: string,
	text: string,
	token: string | undefined,
): Promise<GrpcResponse> {
	const socket = await connect(credentials, 'h2');
	const session = http2Connect('https://localhost', { createConnection: () => socket });
	try {
		return await new Promise<GrpcResponse>((resolve, reject) => {
			session.on('error', reject);
			const stream = session.request({
				...{ ':method': 'POST', ':path': path, 'content-type': 'application/grpc', te: 'trailers' },
				...(token !== undefined && { authorization: `Bearer ${token}` }),
			});
			const pieces: Buffer[] = [];
			// A refused call has its status in the header fields, every other call in the trailers.
			let fields: IncomingHttpHeaders = {};
			stream.on('response', (head) => {
				fields = head;
			});
			stream.on('trailers', (trailers) => {
				fields = trailers;
			});
			stream.on('data', (piece: Buffer) => pieces.push(piece));
			stream.on('end', () => {
				const { 'grpc-status': code, 'grpc-message': message = '' } = fields;
				const said = textIn(Buffer.concat(pieces));
				resolve({ code: Number(code ?? Number.NaN), text: said || decodeURIComponent(String(message)) });
			});
			stream.on('error', reject);
			stream.end(message(text));
		});
	} finally {
		socket.destroy();
	}
}

/** A cleartext server, which speaks HTTP/2 without TLS. */
export interface GrpcUpstream {
	/** `127.0.0.1:<port>`. */
	readonly authority: string;
	close(): Promise<void>;
}

/** Replies to each text with its sender; supports `grpc.health.v1`. Listens on a free loopback port. */
export async function startGrpcUpstream(name: string): Promise<GrpcUpstream> {
	const server = createServer();
	const sessions = new Set<{ destroy(): void }>();
	server.on('session', (session) => {
		sessions.add(session);
		session.on('error', () => {});
		session.on('close', () => sessions.delete(session));
	});
	server.on('stream', (one, headers) => {
		const stream = one as ServerHttp2Stream;
		stream.on('error', () => {});
		const pieces: Buffer[] = [];
		stream.on('data', (piece: Buffer) => pieces.push(piece));
		stream.on('end', () => {
			if (headers[':path'] === HEALTH_CHECK_PATH) respond(stream, Buffer.from(SERVING));
			else respond(stream, message(`${name} heard ${headers['x-proxy-tenant']}: ${textIn(Buffer.concat(pieces))}`));
		});
	});
	server.listen(0, '127.0.0.1');
	await once(server, 'listening');
	return {
		authority: `127.0.0.1:${(server.address() as AddressInfo).port}`,
		close: async () => {
			const closed = once(server, 'close');
			server.close();
			for (const session of sessions) session.destroy();
			await closed;
		},
	};
}

function respond(stream: ServerHttp2Stream, body: Buffer): void {
	stream.respond({ ':status': 200, 'content-type': 'application/grpc' }, { waitForTrailers: true });
	stream.on('wantTrailers', () => stream.sendTrailers({ 'grpc-status': '0' }));
	stream.end(body);
}

/** Length of a message's prefix: the compressed flag, and four bytes of length. */
const PREFIX = 5;
/** Field 1, a text: one byte for number and type, one for the length. */
const FIELD = 0x0a;
const FIELD_BYTES = 2;
const MAX_TEXT = 125;
/** An answer of grpc.health.v1: field 1 is SERVING. */
const SERVING = [0, 0, 0, 0, 2, 0x08, 1];

function message(text: string): Buffer {
	const bytes = Buffer.from(text).subarray(0, MAX_TEXT);
	return Buffer.from([0, 0, 0, 0, bytes.length + FIELD_BYTES, FIELD, bytes.length, ...bytes]);
}

function textIn(body: Buffer): string {
	return body.subarray(PREFIX + FIELD_BYTES).toString();
}
