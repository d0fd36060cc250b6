import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { after, before, describe, it } from 'node:test';
import { WebSocket } from 'ws';
import { h1Raw, PROTOCOLS, request } from '../fixtures/clients.ts';
import { testPki } from '../fixtures/pki.ts';
import { ASKED_ONCE, firstVerdicts, type ProxyProcess, startProxy, testOnce } from '../fixtures/proxy.ts';
import { DEADLINE_MS, until } from '../fixtures/wait.ts';
import { connectHttp2, type OpenWebSocket, openRaw, openWebSocket, refusal } from '../fixtures/web-socket-client.ts';
import {
	echo,
	type RawHandshake,
	type RawUpstream,
	startRawUpstream,
	startWebSocketUpstream,
	type WebSocketUpstream,
} from '../fixtures/web-socket-upstream.ts';

let upstream: WebSocketUpstream;
/** Responds to handshakes as the test sets it. */
let scripted: RawUpstream;
let script: (handshake: RawHandshake) => void = (handshake) => handshake.switch();
let proxy: ProxyProcess;
const KEY = 'dGhlIHNhbXBsZSBub25jZQ==';

before(async () => {
	upstream = await startWebSocketUpstream(
		({ ws, request, socket }) => {
			echo(ws);
			if (request.url === '/ws/full') socket.pause();
		},
		{ handleProtocols: (offered) => [...offered].at(-1) ?? false, perMessageDeflate: { threshold: 0 } },
	);
	scripted = await startRawUpstream((handshake) => script(handshake));
	proxy = await startProxy({
		routes: [
			{ prefix: '/ws', upstream: upstream.url, websocket: true },
			{ prefix: '/paced', upstream: upstream.url, websocket: true, websocket_messages_per_sec: 1 },
			{ prefix: '/slow', upstream: scripted.url, websocket: true, websocket_messages_per_sec: 1 },
			{ prefix: '/plain', upstream: upstream.url },
			{ prefix: '/scripted', upstream: scripted.url, websocket: true, failures: 100 },
			{ prefix: '/brittle', upstream: scripted.url, websocket: true, failures: 1 },
			{ prefix: '/scoped', upstream: upstream.url, websocket: true, scopes: ['chat'] },
		],
		config: { ...ASKED_ONCE, tenant_rps: 0 },
		tenants: [
			{ name: 'few', concurrency: 1 },
			...PROTOCOLS.map((protocol) => ({ name: `metered-${protocol}`, rps: 1, burst: 40 })),
		],
		log: { access: 'all' },
		workers: 1,
	});
	await firstVerdicts(proxy);
});

after(async () => {
	await proxy?.stop();
	await upstream?.[Symbol.asyncDispose]();
	await scripted?.stop();
});

/** Bytes that a client could not send yet. */
function waitingAt({ ws, stream }: OpenWebSocket): number {
	return ws.bufferedAmount + (stream?.writableLength ?? 0);
}

/** Resolves when two checks find the same amount: nothing reads any more. @returns the amount. */
async function untilItStands(left: () => number, what: string): Promise<number> {
	let before = -1;
	await until(async () => {
		const now = left();
		const stands = now > 0 && now === before;
		before = now;
		await new Promise((resolve) => setTimeout(resolve, 200));
		return stands;
	}, what);
	return before;
}

