/**
 * Third-party WebSockets through the real command: Python's `websockets` on both sides, and Socket.IO. What is not installed is skipped; with
 * PROXY_TEST_ALL_CLIENTS that is a failure.
 */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { Server } from 'socket.io';
import { io as client, type Socket } from 'socket.io-client';
import { PROTOCOLS } from '../fixtures/clients.ts';
import { type TestPki, testPki } from '../fixtures/pki.ts';
import { neutralEnvironment, Program } from '../fixtures/program.ts';
import { ASKED_ONCE, firstVerdicts, type ProxyProcess, startProxy } from '../fixtures/proxy.ts';
import { DEADLINE_MS, until, within } from '../fixtures/wait.ts';
import { openWebSocket } from '../fixtures/web-socket-client.ts';
import { startWebSocketUpstream, type WebSocketUpstream } from '../fixtures/web-socket-upstream.ts';
import { edgeFiles, runs } from './clients/process.ts';
import { missing } from './tools.ts';

/** Debian's Python, which has Debian's packages. */
const PYTHON = '/usr/bin/python3';
const noPython = missing(runs(PYTHON, '-c', 'import websockets') ? [] : ['python3-websockets']);
/** Time for Python to start on a busy machine, ms. */
const PATIENCE_MS = 90_000;

let pki: TestPki;
before(async () => {
	pki = await testPki();
});

describe("Python's websockets", { skip: noPython }, () => {
	const open = new AsyncDisposableStack();
	let ws: WebSocketUpstream;
	let proxy: ProxyProcess;
	before(async () => {
		const server = open.use(python('server.py', [], {}));
		await server.says(/^\d+$/m, PATIENCE_MS);
		ws = open.use(
			await startWebSocketUpstream(
				({ ws, request }) => {
					const code = /\/close\/(\d+)$/.exec(request.url!)?.[1];
					if (code !== undefined) ws.close(Number(code), 'as asked');
					ws.on('message', (data, binary) => {
						const bytes = data as Buffer;
						if (request.url!.endsWith('/pieces'))
							for (const [piece, fin] of pieces(bytes)) ws.send(piece, { binary, fin });
						else ws.send(bytes, { binary });
					});
				},
				{ perMessageDeflate: true, handleProtocols: () => 'chat.v1' },
			),
		);
		proxy = open.use(
			await startProxy({
				routes: [
					{ prefix: '/python', upstream: `http://127.0.0.1:${server.stdout.trim()}`, websocket: true },
					{ prefix: '/ws', upstream: ws.url, websocket: true },
				],
				config: { ...ASKED_ONCE, tenant_rps: 0 },
				log: { access: 'all' },
			}),
		);
		await firstVerdicts(proxy);
	});
	after(() => open.disposeAsync());

	/** Runs the client to the end. @returns what it saw. */
	async function run(upstream: string, what: string, token?: string): Promise<Seen[]> {
		await using program = clientProgram(upstream, what, token);
		assert.equal(await program.ended(PATIENCE_MS), 0, program.output());
		return seen(program);
	}

	function clientProgram(upstream: string, what: string, token = pki.token()): Program {
		const { ca, cert, key } = edgeFiles({ base: '', protocol: 'h1', pki });
		const env = { EDGE_CA: ca, EDGE_CERT: cert, EDGE_KEY: key, EDGE_TOKEN: token };
		return python('client.py', [`wss://127.0.0.1:${proxy.port}${upstream}`, what], env);
	}

	for (const upstream of ['/python', '/ws']) {
		test(`as a client of ${upstream}: messages of all sizes, fragments both ways, compression, pings and its Close`, async () => {
			const from = proxy.logs.length;
			assert.deepEqual(await run(upstream, 'talk'), [
				{ case: 'opened', subprotocol: 'chat.v1', extensions: ['permessage-deflate'] },
				...['text', 'empty', 'large', 'compressible', 'fragments there', 'pong', 'many'].map((name) => ({
					case: name,
					same: true,
				})),
				{ case: 'closed', code: 4002, reason: 'enough' },
				{ case: 'uncompressed', extensions: [] },
				{ case: 'fragments back', same: true },
			]);
			const line = await proxy.waitForLog(({ path }) => path === `${upstream}/echo`, undefined, from);
			assert.equal(line.tunnel_end, 'client');
			// The compressible ones are compressed in transit; the others cannot be.
			const bytes = Number(line.bytes_in);
			assert.ok(bytes > 8 << 20 && bytes < 9 << 20, `${bytes} bytes`);
		});

		test(`as a client of ${upstream}: gets the Close of the upstream with its code and reason`, async () => {
			assert.deepEqual(
				await run(upstream, 'close'),
				[1000, 1001, 1011, 3000, 4999].map((code) => ({ case: `${code}`, code, reason: 'as asked' })),
			);
		});
	}

	test('as a client is refused with the status of the gate', async () => {
		assert.deepEqual(await run('/ws', 'refused', 'nonsense'), [{ case: 'refused', status: 401 }]);
	});

	for (const protocol of PROTOCOLS) {
		test(`as a server of a client over ${protocol}: large messages, fragments and Closes`, async () => {
			await using client = await openWebSocket(protocol, proxy, { path: '/python/pieces', protocols: ['chat.v2'] });
			assert.equal(client.ws.protocol, 'chat.v2');
			for (const size of [0, 1, 999, 1_000, 1_001, 70_000, 2_000_000]) {
				const sent = randomBytes(size);
				client.ws.send(sent);
				assert.ok((await client.message()).equals(sent), `${size} bytes`);
			}
			client.ws.send('in ', { fin: false });
			client.ws.send('two', { fin: true });
			assert.equal(await client.text(), 'in two');
			client.ws.close(4001, 'bye');
			assert.equal(await client.closed, 4001);
			await using other = await openWebSocket(protocol, proxy, { path: '/python/close/4321' });
			assert.equal(await other.closed, 4321);
		});
	}

	test('on both sides: a tenant that is revoked gets 1008, and another one stays', async () => {
		await using gone = clientProgram('/python', 'stay', pki.token('gone'));
		await using stays = await openWebSocket('h2', proxy, { path: '/python/echo' });
		await gone.says(/"open"/, PATIENCE_MS);
		proxy.writeConfig({ config: { revoked_path: pki.writeFile('revoked-python.toml', 'tenants = ["gone"]') } });
		await proxy.reload();
		assert.equal(await gone.ended(PATIENCE_MS), 0, gone.output());
		assert.deepEqual(seen(gone).at(-1), { case: 'ended', code: 1008 });
		stays.ws.send('still here');
		assert.equal(await stays.text(), 'still here');
	});

	test('leaves nothing behind', async () => {
		await until(async () => (await proxy.metric('proxy_tunnels_open')) === 0, 'all tunnels to end');
		await until(async () => (await proxy.metric('proxy_requests_in_flight')) === 0, 'all requests to end');
	});
});

