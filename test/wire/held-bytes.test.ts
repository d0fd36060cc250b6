/** Bytes that wait because the other side takes none: they count as memory of their tenant, in both directions. */
import { equal, ok } from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import type { ClientHttp2Stream } from 'node:http2';
import { after, before, describe, it } from 'node:test';
import { WebSocket } from 'ws';
import { connect, connectTls, h2Raw, PROTOCOLS, type Protocol, request } from '../fixtures/clients.ts';
import { headersFrame, requestFields, SETTING } from '../fixtures/h2-frames.ts';
import type { Http2Upstream } from '../fixtures/h2-upstream.ts';
import { type TestPki, testPki } from '../fixtures/pki.ts';
import {
	ASKED_ONCE,
	BODY_MODE,
	firstVerdicts,
	type ProxyOptions,
	type ProxyProcess,
	startProxy,
	testOnce,
} from '../fixtures/proxy.ts';
import { startUpstream, type Upstream } from '../fixtures/upstream.ts';
import { until } from '../fixtures/wait.ts';
import { openDuplex, openWebSocket } from '../fixtures/web-socket-client.ts';
import {
	startHttp2WebSocketUpstream,
	startWebSocketUpstream,
	type WebSocketUpstream,
} from '../fixtures/web-socket-upstream.ts';

const STREAMING_ONLY = { skip: BODY_MODE !== 'streaming' && 'collected bodies are counted as they are read' };
/** More than the kernel buffers between two sockets. */
const BIG = Buffer.alloc(24_000_000, 'x');
/** Room for two slabs at an HTTP/1.1 upstream, or for what an HTTP/1.1 client sends ahead; not for three slabs. */
const SHARE = 140_000;
const KIB_64 = 65_536;

let pki: TestPki;
let plain: Upstream;
let plainTunnels: WebSocketUpstream;
let h2: Http2Upstream;
/** Nobody reaches a limit there. */
let roomy: ProxyProcess;
let narrow: ProxyProcess;
/** Has an upstream read on, by path. */
const readOn = new Map<string, () => void>();

before(async () => {
	pki = await testPki();
	plain = await startUpstream();
	plain.early = true;
	plain.script = (exchange) => {
		const { target, method } = exchange.request;
		if (method === 'GET') return exchange.respond({ body: target === '/health' ? '' : BIG });
		if (target.endsWith('/read')) return exchange.respond({ body: 'ok' });
		exchange.socket.pause();
		readOn.set(target, () => exchange.socket.resume());
		return exchange.stall();
	};
	const floods = (ws: WebSocket) => {
		const piece = randomBytes(KIB_64);
		const send = () => ws.readyState === WebSocket.OPEN && ws.send(piece, () => setImmediate(send));
		for (let i = 0; i < 4; i++) send();
	};
	plainTunnels = await startWebSocketUpstream(({ ws, socket, request: { url = '' } }) => {
		if (url.endsWith('/flood')) return floods(ws);
		socket.pause();
		readOn.set(url, () => socket.resume());
	});
	h2 = await startHttp2WebSocketUpstream(
		(ws, _stream, headers) => {
			const path = headers[':path']!;
			if (path.endsWith('/flood')) return floods(ws);
			ws.pause();
			readOn.set(path, () => ws.resume());
		},
		{
			reads: (stream, path) => {
				readOn.set(path, () => stream.resume());
				return new Promise(() => {});
			},
		},
	);
	const takesWebSockets = h2.script;
	h2.script = (stream, headers, body) => {
		// An upload: neither read nor answered.
		if (headers[':method'] !== 'POST') takesWebSockets(stream, headers, body);
	};
	const h2Url = `h2c://${h2.authority}`;
	const options: ProxyOptions = {
		routes: [
			{ prefix: '/plain', upstream: plain.url },
			{ prefix: '/plain-ws', upstream: plainTunnels.url, websocket: true },
			{ prefix: '/h2', upstream: h2Url },
			{ prefix: '/h2-ws', upstream: h2Url, websocket: true },
		],
		config: { ...ASKED_ONCE, tenant_rps: 0 },
		log: { access: 'all' },
		workers: 1,
	};
	const limits = { max_request_body_bytes: 64 * 2 ** 20 };
	roomy = await startProxy({ ...options, limits });
	narrow = await startProxy({ ...options, limits: { ...limits, max_buffered_bytes_per_tenant: SHARE } });
	await Promise.all([firstVerdicts(roomy), firstVerdicts(narrow)]);
});

after(async () => {
	await Promise.all([roomy?.stop(), narrow?.stop()]);
	await Promise.all([plain?.close(), h2?.stop(), plainTunnels?.[Symbol.asyncDispose]()]);
});

let paths = 0;

/** A request that lasts until it is disposed. */
type Open = (protocol: Protocol, proxy: ProxyProcess, path: string) => Promise<AsyncDisposable>;

const upload: Open = async (protocol, proxy, path) => {
	const client = await connect(protocol, proxy);
	void client.request({ method: 'POST', path, body: BIG });
	return client;
};

