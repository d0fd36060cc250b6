import assert from 'node:assert/strict';
import { randomBytes, X509Certificate } from 'node:crypto';
import { after, before, describe, it } from 'node:test';
import { PROTOCOLS } from '../fixtures/clients.ts';
import { crlPem, issueCrl } from '../fixtures/crl.ts';
import type { Http2Upstream } from '../fixtures/h2-upstream.ts';
import { type TestPki, testPki } from '../fixtures/pki.ts';
import { ASKED_ONCE, firstVerdicts, type ProxyOptions, type ProxyProcess, startProxy } from '../fixtures/proxy.ts';
import { until } from '../fixtures/wait.ts';
import { type OpenWebSocket, openWebSocket, type WebSocketOptions } from '../fixtures/web-socket-client.ts';
import {
	echo,
	type RawHandshake,
	type RawUpstream,
	startHttp2WebSocketUpstream,
	startRawUpstream,
	startWebSocketUpstream,
	type WebSocketUpstream,
} from '../fixtures/web-socket-upstream.ts';

let pki: TestPki;
let upstream: WebSocketUpstream;
/** Answers a handshake as the test says. */
let scripted: RawUpstream;
let script: (handshake: RawHandshake) => void = (handshake) => handshake.switch();
let proxy: ProxyProcess;
/** Codes of the Close that the upstream got, by path. */
const codes = new Map<string, number>();

function settings(more: ProxyOptions = {}): ProxyOptions {
	return {
		routes: [
			{ prefix: '/', upstream: upstream.url, websocket: true },
			{ prefix: '/idle', upstream: upstream.url, websocket: true, idle_timeout_secs: 2 },
			{ prefix: '/scripted', upstream: scripted.url, websocket: true, idle_timeout_secs: 1 },
			{ prefix: '/lasting', upstream: upstream.url, websocket: true, websocket_end_at_expiry: false },
		],
		log: { access: 'all' },
		workers: 1,
		...more,
		config: { ...ASKED_ONCE, tenant_rps: 0, ...more.config },
	};
}

before(async () => {
	pki = await testPki();
	upstream = await startWebSocketUpstream(({ ws, request }) => {
		ws.on('message', (data, binary) => ws.send(data, { binary }));
		ws.on('close', (code) => codes.set(request.url!, code));
	});
	scripted = await startRawUpstream((handshake) => script(handshake));
	proxy = await startProxy(settings());
	await firstVerdicts(proxy);
});

after(async () => {
	await proxy?.stop();
	await scripted?.stop();
	await upstream?.[Symbol.asyncDispose]();
});

let paths = 0;

/** What ends a WebSocket, and with which code; the proxy holds nothing of it afterwards. */
async function ends(
	protocol: 'h1' | 'h2',
	reason: string,
	code: number,
	end: (path: string) => unknown,
	options: WebSocketOptions = {},
	target = proxy,
): Promise<void> {
	const path = `${options.path ?? ''}/${++paths}`;
	const from = target.logs.length;
	await using client = await openWebSocket(protocol, target, { ...options, path });
	client.ws.send('up');
	assert.equal(await client.text(), 'up');
	await end(path);
	assert.equal(await client.closed, code);
	const line = await target.waitForLog((line) => line.path === path && line.tunnel_end !== undefined, undefined, from);
	assert.equal(line.tunnel_end, reason);
	if (!reason.startsWith('upstream')) await until(() => codes.get(path) === 1001, 'the Close at the upstream');
}

async function nothingIsLeft(target = proxy): Promise<void> {
	await until(async () => (await target.metric('proxy_tunnels_open')) === 0, 'all tunnels to end');
	await until(async () => (await target.metric('proxy_requests_in_flight')) === 0, 'all requests to end');
	await until(
		async () => (await target.metric('proxy_upstream_connections', { state: 'active' })) === 0,
		'no connection',
	);
}

function acceptedAt(path: string) {
	return upstream.accepted.find(({ request }) => request.url === path)!;
}