describe('Socket.IO', () => {
	const open = new AsyncDisposableStack();
	let proxy: ProxyProcess;
	let io: Server;
	before(async () => {
		const http = createServer((_request, response) => void response.end('ok'));
		io = new Server(http, { maxHttpBufferSize: 10_000_000 });
		io.on('connection', (socket) => {
			socket.on('echo', (value, answer) => answer(value));
			socket.on('shout', (value) => io.emit('heard', value));
			socket.on('leave', () => socket.disconnect(true));
		});
		await new Promise<void>((resolve) => void http.listen(0, '127.0.0.1', resolve));
		open.defer(() => io.close());
		const { port } = http.address() as AddressInfo;
		proxy = open.use(
			await startProxy({
				routes: [{ prefix: '/socket.io', upstream: `http://127.0.0.1:${port}`, websocket: true }],
				config: { ...ASKED_ONCE, tenant_rps: 0 },
				log: { access: 'all' },
			}),
		);
		await firstVerdicts(proxy);
	});
	after(() => open.disposeAsync());

	async function connect(transports: readonly string[], token = pki.token()): Promise<Socket & AsyncDisposable> {
		const { certPem: cert, keyPem: key } = pki.clients.valid;
		const socket = client(`https://127.0.0.1:${proxy.port}`, {
			...{ ca: pki.ca.certPem, cert, key, transports: [...transports], forceNew: true, reconnection: false },
			extraHeaders: { authorization: `Bearer ${token}` },
		});
		const connected = new Promise<void>((resolve, reject) => {
			socket.once('connect', resolve).once('connect_error', reject);
		});
		await within(connected, 'Socket.IO to connect');
		return Object.assign(socket, {
			[Symbol.asyncDispose]: async () => {
				socket.disconnect();
			},
		});
	}

	for (const transports of [['websocket'], ['polling', 'websocket']]) {
		test(`by ${transports.join(' and then ')}: events both ways, large binary, and a disconnect by the server`, async () => {
			await using one = await connect(transports);
			await using two = await connect(transports);
			await until(() => one.io.engine.transport.name === 'websocket', 'the upgrade');
			const sent = { text: 'Grüße', bytes: randomBytes(3_000_000) };
			const got = await one.timeout(DEADLINE_MS).emitWithAck('echo', sent);
			assert.equal(got.text, sent.text);
			assert.ok(sent.bytes.equals(got.bytes));
			const heard = new Promise((resolve) => two.once('heard', resolve));
			one.emit('shout', 'hello');
			assert.equal(await within(heard, 'the event'), 'hello');
			const left = new Promise((resolve) => one.once('disconnect', resolve));
			one.emit('leave');
			assert.equal(await within(left, 'the disconnect'), 'io server disconnect');
		});
	}

	test('a tenant that is revoked is disconnected with Close 1008, and another one stays', async () => {
		await using gone = await connect(['websocket'], pki.token('gone'));
		await using stays = await connect(['websocket']);
		const closed = new Promise<{ code: number }>((resolve) => {
			gone.once('disconnect', (_reason, details) => resolve((details as { context: { code: number } }).context));
		});
		proxy.writeConfig({ config: { revoked_path: pki.writeFile('revoked-io.toml', 'tenants = ["gone"]') } });
		await proxy.reload();
		assert.equal((await within(closed, 'the disconnect')).code, 1008);
		assert.equal(await stays.timeout(DEADLINE_MS).emitWithAck('echo', 'still here'), 'still here');
	});
});

type Seen = Readonly<Record<string, unknown>>;

function seen({ strayLines }: Program): Seen[] {
	return strayLines.map((line) => JSON.parse(line));
}

function python(script: string, args: readonly string[], env: Readonly<Record<string, string>>): Program {
	const path = join(import.meta.dirname, 'websocket', script);
	return new Program([PYTHON, path, ...args], { env: { ...neutralEnvironment(), ...env } });
}

/** Of a thousand bytes each, and whether it is the last one. */
function* pieces(bytes: Buffer): Generator<[piece: Buffer, isLast: boolean]> {
	for (let at = 0; at === 0 || at < bytes.length; at += 1_000) {
		yield [bytes.subarray(at, at + 1_000), at + 1_000 >= bytes.length];
	}
}