/** A client that takes nothing of its response. */
const download: Open = async (protocol, proxy, path) => {
	if (protocol === 'h2') {
		const client = await h2Raw(proxy, { settings: [[SETTING.INITIAL_WINDOW_SIZE, 0]] });
		client.send(headersFrame(1, requestFields('GET', path, pki.token())));
		return { [Symbol.asyncDispose]: async () => client.close() };
	}
	const socket = await connectTls(proxy);
	socket.on('error', () => {}).pause();
	socket.write(`GET ${path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${pki.token()}\r\n\r\n`);
	return { [Symbol.asyncDispose]: async () => void socket.destroy() };
};

const talk: Open = async (protocol, proxy, path) => {
	const client = await openWebSocket(protocol, proxy, { path, ws: { perMessageDeflate: false } });
	const piece = randomBytes(KIB_64);
	for (let i = 0; i < 400; i++) client.ws.send(piece);
	return client;
};

const listen: Open = async (protocol, proxy, path) => {
	const tunnel = await openDuplex(protocol, proxy, path);
	tunnel.on('error', () => {}).pause();
	return {
		[Symbol.asyncDispose]: async () => {
			(tunnel as Partial<ClientHttp2Stream>).session?.destroy();
			tunnel.destroy();
		},
	};
};

/** What waits, the prefix of its route, how it begins and where it leads, and the least that is held of it by the client's protocol. */
const WAITING: readonly [
	what: string,
	prefix: string,
	suffix: string,
	open: Open,
	least: Readonly<Record<Protocol, number>>,
][] = [
	// At least two slabs at the upstream; at the client 64 KiB over HTTP/1.1, or half a window.
	['an upload to an HTTP/1.1 upstream', '/plain', '', upload, { h1: 3 * KIB_64, h2: 2.5 * KIB_64 }],
	['an upload to an HTTP/2 upstream', '/h2', '', upload, { h1: KIB_64, h2: KIB_64 / 2 }],
	['a response of an HTTP/1.1 upstream', '/plain', '', download, { h1: KIB_64, h2: 1 }],
	['what a WebSocket sends to an HTTP/1.1 upstream', '/plain-ws', '', talk, { h1: 3 * KIB_64, h2: 2.5 * KIB_64 }],
	['what a WebSocket sends to an HTTP/2 upstream', '/h2-ws', '', talk, { h1: KIB_64, h2: KIB_64 / 2 }],
	['what a WebSocket gets from an HTTP/1.1 upstream', '/plain-ws', '/flood', listen, { h1: KIB_64, h2: 1 }],
	// Half a window at the upstream, and a piece at the client.
	['what a WebSocket gets from an HTTP/2 upstream', '/h2-ws', '/flood', listen, { h1: 1.5 * KIB_64, h2: KIB_64 / 2 }],
];

for (const protocol of PROTOCOLS) {
	describe(`bytes that wait, over ${protocol}`, () => {
		for (const [what, prefix, suffix, open, least] of WAITING) {
			const isTunnel = open === talk || open === listen;
			const run = isTunnel ? testOnce : it;
			run(`${what} counts as memory of its tenant until it ends`, isTunnel ? {} : STREAMING_ONLY, async () => {
				const held = () => roomy.metric('proxy_body_memory_bytes');
				let most = 0;
				const path = `${prefix}/${++paths}${suffix}`;
				const client = await open(protocol, roomy, path);
				try {
					const enough = async () => {
						most = Math.max(most, await held());
						return most >= least[protocol];
					};
					await until(enough, () => `${least[protocol]} bytes to be counted, but there are ${most}`);
				} finally {
					// The end of a client that is not read shows when its bytes have gone on.
					readOn.get(path)?.();
					await client[Symbol.asyncDispose]();
				}
				await until(async () => (await held()) === 0, 'the memory to be given back');
			});
		}
	});

	describe(`a tenant that holds its share of the memory for bodies, over ${protocol}`, () => {
		it('a streamed upload that its HTTP/1.1 upstream does not take gets 503', STREAMING_ONLY, async () => {
			const path = `/plain/${++paths}`;
			await using client = await connect(protocol, narrow);
			const answer = client.request({ method: 'POST', path, body: BIG });
			const line = await narrow.waitForLog((one) => one.target === 'proxy::access' && one.path === path);
			equal(line.status, 503);
			equal(line.reason, 'this tenant holds its share of max_buffered_bytes');
			ok([503, 0].includes((await answer).status));
			await until(async () => (await narrow.metric('proxy_body_memory_bytes')) === 0, 'the memory to be given back');
			const after = await request(protocol, narrow, { method: 'POST', path: '/plain/read', body: 'x' });
			equal(after.status, 200);
		});

		testOnce('a WebSocket whose HTTP/1.1 upstream does not read ends with 1013', async () => {
			const path = `/plain-ws/${++paths}`;
			await using client = await openWebSocket(protocol, narrow, { path, ws: { perMessageDeflate: false } });
			const piece = randomBytes(KIB_64);
			for (let i = 0; i < 400; i++) client.ws.send(piece);
			equal(await client.closed, 1013);
			readOn.get(path)!();
			const line = await narrow.waitForLog((one) => one.target === 'proxy::access' && one.path === path);
			equal(line.tunnel_end, 'no_memory');
			await until(async () => (await narrow.metric('proxy_body_memory_bytes')) === 0, 'the memory to be given back');
		});
	});
}