for (const protocol of PROTOCOLS) {
	describe(`a WebSocket over ${protocol}`, () => {
		after(() => proxy.atRest());

		it('carries messages of all sizes, fragments, pings and the Close of the client', async () => {
			const path = `/ws/sizes/${protocol}`;
			await using client = await openWebSocket(protocol, proxy, { path });
			for (const size of [0, 1, 125, 126, 65_535, 65_536, 1_000_000]) {
				const sent = randomBytes(size);
				client.ws.send(sent);
				assert.ok((await client.message()).equals(sent), `${size} bytes`);
			}
			client.ws.send('frag', { fin: false });
			client.ws.ping();
			client.ws.send('ment', { fin: true });
			assert.equal(await client.text(), 'fragment');
			client.ws.close(4001, 'bye');
			assert.equal(await client.closed, 4001);
			const line = await proxy.waitForLog((line) => line.path === path && line.tunnel_end === 'client');
			assert.equal(line.status, protocol === 'h1' ? 101 : 200);
			assert.equal(line.ending, undefined);
			assert.ok(Number(line.bytes_in) > 1_131_000 && Number(line.bytes_out) > 1_131_000, JSON.stringify(line));
		});

		it('has the subprotocol and the compression that the upstream has chosen', async () => {
			const ws = { perMessageDeflate: protocol === 'h1' };
			await using client = await openWebSocket(protocol, proxy, { path: '/ws', protocols: ['a', 'b'], ws });
			assert.equal(client.ws.protocol, 'b');
			if (protocol === 'h1') assert.match(client.ws.extensions, /permessage-deflate/);
			const text = 'compress '.repeat(10_000);
			client.ws.send(text);
			assert.equal(await client.text(), text);
		});

		it('sends the upstream a new key, with the tenant', async () => {
			await using _client = await openWebSocket(protocol, proxy, { path: '/ws/asked' });
			const { headers, method } = upstream.accepted.at(-1)!.request;
			assert.equal(method, 'GET');
			assert.equal(headers['x-proxy-tenant'], 'tenant');
			assert.equal(headers['sec-websocket-version'], '13');
			assert.equal(headers['x-forwarded-for'], '127.0.0.1');
			assert.notEqual(headers['sec-websocket-key'], KEY);
			assert.match(headers['sec-websocket-key']!, /^[A-Za-z0-9+/]{22}==$/);
		});

		it('is read as fast as the upstream takes it, and no faster', async () => {
			await using client = await openWebSocket(protocol, proxy, { path: '/ws/full', ws: { perMessageDeflate: false } });
			const piece = randomBytes(65_536);
			for (let i = 0; i < 400; i++) client.ws.send(piece);
			const { socket } = upstream.accepted.at(-1)!;
			const left = await untilItStands(() => waitingAt(client), 'the client to be held back');
			assert.ok(left > 8_000_000, `${left} bytes wait`);
			socket.resume();
			await client.message();
		});

		it('counts as one request of its tenant in flight', async () => {
			const pki = await testPki();
			const token = pki.token('few');
			const client = await openWebSocket(protocol, proxy, { path: '/ws', token });
			const { status } = await refusal(openWebSocket(protocol, proxy, { path: '/ws', token }));
			assert.equal(status, 429);
			const open = () => proxy.metric('proxy_tunnels_open', { protocol: protocol === 'h1' ? 'http/1.1' : 'h2' });
			await until(async () => (await open()) === 1, 'the tunnels of earlier tests to be gone');
			await client[Symbol.asyncDispose]();
			await until(async () => (await request('h1', proxy, { path: '/ws', token })).status !== 429, 'a free place');
		});

		testOnce('is held back to its messages a second while another one talks on, and stays', async () => {
			await using client = await openWebSocket(protocol, proxy, { path: '/paced', ws: { perMessageDeflate: false } });
			const { ws } = upstream.accepted.at(-1)!;
			let arrived = 0;
			ws.on('message', () => arrived++);
			// More than have their time before the test is given up.
			const many = (2 * DEADLINE_MS) / 1000;
			for (let i = 0; i < many; i++) client.ws.send(`${i}`);
			await using other = await openWebSocket(protocol, proxy, { path: '/ws' });
			// Behind what has been sent above: one worker has both.
			for (let i = 0; i < 20; i++) {
				other.ws.send(`${i}`);
				assert.equal(await other.text(), `${i}`);
			}
			assert.ok(arrived < many, `${arrived} of ${many}`);
			const piece = randomBytes(65_536);
			for (let i = 0; i < 400; i++) client.ws.send(piece);
			// Messages go on to pass, one by one, and no room for others comes of it.
			await until(async () => {
				const [left, before] = [waitingAt(client), arrived];
				await until(() => arrived > before + 1, 'the next messages');
				return left > 8_000_000 && waitingAt(client) === left;
			}, 'the client to be held back');
			assert.equal(client.ws.readyState, WebSocket.OPEN);
		});

		it('a WebSocket whose client has ended its side still receives from the upstream', async () => {
			script = (handshake) => {
				handshake.switch();
				let got = '';
				handshake.socket.on('data', (bytes) => {
					got += bytes.toString('latin1');
				});
				handshake.socket.on('end', () => handshake.socket.end(frame(`got ${got.length}`)));
			};
			const client = await openRaw(protocol, proxy, '/scripted/half');
			client.end(Buffer.alloc(10_000));
			assert.equal((await client.rest()).toString('latin1').slice(2), 'got 10000');
		});

		it('a WebSocket whose upstream has ended its side still receives from the client', async () => {
			let got = 0;
			script = (handshake) => {
				handshake.switch();
				handshake.socket.end(Buffer.concat([frame('last'), CLOSE]));
				handshake.socket.on('data', ({ length }) => {
					got += length;
				});
			};
			const client = await openRaw(protocol, proxy, '/scripted/other-half');
			assert.equal((await client.rest()).toString('latin1').slice(2, 6), 'last');
			client.end(Buffer.alloc(500_000));
			await until(() => got === 500_000, 'the upstream to have all');
			await until(() => ![...scripted.sockets].some(({ bytesRead }) => bytesRead > 400_000), 'its connection to end');
		});

		testOnce('is refused by each gate before the upstream hears of it', async () => {
			const before = upstream.accepted.length;
			const refused = async (options: object) =>
				(await refusal(openWebSocket(protocol, proxy, { path: '/ws', ...options }))).status;
			assert.equal(await refused({ token: 'nonsense' }), 401);
			assert.equal(await refused({ path: '/ws/%00' }), 400);
			assert.equal(await refused({ path: '/plain' }), 501);
			assert.equal(await refused({ path: '/scoped' }), 403);
			assert.equal(upstream.accepted.length, before);
		});
	});
}

