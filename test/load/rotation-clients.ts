/**
 * Clients of `rotation.ts`, in a separate process: requests with four kinds of tokens at a steady rate over HTTP/1.1 and HTTP/2. Each
 * response is compared with what its kind must get at that moment.
 */
import { type ClientHttp2Session, connect } from 'node:http2';
import { setTimeout as sleep } from 'node:timers/promises';
import type { TLSSocket } from 'node:tls';
import { connectTls } from '../fixtures/tls-client.ts';
import { type Credentials, tlsOptions } from './attack-credentials.ts';

/** The status that a token of this kind must get; 0: either one, during a change. */
export type Wanted = 200 | 401 | 0;
export const KINDS = ['lasting', 'old', 'fresh', 'forged'] as const;
export type Kind = (typeof KINDS)[number];

export interface Start {
	readonly start: Credentials;
	readonly tokens: Readonly<Record<Kind, string>>;
	readonly wanted: Readonly<Record<Kind, Wanted>>;
	readonly perSecond: number;
}

/** The response to each is a `Tally` of all requests since the start. */
export type RotationOrder =
	| Start
	| { readonly wanted: Readonly<Record<Kind, Wanted>> }
	/** Ends after all requests in flight have their response. */
	| { readonly stop: true };

export interface Tally {
	/** Responses by protocol, kind and status, as `h1 old 401`. */
	readonly answers: Readonly<Record<string, number>>;
	readonly wrong200: number;
	readonly wrong401: number;
	/** Neither 200 nor 401, or no response; the first few as text. */
	readonly failed: number;
	readonly failures: readonly string[];
}

const H1_CONNECTIONS = 12;
const H2_CONNECTIONS = 4;
/** Requests in flight per connection. */
const BATCH = 16;
const ANSWER_MS = 20_000;

let wanted: Readonly<Record<Kind, Wanted>>;
let isOver = false;
let clients: Promise<void>[] = [];
const answers: Record<string, number> = {};
const failures: string[] = [];
let [wrong200, wrong401, failed] = [0, 0, 0];

process.on('message', async (order: RotationOrder) => {
	if ('start' in order) await start(order);
	else if ('wanted' in order) wanted = order.wanted;
	else {
		isOver = true;
		await Promise.all(clients);
	}
	process.send!({ answers, wrong200, wrong401, failed, failures } satisfies Tally);
});
process.on('disconnect', () => process.exit());

async function start({ start: credentials, tokens, wanted: first, perSecond }: Start): Promise<void> {
	wanted = first;
	const h1 = Array.from({ length: H1_CONNECTIONS }, async () => {
		const socket = await connectTls(credentials, tlsOptions(credentials, 'http/1.1'));
		return { protocol: 'h1', send: (kinds: readonly Kind[]) => askH1(socket, kinds, tokens) };
	});
	const h2 = Array.from({ length: H2_CONNECTIONS }, async () => {
		const socket = await connectTls(credentials, tlsOptions(credentials, 'h2'));
		const session = connect('https://localhost', { createConnection: () => socket });
		session.on('error', (error) => fail(`h2 session: ${error.message}`));
		return { protocol: 'h2', send: (kinds: readonly Kind[]) => askH2(session, kinds, tokens) };
	});
	const connections = await Promise.all([...h1, ...h2]);
	const pace = new Pace(perSecond);
	clients = connections.map(async ({ protocol, send }) => {
		while (!isOver) {
			await pace.take(BATCH);
			if (isOver) return;
			const kinds = Array.from({ length: BATCH }, (_, i) => KINDS[i % KINDS.length]!);
			// What holds when the request is sent. If that changes before the response, either status is right.
			const before = wanted;
			try {
				const statuses = await send(kinds);
				for (const [i, kind] of kinds.entries()) judge(protocol, kind, statuses[i]!, before[kind], wanted[kind]);
			} catch (error) {
				fail(`${protocol}: ${(error as Error).message}`);
				return;
			}
		}
	});
}

function judge(protocol: string, kind: Kind, status: number, before: Wanted, after: Wanted): void {
	const id = `${protocol} ${kind} ${status}`;
	answers[id] = (answers[id] ?? 0) + 1;
	if (status !== 200 && status !== 401) return fail(`${protocol}: a token of kind ${kind} got ${status}`);
	if (before !== after || before === 0 || status === before) return;
	if (status === 200) wrong200++;
	else wrong401++;
}

function fail(what: string): void {
	if (isOver) return;
	failed++;
	if (failures.length < 10) failures.push(what);
}

/** This many per second over all clients; at most a tenth of a second is made up for. */
class Pace {
	readonly #perMs: number;
	#next = performance.now();

	constructor(perSecond: number) {
		this.#perMs = perSecond / 1000;
	}

	async take(count: number): Promise<void> {
		const now = performance.now();
		this.#next = Math.max(this.#next, now - 100) + count / this.#perMs;
		if (this.#next > now) await sleep(this.#next - now);
	}
}

/** All in one write; the responses come in order. */
async function askH1(socket: TLSSocket, kinds: readonly Kind[], tokens: Start['tokens']): Promise<number[]> {
	const head = (kind: Kind) => `GET / HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer ${tokens[kind]}\r\n\r\n`;
	const { promise, resolve, reject } = Promise.withResolvers<number[]>();
	let text = '';
	const statuses: number[] = [];
	const onData = (chunk: Buffer) => {
		text += chunk.toString('latin1');
		for (;;) {
			const end = text.indexOf('\r\n\r\n');
			if (end === -1) return;
			const length = Number(/\r\ncontent-length: (\d+)/i.exec(text.slice(0, end))?.[1]);
			if (!(length >= 0)) return reject(new Error(`no content-length in ${JSON.stringify(text.slice(0, 80))}`));
			if (text.length < end + 4 + length) return;
			statuses.push(Number(text.slice(9, 12)));
			text = text.slice(end + 4 + length);
			if (statuses.length === kinds.length) return resolve(statuses);
		}
	};
	const onClose = () => reject(new Error('the proxy has closed a connection'));
	const timer = setTimeout(() => reject(new Error(`no answer within ${ANSWER_MS} ms`)), ANSWER_MS);
	socket.on('data', onData).once('close', onClose);
	if (socket.destroyed) onClose();
	socket.write(kinds.map(head).join(''));
	try {
		return await promise;
	} finally {
		clearTimeout(timer);
		socket.off('data', onData).off('close', onClose);
	}
}

function askH2(session: ClientHttp2Session, kinds: readonly Kind[], tokens: Start['tokens']): Promise<number[]> {
	return Promise.all(
		kinds.map(async (kind) => {
			const stream = session.request({ ':path': '/', authorization: `Bearer ${tokens[kind]}` });
			let status = 0;
			stream.once('response', (headers) => {
				status = headers[':status']!;
			});
			stream.setTimeout(ANSWER_MS, () => stream.destroy(new Error(`no answer within ${ANSWER_MS} ms`)));
			stream.resume();
			await new Promise<void>((resolve, reject) => stream.once('error', reject).once('close', resolve));
			return status;
		}),
	);
}
