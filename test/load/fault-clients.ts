/** Clients that send what a plan says and report exactly what they received: one interface for HTTP/1.1 and HTTP/2. */
import { createHash } from 'node:crypto';
import { type ClientHttp2Session, connect, constants, type IncomingHttpHeaders } from 'node:http2';
import type { Writable } from 'node:stream';
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { TLSSocket } from 'node:tls';
import { abortStream } from '../fixtures/abort-stream.ts';
import { ByteReader, EndedEarly } from '../fixtures/byte-reader.ts';
import { writable } from '../fixtures/client-request.ts';
import { type HeaderList, headerValues, readResponse } from '../fixtures/http1-message.ts';
import { connectTls, type Target } from '../fixtures/tls-client.ts';
import { within } from '../fixtures/wait.ts';
import { chunk } from './answer-image.ts';
import type { Reply } from './ledger.ts';
import { type Plan, UPLOAD_TRAILER, uploadBody } from './plan.ts';
import { tokenOf } from './tokens.ts';

export interface FaultClient {
	/**
	 * Rejects with `ConnectFailed` if no connection can be opened, and with another error if the response is not HTTP or never ends.
	 */
	send(plan: Plan, prefix: string): Promise<Reply>;
	close(): Promise<void>;
}

/** No connection to the proxy could be opened; nothing was sent. */
export class ConnectFailed extends Error {}

/** Limit for a response, ms; far above all limits of the proxy in these runs. */
const ANSWER_MS = 20_000;
/** The proxy treats a client that resets thousands of streams on one connection as an attacker. */
const REQUESTS_PER_SESSION = 1000;

type Seen = Pick<Reply, 'status' | 'resetCode' | 'header' | 'trailer' | 'body' | 'complete'>;

const NOTHING: Seen = {
	status: 0,
	resetCode: undefined,
	header: () => undefined,
	trailer: () => undefined,
	body: Buffer.alloc(0),
	complete: false,
};

/** One connection with one request at a time. */
export class H1FaultClient implements FaultClient {
	readonly #target: Target;
	#connection: { readonly socket: TLSSocket; readonly reader: ByteReader; readonly port: number } | undefined;

	constructor(target: Target) {
		this.#target = target;
	}

	async send(plan: Plan, prefix: string): Promise<Reply> {
		const { socket, reader, port } = await this.#connect();
		const startedAt = performance.now();
		const chunked = plan.uploadLength !== undefined && !plan.uploadDeclared;
		const lines = (await headLines(plan)).map(([name, value]) => `${name}: ${value}\r\n`).join('');
		const framing = chunked ? 'transfer-encoding: chunked\r\n' : '';
		const te = plan.wantsTrailers ? 'te: trailers\r\nconnection: te\r\n' : '';
		socket.write(`${plan.method} ${prefix}/${plan.id} HTTP/1.1\r\nhost: localhost\r\n${lines}${te}${framing}\r\n`);
		const uploaded = writeUpload(socket, plan, chunked ? chunk : undefined).then((all) => {
			if (all && chunked) socket.write(`0\r\n${plan.uploadTrailers ? `${UPLOAD_TRAILER}: ${plan.id}\r\n` : ''}\r\n`);
		});
		let left = false;
		const leaving = leaveLater(plan, () => {
			left = true;
			socket.destroy();
		});
		const seen = await this.#receive(reader, plan).finally(() => clearTimeout(leaving));
		if (!seen.lasting) this.#drop();
		else await within(uploaded, 'the proxy to take the rest of a body, or to close', ANSWER_MS);
		return { ...seen, left: left && !seen.complete, ms: performance.now() - startedAt, port };
	}

	async close(): Promise<void> {
		this.#drop();
	}