describe('a WebSocket handshake', () => {
	after(() => proxy.atRest());

	const good = [
		'GET /scripted HTTP/1.1',
		'Host: edge.test',
		'Connection: Upgrade',
		'Upgrade: websocket',
		`Sec-WebSocket-Key: ${KEY}`,
		'Sec-WebSocket-Version: 13',
	];
	/** unit/gates/web-socket.test.ts has all that is refused. */
	const hostile: Readonly<Record<string, [lines: string[], status: number]>> = {
		'with bytes behind it': [good, 400],
		'in HTTP/1.0': [good.map((line) => line.replace('HTTP/1.1', 'HTTP/1.0')), 501],
	};
	for (const [what, [lines, status]] of Object.entries(hostile)) {
		testOnce(`${what} gets ${status}, and no upstream hears of it`, async () => {
			const pki = await testPki();
			script = () => assert.fail('the upstream was asked');
			using client = await h1Raw(proxy);
			const behind = what === 'with bytes behind it' ? '\x81\x80abcd' : '';
			client.send(`${[...lines, `Authorization: Bearer ${pki.token()}`].join('\r\n')}\r\n\r\n${behind}`);
			const answer = await client.readResponse();
			assert.equal(answer.status, status);
			await client.untilClosed();
		});
	}

	testOnce('a WebSocket handshake whose client does not wait for the response gets 400', async () => {
		const pki = await testPki();
		using client = await h1Raw(proxy);
		script = (handshake) => {
			client.send('too early');
			setTimeout(() => handshake.switch(), 300);
		};
		client.send(`${[...good, `Authorization: Bearer ${pki.token()}`].join('\r\n')}\r\n\r\n`);
		assert.equal((await client.readResponse()).status, 400);
		await client.untilClosed();
	});

	for (const protocol of PROTOCOLS) {
		testOnce(
			`a WebSocket handshake that the upstream answers with another accept gets 502 over ${protocol}`,
			async () => {
				const fields = `Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ${KEY}\r\n`;
				script = (handshake) => handshake.socket.write(`HTTP/1.1 101 X\r\n${fields}\r\n`);
				assert.equal((await refusal(openWebSocket(protocol, proxy, { path: '/scripted' }))).status, 502);
				await until(() => scripted.sockets.size === 0, 'the connection to the upstream to end');
			},
		);

		it(`gets the answer of an upstream that takes none over ${protocol}`, async () => {
			script = ({ socket }) => socket.end('HTTP/1.1 403 No\r\nx-why: because\r\ncontent-length: 2\r\n\r\nno');
			const { status, headers } = await refusal(openWebSocket(protocol, proxy, { path: '/scripted' }));
			assert.equal(status, 403);
			assert.equal(headers['x-why'], 'because');
		});
	}

	it('a WebSocket handshake over HTTP/2 makes no tunnel from an unexpected 200', async () => {
		script = ({ socket }) => socket.end('HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok');
		assert.equal((await refusal(openWebSocket('h2', proxy, { path: '/scripted' }))).status, 502);
	});

	testOnce('a failed WebSocket handshake opens no breaker: any client could request a missing WebSocket', async () => {
		const path = '/brittle';
		for (const protocol of PROTOCOLS) {
			for (const fields of ['Sec-WebSocket-Protocol: x\r\n', 'Sec-WebSocket-Extensions: x\r\n']) {
				script = (handshake) => handshake.switch(fields);
				const ws = { perMessageDeflate: false };
				assert.equal((await refusal(openWebSocket(protocol, proxy, { path, ws }))).status, 502);
			}
		}
		script = ({ socket }) => socket.end('HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok');
		assert.equal((await refusal(openWebSocket('h2', proxy, { path }))).status, 502);
		script = (handshake) => handshake.switch();
		await using client = await openWebSocket('h1', proxy, { path });
		assert.equal(client.ws.protocol, '');
	});

	testOnce('is known to be possible over HTTP/2 by the SETTINGS, if some route takes them', async () => {
		const session = await connectHttp2(proxy);
		assert.equal(session.remoteSettings.enableConnectProtocol, true);
		session.destroy();
		await using plain = await startProxy({ routes: [{ prefix: '/', upstream: upstream.url }] });
		const other = await connectHttp2(plain);
		assert.notEqual(other.remoteSettings.enableConnectProtocol, true);
		other.destroy();
	});
});

const CLOSE = Buffer.from([0x88, 0]);

/** A server's. */
function frame(text: string): Buffer {
	return Buffer.concat([Buffer.from([0x81, text.length]), Buffer.from(text)]);
}