for (const protocol of PROTOCOLS) {
	describe(`a WebSocket over ${protocol} ends`, () => {
		after(() => nothingIsLeft());

		it('a WebSocket ends with 1011 when its upstream is killed', async () => {
			await ends(protocol, 'upstream_lost', 1011, (path) => acceptedAt(path).socket.resetAndDestroy());
		});

		it('a WebSocket ends without a Close when its upstream is killed within a frame', async () => {
			await ends(protocol, 'upstream_lost', 1006, (path) => {
				const { socket } = acceptedAt(path);
				socket.write(Buffer.from([0x82, 100, 1, 2, 3]), () => setTimeout(() => socket.resetAndDestroy(), 100));
			});
		});

		it('a WebSocket ends with 1001 after idle_timeout_secs without a byte', async () => {
			await ends(protocol, 'idle', 1001, () => {}, { path: '/idle' });
		});

		it('a WebSocket ends with 1008 when its token expires, unless websocket_end_at_expiry is false', async () => {
			const token = pki.token('tenant', { exp: Math.floor(Date.now() / 1000) - 57 });
			await using lasting = await openWebSocket(protocol, proxy, { path: '/lasting', token });
			await ends(protocol, 'token_expired', 1008, () => {}, { token });
			lasting.ws.send('still here');
			assert.equal(await lasting.text(), 'still here');
		});

		it('a WebSocket ends and releases its memory if the client reads nothing', async () => {
			const messages = Buffer.concat(
				Array(400).fill(Buffer.concat([Buffer.from([0x82, 126, 3, 232]), Buffer.alloc(1_000)])),
			);
			script = (handshake) => {
				handshake.switch();
				handshake.socket.write(messages);
			};
			const path = `/scripted/${++paths}`;
			await using client = await openWebSocket(protocol, proxy, { path });
			const { stream } = client;
			stream?.pause();
			await until(async () => (await proxy.metric('proxy_tunnels_open')) === 0, 'the tunnel to end');
			if (stream !== undefined) await until(() => stream.closed, 'the stream to be closed');
		});

		it('the upstream side of a WebSocket ends without a Close when the client is lost', async () => {
			const path = `/lost/${++paths}`;
			const from = proxy.logs.length;
			const client = await openWebSocket(protocol, proxy, { path });
			await client[Symbol.asyncDispose]();
			const line = await proxy.waitForLog(
				(line) => line.path === path && line.tunnel_end !== undefined,
				undefined,
				from,
			);
			assert.match(String(line.tunnel_end), /^client(_lost)?$/);
			await until(() => codes.get(path) === 1006, 'the end at the upstream');
		});
	});
}

describe('a WebSocket over TLS to its upstream', () => {
	/** By the path of the handshake: what ends it in good order, and what cuts it off. */
	const ends = new Map<string, { close(code: number): void; cut(): void }>();
	const taken = (path: string) => until(() => ends.get(path), `the upstream to have taken ${path}`);
	let http1: WebSocketUpstream;
	let http2: Http2Upstream;
	let secure: ProxyProcess;

	before(async () => {
		const tls = { cert: pki.server.certPem, key: pki.server.keyPem };
		http1 = await startWebSocketUpstream(
			({ ws, socket, request }) => {
				ends.set(request.url!, { close: (code) => ws.close(code), cut: () => socket.destroy() });
				echo(ws);
			},
			{},
			tls,
		);
		http2 = await startHttp2WebSocketUpstream(
			(ws, _stream, headers) => {
				ends.set(headers[':path']!, { close: (code) => ws.close(code), cut: () => http2.cut() });
				echo(ws);
			},
			{ tls },
		);
		const common = { tls: { ca_path: pki.caPath } };
		secure = await startProxy(
			settings({
				upstreams: [
					{ ...common, name: 'http1', addresses: [`127.0.0.1:${http1.port}`] },
					{ ...common, name: 'http2', addresses: [http2.authority], protocol: 'h2' },
				],
				routes: ['http1', 'http2'].map((name) => ({
					...{ prefix: `/${name}`, upstream: name, websocket: true, failures: 100 },
				})),
			}),
		);
		await firstVerdicts(secure);
	});

	after(async () => {
		await secure?.stop();
		await http1?.[Symbol.asyncDispose]();
		await http2?.stop();
	});

	for (const protocol of PROTOCOLS) {
		for (const spoken of ['http1', 'http2']) {
			it(`passes messages from ${protocol} to ${spoken}, and ends with a Close of either side, or 1011 after a cut`, async () => {
				const message = randomBytes(300_000);
				const ways: [how: string, code: number, end: (client: OpenWebSocket, path: string) => unknown][] = [
					['client', 4001, ({ ws }) => ws.close(4001)],
					['upstream', 4002, async (_, path) => (await taken(path)).close(4002)],
					['upstream_lost', 1011, async (_, path) => (await taken(path)).cut()],
				];
				for (const [how, code, end] of ways) {
					const path = `/${spoken}/${++paths}`;
					await using client = await openWebSocket(protocol, secure, { path });
					client.ws.send(message);
					assert.ok((await client.message()).equals(message));
					await end(client, path);
					assert.equal(await client.closed, code);
					const line = await secure.waitForLog((line) => line.path === path && line.tunnel_end !== undefined);
					assert.equal(line.tunnel_end, how);
				}
				await nothingIsLeft(secure);
			});
		}
	}
});

