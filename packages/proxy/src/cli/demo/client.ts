/** The demo's own client: one mutual-TLS connection per request, over HTTP/1.1 or HTTP/2, with results ready to print. */
import { connect as http2Connect } from 'node:http2';
import { request as httpsRequest } from 'node:https';
import type { Readable } from 'node:stream';
import { type TLSSocket, connect as tlsConnect } from 'node:tls';

export type Protocol = 'http/1.1' | 'h2';

/** Where to connect, and as whom. */
export interface Credentials {
	readonly port: number;
	/** PEM: the authority of the proxy's certificate, and the client's own certificate and key, if any. */
	readonly ca: string;
	readonly cert?: string;
	readonly key?: string;
}

export interface Call {
	readonly protocol: Protocol;
	/** Sent unchanged: neither resolved nor encoded. */
	readonly path: string;
	readonly token?: string | undefined;
}

export interface ClientResponse {
	readonly status: number;
	readonly body: string;
	/** Serial number of the proxy's certificate on this connection. */
	readonly serverSerial: string;
}

/** ms; the proxy's own longest limit is 30 s, the demo's upstreams respond at once. */
const TIMEOUT_MS = 10_000;

/** One request on a new connection. Rejects if there is no complete response within 10 s. */
export async function call(credentials: Credentials, { protocol, path, token }: Call): Promise<ClientResponse> {
	const socket = await connect(credentials, protocol);
	const serverSerial = socket.getPeerCertificate().serialNumber;
	try {
		const headers = token === undefined ? {} : { authorization: `Bearer ${token}` };
		const send = protocol === 'h2' ? sendHttp2 : sendHttp1;
		return { ...(await send(socket, path, headers)), serverSerial };
	} finally {
		socket.destroy();
	}
}

/** A connection that stays open after one request. */
export interface Held {
	readonly status: number;
	/** Resolves when the proxy has ended the connection; `announced` if it sent GOAWAY first. */
	readonly ended: Promise<{ readonly announced: boolean }>;
	close(): void;
}

/** One request over HTTP/2. Rejects when there is no response within 10 s. */
export async function hold(credentials: Credentials, path: string, token: string): Promise<Held> {
	const socket = await connect(credentials, 'h2');
	// From here on it may be silent.
	socket.setTimeout(0);
	const session = http2Connect('https://localhost', { createConnection: () => socket });
	let announced = false;
	session.on('goaway', () => {
		announced = true;
	});
	session.on('error', () => {});
	const ended = new Promise<{ readonly announced: boolean }>((resolve) => {
		socket.once('close', () => resolve({ announced }));
	});
	const stream = session.request({ ':path': path, authorization: `Bearer ${token}` });
	const status = await new Promise<number>((resolve, reject) => {
		stream.on('response', (head) => resolve(Number(head[':status'])));
		stream.on('error', reject).resume().end();
	});
	return { status, ended, close: () => session.destroy() };
}

/** Rejects if the handshake fails or is silent for 10 s. */
export function connect({ port, ...credentials }: Credentials, protocol: Protocol): Promise<TLSSocket> {
	return new Promise((resolve, reject) => {
		const options = { host: '127.0.0.1', port, servername: 'localhost', ...credentials, ALPNProtocols: [protocol] };
		const socket = tlsConnect(options, () => resolve(socket));
		socket.setTimeout(TIMEOUT_MS, () => socket.destroy(new Error(`no response within ${TIMEOUT_MS / 1000} s`)));
		// Stays after the handshake: later errors reject the request, and here must only not be unhandled.
		socket.on('error', reject);
	});
}

type Sent = Omit<ClientResponse, 'serverSerial'>;
type Headers = Readonly<Record<string, string>>;

function sendHttp1(socket: TLSSocket, path: string, headers: Headers): Promise<Sent> {
	return new Promise((resolve, reject) => {
		// No `agent: false`: that would make an agent, and an agent opens its own connections.
		const request = httpsRequest({ createConnection: () => socket, host: 'localhost', path, headers });
		request.on('response', (response) => {
			const done = (body: string) => resolve({ status: response.statusCode!, body });
			response.on('error', reject);
			collect(response, done);
		});
		request.on('error', reject).end();
	});
}

function sendHttp2(socket: TLSSocket, path: string, headers: Headers): Promise<Sent> {
	return new Promise((resolve, reject) => {
		const session = http2Connect('https://localhost', { createConnection: () => socket });
		session.on('error', reject);
		const stream = session.request({ ':path': path, ...headers });
		stream.on('response', (head) => {
			collect(stream, (body) => resolve({ status: Number(head[':status']), body }));
		});
		stream.on('error', reject);
		stream.on('close', () => reject(new Error('the stream was closed before the end of the response')));
		stream.end();
	});
}

function collect(stream: Readable, done: (text: string) => void): void {
	const chunks: Buffer[] = [];
	stream.on('data', (chunk: Buffer) => chunks.push(chunk));
	stream.on('end', () => done(Buffer.concat(chunks).toString()));
}
