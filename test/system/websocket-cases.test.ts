/**
 * The proxy changes nothing of what two WebSocket peers send each other, however odd: each case of `websocket/cases.ts` is played with and
 * without it, and the responses are the same. The peer is `ws` or Python's `websockets`, as a server and as a client.
 */
import assert from 'node:assert/strict';
import { connect, type Socket } from 'node:net';
import { join } from 'node:path';
import type { Duplex } from 'node:stream';
import { after, before, describe, test } from 'node:test';
import { WebSocket } from 'ws';
import { PROTOCOLS, type Protocol } from '../fixtures/clients.ts';
import { type TestPki, testPki } from '../fixtures/pki.ts';
import { neutralEnvironment, Program, portOf } from '../fixtures/program.ts';
import { ASKED_ONCE, firstVerdicts, type ProxyProcess, startProxy } from '../fixtures/proxy.ts';
import { within } from '../fixtures/wait.ts';
import { openDuplex, openWebSocket, upgrade } from '../fixtures/web-socket-client.ts';
import {
	echo,
	type RawUpstream,
	startHttp2WebSocketUpstream,
	startRawUpstream,
	startWebSocketUpstream,
} from '../fixtures/web-socket-upstream.ts';
import { edgeEnvironment, edgeFiles, runs } from './clients/process.ts';
import { type Envoy, noEnvoy, startEnvoy } from './servers/envoy.ts';
import { missing } from './tools.ts';
import { type Case, GROUPS } from './websocket/cases.ts';
import { play } from './websocket/exchange.ts';
import { type FrameReader, OPCODE } from './websocket/frames.ts';

/** Debian's Python, which has Debian's packages. */
const PYTHON = '/usr/bin/python3';
const noPython = missing(runs(PYTHON, '-c', 'import websockets') ? [] : ['python3-websockets']);
/** Time for Python to start on a busy machine, ms. */
const PATIENCE_MS = 90_000;
/** Cases played at the same time. */
const AT_ONCE = 8;

/** Servers that echo, by the name of their route. */
const SERVERS = {
	ws: { skip: false, direct: 'ws' },
	'ws-h2': { skip: false, direct: 'ws' },
	// It speaks HTTP/2 on both sides: it turns a CONNECT into an Upgrade without a key, which no HTTP/1.1 server accepts.
	envoy: { skip: noEnvoy, direct: 'ws' },
	python: { skip: noPython, direct: 'python' },
} as const satisfies Record<string, { skip: string | false; direct: string }>;

const open = new AsyncDisposableStack();
/** Where servers listen in clear text. */
const ports = new Map<string, number>();
let pki: TestPki;
let proxy: ProxyProcess;
/** In front of the proxy: turns HTTP/1.1 into the extended CONNECT. */
let front: Envoy<'edge'>;
/** Plays to clients. */
let raw: RawUpstream;
/** Clients of it, by the path that they request. */
const arrivals = new Map<string, PromiseWithResolvers<Socket>>();

before(async () => {
	pki = await testPki();
	const ws = open.use(await startWebSocketUpstream(({ ws }) => echo(ws)));
	ports.set('ws', ws.port);
	const http2 = await startHttp2WebSocketUpstream();
	open.defer(() => http2.stop());
	if (!noPython) {
		const server = open.use(python('server.py'));
		await server.says(/^\d+$/m, PATIENCE_MS);
		ports.set('python', Number(server.stdout));
	}
	raw = await startRawUpstream(({ target, socket, switch: answer }) => {
		answer();
		arrival(target).resolve(socket);
	});
	open.defer(() => raw.stop());
	const envoy = noEnvoy
		? undefined
		: open.use(await startEnvoy({ ws: { to: { port: portOf(http2.authority), protocol: 'h2' } } }));
	const urls = new Map([...ports].map(([name, port]) => [name, `http://127.0.0.1:${port}`]));
	urls.set('ws-h2', `h2c://${http2.authority}`).set('raw', raw.url);
	if (envoy !== undefined) urls.set('envoy', `h2c://127.0.0.1:${envoy.ports.ws}`);
	proxy = open.use(
		await startProxy({
			routes: [...urls].map(([name, upstream]) => ({ prefix: `/${name}`, upstream, websocket: true })),
			config: { ...ASKED_ONCE, tenant_rps: 0 },
		}),
	);
	await firstVerdicts(proxy);
	if (noEnvoy) return;
	const { ca, cert, key } = edgeFiles({ base: '', protocol: 'h2', pki });
	front = open.use(await startEnvoy({ edge: { to: { port: proxy.port, protocol: 'h2', tls: { ca, cert, key } } } }));
});
after(() => open.disposeAsync());

function python(script: string, args: readonly string[] = [], env: Readonly<Record<string, string>> = {}): Program {
	const path = join(import.meta.dirname, 'websocket', script);
	return new Program([PYTHON, path, ...args], { env: { ...neutralEnvironment(), ...env } });
}

function arrival(path: string): PromiseWithResolvers<Socket> {
	const known = arrivals.get(path) ?? Promise.withResolvers<Socket>();
	arrivals.set(path, known);
	return known;
}

function connectTo(port: number, path: string, fields?: Readonly<Record<string, string>>): Promise<Duplex> {
	return upgrade(connect({ port, host: '127.0.0.1', allowHalfOpen: true }), path, fields);
}

