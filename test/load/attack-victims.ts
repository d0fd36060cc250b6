/**
 * The victims, in a separate process: well-behaved clients that send at a steady rate and do not wait for responses. A request's
 * time starts when its client wants to send it, not when a connection is free: waiting behind other requests counts.
 */
import { type ClientHttp2Session, connect } from 'node:http2';
import type { TLSSocket } from 'node:tls';
import { ByteReader } from '../fixtures/byte-reader.ts';
import { readResponse } from '../fixtures/http1-message.ts';
import { connectTls } from '../fixtures/tls-client.ts';
import { type Credentials, pace, tlsOptions } from './attack-credentials.ts';

/** The parent's orders; the response to each is a `Window`. */
export type VictimsOrder = { readonly start: Credentials; readonly perSecond: number } | { readonly window: number };

/** Durations of the requests in one time window, ms. A request still in flight at its end counts with its time so far. */
export interface Window {
	readonly requests: number;
	readonly p50: number;
	readonly p99: number;
	readonly longest: number;
	/** Requests since the last window without a response, or with a wrong one; the first few as text. */
	readonly failures: readonly string[];
	readonly failed: number;
}

const H1_CONNECTIONS = 16;
const H2_CONNECTIONS = 4;

let times: number[] = [];
let failures: string[] = [];
let failed = 0;
/** When each pending request was wanted, by its number. */
const underWay = new Map<number, number>();
let number = 0;

process.on('message', async (order: VictimsOrder) => {
	if ('start' in order) {
		await start(order.start, order.perSecond);
		process.send!(summary());
		return;
	}
	times = [];
	setTimeout(() => process.send!(summary()), order.window);
});
process.on('disconnect', () => process.exit());

function summary(): Window {
	const now = performance.now();
	const sorted = [...times, ...Array.from(underWay.values(), (wantedAt) => now - wantedAt)].sort((a, b) => a - b);
	const at = (share: number) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
	const window = { requests: sorted.length, p50: at(0.5), p99: at(0.99), longest: at(1), failures, failed };
	failures = [];
	failed = 0;
	return window;
}

async function start(credentials: Credentials, perSecond: number): Promise<void> {
	const h1 = await Promise.all(Array.from({ length: H1_CONNECTIONS }, () => h1Victim(credentials)));
	const h2 = await Promise.all(Array.from({ length: H2_CONNECTIONS }, () => h2Victim(credentials)));
	const victims = [...h1, ...h2];
	pace(perSecond, () => {
		const own = number++;
		underWay.set(own, performance.now());
		const path = `/victim/${own}`;
		// With more requests in flight, the measured time is no longer the proxy's.
		if (underWay.size > 5000) throw new Error('the victims cannot keep up with themselves');
		victims[own % victims.length]!(path).then(
			(body) => settle(own, body === path ? undefined : `${path} got ${JSON.stringify(body.slice(0, 80))}`),
			(error) => settle(own, `${path}: ${(error as Error).message}`),
		);
	});
}

function settle(number: number, failure: string | undefined): void {
	times.push(performance.now() - underWay.get(number)!);
	underWay.delete(number);
	if (failure === undefined) return;
	failed++;
	if (failures.length < 5) failures.push(failure);
}

type Victim = (path: string) => Promise<string>;

/** Sends one request after another on one connection. */
async function h1Victim(credentials: Credentials): Promise<Victim> {
	const token = credentials.tokens[0]!;
	let connection: Promise<{ socket: TLSSocket; reader: ByteReader }> | undefined;
	const open = async () => {
		const socket = await connectTls(credentials, tlsOptions(credentials, 'http/1.1'));
		return { socket, reader: new ByteReader(socket) };
	};
	let last: Promise<unknown> = Promise.resolve();
	const send = async (path: string) => {
		connection ??= open();
		try {
			const { socket, reader } = await connection;
			socket.write(`GET ${path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer ${token}\r\n\r\n`);
			const { status, body } = await readResponse(reader, 'GET', 10_000);
			return status === 200 ? body.toString() : `status ${status}: ${body}`;
		} catch (error) {
			connection = undefined;
			throw error;
		}
	};
	connection = open();
	await connection;
	return (path) => {
		const answer = last.then(
			() => send(path),
			() => send(path),
		);
		last = answer;
		return answer;
	};
}

async function h2Victim(credentials: Credentials): Promise<Victim> {
	const authorization = `Bearer ${credentials.tokens[1]!}`;
	let session: Promise<ClientHttp2Session> | undefined;
	const open = async () => {
		const socket = await connectTls(credentials, tlsOptions(credentials, 'h2'));
		const opened = connect('https://localhost', { createConnection: () => socket });
		opened.on('error', () => {});
		opened.on('close', () => {
			session = undefined;
		});
		return opened;
	};
	session = open();
	await session;
	return async (path) => {
		session ??= open();
		const stream = (await session).request({ ':path': path, authorization });
		let text = '';
		stream.setEncoding('utf8').on('data', (piece: string) => {
			text += piece;
		});
		await new Promise<void>((resolve, reject) => {
			stream.on('error', reject);
			stream.on('close', resolve);
		});
		return text;
	};
}