	async #receive(reader: ByteReader, { method }: Plan): Promise<Seen & { readonly lasting: boolean }> {
		try {
			const { status, headers, trailers, body, ended } = await readResponse(reader, method, ANSWER_MS);
			const complete = ended === 'complete';
			const closes = headerValues(headers, 'connection').some((value) => value.toLowerCase() === 'close');
			const first = (lines: HeaderList) => (name: string) => headerValues(lines, name)[0];
			const seen = { header: first(headers), trailer: first(trailers), body, complete };
			return { status, resetCode: undefined, ...seen, lasting: complete && !closes };
		} catch (error) {
			this.#drop();
			if (!(error instanceof EndedEarly)) throw error;
			return { ...NOTHING, lasting: false };
		}
	}

	async #connect() {
		// If the proxy closed the connection without need, the next request would show it.
		if (this.#connection === undefined) {
			const socket = await connectOrFail(this.#target, 'http/1.1');
			this.#connection = { socket, reader: new ByteReader(socket), port: socket.localPort! };
		}
		return this.#connection;
	}

	#drop(): void {
		this.#connection?.socket.destroy();
		this.#connection = undefined;
	}
}

interface Session {
	readonly session: ClientHttp2Session;
	readonly port: number;
}

/** One connection with many requests at once. */
export class H2FaultClient implements FaultClient {
	readonly #target: Target;
	readonly #onEnd: () => void;
	#session: Promise<Session> | undefined;
	/** State of `#session`. */
	#current: ClientHttp2Session | undefined;
	readonly #retired = new Set<ClientHttp2Session>();
	#requests = 0;
	#closing = false;

	/** @param onEnd called when the proxy ends a connection without a reason. */
	constructor(target: Target, onEnd: () => void) {
		this.#target = target;
		this.#onEnd = onEnd;
	}

	async send(plan: Plan, prefix: string): Promise<Reply> {
		const lines = await headLines(plan);
		const { session, port } = await this.#sessionFor();
		const startedAt = performance.now();
		const path = `${prefix}/${plan.id}`;
		const pseudo = [':method', plan.method, ':path', path, ':scheme', 'https', ':authority', 'localhost'];
		const own = plan.isCall ? ['content-type', 'application/grpc', 'te', 'trailers'] : [];
		const stream = session.request([...pseudo, ...lines.flat(), ...own], {
			endStream: plan.uploadLength === undefined,
			waitForTrailers: plan.uploadTrailers,
		});
		stream.on('wantTrailers', () => stream.sendTrailers({ [UPLOAD_TRAILER]: plan.id }));
		const closed = new Promise<void>((resolve) => stream.once('close', resolve));
		const chunks: Buffer[] = [];
		let head: Pick<Seen, 'status' | 'header'> = NOTHING;
		let trailers: IncomingHttpHeaders = {};
		let ended = false;
		let left = false;
		stream.on('error', () => {});
		stream.on('response', (headers) => {
			const header = (name: string) => headers[name] as string | undefined;
			head = { status: Number(headers[':status']), header };
		});
		stream.on('data', (bytes: Buffer) => chunks.push(bytes));
		stream.on('trailers', (fields) => {
			trailers = fields;
		});
		stream.on('end', () => {
			ended = true;
		});
		const leaving = leaveLater(plan, () => {
			if (ended) return;
			left = true;
			abortStream(stream, constants.NGHTTP2_CANCEL);
		});
		const limit = setTimeout(() => stream.close(constants.NGHTTP2_INTERNAL_ERROR), ANSWER_MS);
		if (plan.uploadLength !== undefined) {
			void writeUpload(stream, plan).then((all) => {
				if (all) stream.end();
			});
		}
		await closed;
		clearTimeout(leaving);
		clearTimeout(limit);
		const { rstCode: resetCode } = stream;
		// The proxy sends a status for a call that it ends early. Upstreams end theirs with 0.
		const isBrokenOff = (trailers['grpc-status'] ?? '0') !== '0';
		const complete = ended && !isBrokenOff && resetCode === constants.NGHTTP2_NO_ERROR;
		const trailer = (name: string) => trailers[name] as string | undefined;
		const seen = { ...head, trailer, resetCode, body: Buffer.concat(chunks), complete };
		return { ...seen, left, ms: performance.now() - startedAt, port };
	}