function clientAt(path: string): Promise<Duplex> {
	return within(arrival(path).promise, `a client at ${path}`, PATIENCE_MS);
}

/** Plays all cases, several at once. @param start by the case's index. @returns the responses to each. */
async function playAll(
	cases: readonly Case[],
	isMasked: boolean,
	start: (place: number) => Promise<Duplex>,
): Promise<FrameReader[]> {
	const outcomes: FrameReader[] = [];
	const queue = cases.entries();
	const worker = async () => {
		for (const [i, one] of queue) {
			const duplex = await start(i);
			outcomes[i] = await play(one, duplex, isMasked);
			duplex.destroy();
		}
	};
	await Promise.all(Array.from({ length: AT_ONCE }, worker));
	for (const [i, { frames }] of outcomes.entries()) assert.equal(frames.at(-1)?.opcode, OPCODE.close, cases[i]!.id);
	return outcomes;
}

function assertSame(cases: readonly Case[], got: readonly FrameReader[], wanted: readonly FrameReader[]): void {
	for (const [i, { id }] of cases.entries()) assert.deepEqual(got[i]!.frames, wanted[i]!.frames, id);
}

for (const [server, { skip, direct }] of Object.entries(SERVERS)) {
	describe(`a server, ${server},`, { skip }, () => {
		for (const [group, some] of Object.entries(GROUPS)) {
			// The responses of `ws` do not depend on how its reads are cut.
			const cases = direct === 'ws' ? [...some, ...some.flatMap(atOnce)] : some;
			test(`sends the same bytes over each protocol: ${group}`, async () => {
				const wanted = await playAll(cases, true, () => connectTo(ports.get(direct)!, `/${direct}/echo`));
				for (const protocol of PROTOCOLS) {
					const got = await playAll(cases, true, () => openDuplex(protocol, proxy, `/${server}/echo`));
					assertSame(cases, got, wanted);
					const bytes = (readers: readonly FrameReader[]) => Buffer.concat(readers.flatMap(({ all }) => all));
					assert.ok(bytes(got).equals(bytes(wanted)), protocol);
				}
			});
		}
	});
}

describe('Envoy in front of the proxy', { skip: noEnvoy }, () => {
	for (const [group, cases] of Object.entries(GROUPS)) {
		test(`changes nothing of what a server sends: ${group}`, async () => {
			const wanted = await playAll(cases, true, () => connectTo(ports.get('ws')!, '/ws/echo'));
			const fields = { authorization: `Bearer ${pki.token()}` };
			assertSame(cases, await playAll(cases, true, () => connectTo(front.ports.edge, '/ws/echo', fields)), wanted);
		});
	}
});

describe('a client, ws,', () => {
	/** @param protocol `undefined`: without the proxy. */
	async function connectAs(protocol: Protocol | undefined, path: string): Promise<Duplex> {
		if (protocol === undefined) {
			const ws = new WebSocket(raw.url.replace('http', 'ws') + path, { perMessageDeflate: false });
			ws.on('error', () => {});
			echo(ws);
		} else {
			const opened = await openWebSocket(protocol, proxy, { path, ws: { perMessageDeflate: false } });
			echo(opened.ws);
			opened.ws.once('close', () => opened[Symbol.asyncDispose]());
		}
		return clientAt(path);
	}
	let paths = 0;

	for (const [group, some] of Object.entries(GROUPS)) {
		const cases = [...some, ...some.flatMap(atOnce)];
		test(`sends the same frames over each protocol: ${group}`, async () => {
			const path = `/raw/${++paths}`;
			const wanted = await playAll(cases, false, (i) => connectAs(undefined, `${path}/${i}`));
			for (const protocol of PROTOCOLS) {
				assertSame(cases, await playAll(cases, false, (i) => connectAs(protocol, `${path}/${protocol}/${i}`)), wanted);
			}
		});
	}
});

describe("a client, Python's websockets,", { skip: noPython }, () => {
	const cases = Object.values(GROUPS).flat();

	/** @param origin with or without the proxy. */
	async function playTo(origin: string, path: string): Promise<FrameReader[]> {
		await using client = python('client.py', [`${origin}${path}`, 'echo', `${cases.length}`], {
			...edgeEnvironment({ base: '', protocol: 'h1', pki }),
		});
		const outcomes = await playAll(cases, false, (i) => clientAt(`${path}/${i}`));
		assert.equal(await client.ended(PATIENCE_MS), 0, client.output());
		return outcomes;
	}

	test('sends the same frames: all of them', async () => {
		const wanted = await playTo(raw.url.replace('http', 'ws'), '/raw/python');
		assertSame(cases, await playTo(`wss://127.0.0.1:${proxy.port}`, '/raw/python-h1'), wanted);
	});
});

/** Everything that a short case sends, in one write and without waiting. */
function atOnce({ id, steps }: Case): Case[] {
	const sends = steps.filter((step) => 'send' in step);
	const all = sends.flatMap(({ send }) => send);
	const bytes = all.reduce((sum, { payload }) => sum + payload.length, 0);
	const answers = steps.reduce((sum, step) => sum + ('answers' in step ? step.answers : 0), 0);
	return sends.length === 1 || bytes > 16_384 ? [] : [{ id: `${id} at once`, steps: [{ send: all }, { answers }] }];
}