describe('all WebSockets', () => {
	it('WebSockets of a revoked tenant, token or certificate end with 1008, whether or not their clients read, and others stay', async () => {
		const crl = async (...serials: string[]) =>
			pki.writeFile('web-sockets.crl', crlPem(await issueCrl(pki.ca, { serials })));
		const revocable = await startProxy(settings({ tls: { crl_path: await crl() } }));
		await firstVerdicts(revocable);
		const token = pki.token('tenant', { jti: 'one' });
		for (const [i, protocol] of PROTOCOLS.entries()) {
			const [named, listed] = await Promise.all([pki.issueClient(), pki.issueClient()]);
			const list = (text: string) => () => {
				revocable.writeConfig({ config: { revoked_path: pki.writeFile(`revoked-${++paths}.toml`, text) } });
			};
			const ways: [revoke: () => unknown, options: WebSocketOptions][] = [
				[list(`tenants = ["gone-${i}"]`), { token: pki.token(`gone-${i}`) }],
				[list(`tokens = ["one-${i}"]`), { token: pki.token('tenant', { jti: `one-${i}` }) }],
				[list(`certificates = ["${new X509Certificate(named.certPem).fingerprint256}"]`), { cert: named }],
				[() => crl(new X509Certificate(listed.certPem).serialNumber), { cert: listed }],
			];
			for (const [revoke, options] of ways) {
				await using other = await openWebSocket(protocol, revocable, { token });
				const reload = async () => {
					await revoke();
					await revocable.reload();
				};
				await ends(protocol, 'revoked', 1008, reload, options, revocable);
				other.ws.send('still here');
				assert.equal(await other.text(), 'still here');
			}
		}
		await nothingIsLeft(revocable);
		const cert = await pki.issueClient();
		const deaf = await Promise.all(
			PROTOCOLS.map((protocol) => openWebSocket(protocol, revocable, { cert, path: `/deaf/${protocol}` })),
		);
		for (const { ws, stream } of deaf) {
			ws.pause();
			stream?.pause();
		}
		await crl(new X509Certificate(cert.certPem).serialNumber);
		await revocable.reload();
		await nothingIsLeft(revocable);
		for (const protocol of PROTOCOLS) {
			await until(() => codes.get(`/deaf/${protocol}`) === 1001, 'the Close at the upstream');
		}
		for (const client of deaf) await client[Symbol.asyncDispose]();
		await revocable.stop();
	});

	it('end with 1001 at the age of their connection', async () => {
		const aged = await startProxy(settings({ limits: { max_connection_age_secs: 3 } }));
		await firstVerdicts(aged);
		await Promise.all(PROTOCOLS.map((protocol) => ends(protocol, 'age', 1001, () => {}, {}, aged)));
		await nothingIsLeft(aged);
		await aged.stop();
	});

	it('end with 1001 at the drain, which does not wait for them', async () => {
		const drained = await startProxy(settings());
		await firstVerdicts(drained);
		const clients = await Promise.all(PROTOCOLS.map((protocol) => openWebSocket(protocol, drained)));
		drained.signal('SIGTERM');
		assert.deepEqual(await Promise.all(clients.map(({ closed }) => closed)), [1001, 1001]);
		assert.equal(await drained.exited, 0);
	});
});