	async close(): Promise<void> {
		this.#closing = true;
		for (const session of this.#retired) session.destroy();
		(await this.#session)?.session.destroy();
	}

	#sessionFor(): Promise<Session> {
		if (this.#session !== undefined && ++this.#requests < REQUESTS_PER_SESSION) return this.#session;
		void this.#session?.then(({ session }) => this.#retire(session));
		this.#requests = 0;
		this.#current = undefined;
		const connecting = this.#connect();
		this.#session = connecting;
		connecting.catch(() => {
			if (this.#session === connecting) this.#session = undefined;
		});
		return connecting;
	}

	async #connect(): Promise<Session> {
		const socket = await connectOrFail(this.#target, 'h2');
		// Node's client does not return the window that it reserved for uploads the server cut short.
		// Its 10 MB are soon used up, and then it refuses every response.
		const session = connect('https://localhost', { createConnection: () => socket, maxSessionMemory: 4000 });
		const port = socket.localPort!;
		this.#current = session;
		session.on('error', () => {});
		// GOAWAY, or an end without a word.
		session.on('goaway', () => this.#ended(session)).on('close', () => this.#ended(session));
		return { session, port };
	}

	/** Closes the session once a request that was just started is certainly on its way. */
	#retire(session: ClientHttp2Session): void {
		this.#retired.add(session);
		session.once('close', () => this.#retired.delete(session));
		setTimeout(() => session.close(), 1000).unref();
	}

	#ended(session: ClientHttp2Session): void {
		if (this.#current !== session) return;
		this.#current = undefined;
		this.#session = undefined;
		if (!this.#closing) this.#onEnd();
	}
}

async function connectOrFail(target: Target, alpn: string): Promise<TLSSocket> {
	try {
		return await connectTls(target, { alpn: [alpn] });
	} catch (error) {
		throw new ConnectFailed((error as Error).message);
	}
}

async function headLines({ id, tenant, uploadLength, uploadDeclared }: Plan): Promise<[string, string][]> {
	const lines: [string, string][] = [
		['authorization', `Bearer ${await tokenOf(tenant)}`],
		['x-request-id', id],
		['traceparent', traceparentOf(id)],
	];
	if (uploadLength !== undefined && uploadDeclared) lines.push(['content-length', String(uploadLength)]);
	return lines;
}

/** One identifier for each request, the same in each run with the same seed. */
function traceparentOf(id: string): string {
	const digits = createHash('sha256').update(id).digest('hex');
	return `00-${digits.slice(0, 32)}-${digits.slice(32, 48)}-00`;
}

/**
 * Sends the body in pieces, as fast as the proxy takes it. A client that will leave sends half of a long body.
 *
 * @returns whether the whole body was sent.
 */
async function writeUpload(to: Writable, plan: Plan, framed?: (bytes: Buffer) => Buffer): Promise<boolean> {
	const { uploadLength = 0, clientRandom: random, kind } = plan;
	if (uploadLength === 0) return true;
	const body = uploadBody(plan);
	const whole = !(kind.leavesAfter !== undefined && kind.longUpload);
	const end = whole ? body.length : Math.floor(body.length / 2);
	const largest = Math.max(1, Math.ceil(body.length / random.between(1, 4)));
	for (let at = 0; at < end && !to.destroyed; at += largest) {
		const bytes = body.subarray(at, Math.min(end, at + largest));
		if (!to.write(framed?.(bytes) ?? bytes)) await writable(to);
		else if (random.chance(0.3)) await nextTurn();
	}
	return whole && !to.destroyed;
}

function leaveLater({ kind, clientRandom }: Plan, leave: () => void): NodeJS.Timeout | undefined {
	if (kind.leavesAfter === undefined) return undefined;
	return setTimeout(leave, clientRandom.between(0, 2 * kind.leavesAfter));
}
