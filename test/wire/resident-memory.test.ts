/** Memory of a process that a flood has blown up goes back to the operating system. */
import { describe, it } from 'node:test';
import { h1Raw, h2Raw } from '../fixtures/clients.ts';
import { headersFrame, requestFields, SETTING } from '../fixtures/h2-frames.ts';
import { testPki } from '../fixtures/pki.ts';
import { HAS_PROC, residentBytes } from '../fixtures/proc.ts';
import { BODY_MODE } from '../fixtures/proxy.ts';
import { type Stage, startStage } from '../fixtures/stage.ts';
import { until } from '../fixtures/wait.ts';

const MIB = 2 ** 20;
/** Answers to many requests on a few connections whose windows stay closed. */
const STREAMS = 40;
const H2_CONNECTIONS = 5;
/** One answer each, larger than what the kernel takes of it. */
const LARGE = Buffer.alloc(24 * MIB, 'x');
const READERS = 12;
const BODIES: Record<string, Buffer> = { '/large': LARGE, '/mib': LARGE.subarray(0, MIB) };
/** What grows at least, of 200 MiB over HTTP/2 and 288 MiB over HTTP/1.1 less what the kernel takes. */
const HELD = 160 * MIB;
/** The part of the memory that may stay: the allocator keeps blocks of TLS and Node, and V8 keeps its heap. */
const LEFT = 1 / 3;

type Floods = Record<string, (stage: Stage, token: string) => Promise<{ close(): void }[]>>;
const FLOODS: Floods = {
	'zero windows over h2': (stage, token) =>
		Promise.all(
			Array.from({ length: H2_CONNECTIONS }, async () => {
				const connection = await h2Raw(stage.proxy, { settings: [[SETTING.INITIAL_WINDOW_SIZE, 0]] });
				const lines = requestFields('GET', '/mib', token);
				connection.send(...Array.from({ length: STREAMS }, (_, i) => headersFrame(2 * i + 1, lines)));
				return connection;
			}),
		),
	'readers that do not read over h1': (stage, token) =>
		Promise.all(
			Array.from({ length: READERS }, async () => {
				const connection = await h1Raw(stage.proxy);
				connection.socket.pause();
				connection.send(`GET /large HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${token}\r\n\r\n`);
				return connection;
			}),
		),
};

const skip = HAS_PROC && BODY_MODE === 'collected' ? false : 'nothing is held in streaming mode; needs /proc';
describe('resident memory comes down again after', { skip }, () => {
	for (const [name, flood] of Object.entries(FLOODS)) {
		it(name, async (t) => {
			await using stage = await startStage({
				workers: 1,
				limits: { max_buffered_bytes: 1024 * MIB, max_buffered_bytes_per_tenant: 1024 * MIB },
				script: (exchange) => exchange.respond({ body: BODIES[exchange.request.target] ?? '' }),
			});
			const { pid } = stage.proxy;
			const before = residentBytes(pid);
			const clients = await flood(stage, (await testPki()).token());
			const grown = () => residentBytes(pid) - before;
			await until(
				() => grown() >= HELD,
				() => `the answers to be held: ${Math.round(grown() / MIB)} MiB`,
			);
			const most = grown();
			for (const client of clients) client.close();
			await until(
				() => grown() <= most * LEFT,
				() => `memory to go back: ${Math.round(grown() / MIB)} of ${Math.round(most / MIB)} MiB are left`,
				60_000,
			);
			t.diagnostic(`${Math.round(most / MIB)} MiB more, then ${Math.round(grown() / MIB)} MiB`);
		});
	}
});
