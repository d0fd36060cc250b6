/** WebSockets to upstreams that speak HTTP/2 (RFC 8441), for clients of both protocols. */
import assert from 'node:assert/strict';
import { constants, type IncomingHttpHeaders, type ServerHttp2Stream } from 'node:http2';
import { after, before, describe, it } from 'node:test';
import type { WebSocket } from 'ws';
import { PROTOCOLS, request } from '../fixtures/clients.ts';
import { FLAG, FRAME, headersFrame, settingsFrame } from '../fixtures/h2-frames.ts';
import { type FramesUpstream, startFramesUpstream } from '../fixtures/h2-frames-upstream.ts';
import type { Http2Upstream, StreamScript } from '../fixtures/h2-upstream.ts';
import { ASKED_ONCE, firstVerdicts, type ProxyOptions, type ProxyProcess, startProxy } from '../fixtures/proxy.ts';
import { until } from '../fixtures/wait.ts';
import { openRaw, openWebSocket, refusal, type WebSocketOptions } from '../fixtures/web-socket-client.ts';
import { echo, startHttp2WebSocketUpstream, takeWebSockets } from '../fixtures/web-socket-upstream.ts';

/** The handshakes that an upstream has taken, by path. */
const asked = new Map<string, { headers: IncomingHttpHeaders; stream: ServerHttp2Stream; ws?: WebSocket }>();

const takes = takeWebSockets((ws, stream, headers) => {
	const path = headers[':path']!;
	asked.set(path, { headers, stream, ws });
	echo(ws);
});

/** Answers by hand what begins with `/scripted`. */
let script: StreamScript = takes;
let upstream: Http2Upstream;
let proxy: ProxyProcess;

function settings(url: string, more: ProxyOptions = {}): ProxyOptions {
	return {
		routes: [{ prefix: '/', upstream: url, websocket: true, failures: 100 }],
		log: { access: 'all' },
		workers: 1,
		...more,
		config: { ...ASKED_ONCE, tenant_rps: 0, ...more.config },
	};
}

before(async () => {
	upstream = await startHttp2WebSocketUpstream(undefined, {});
	upstream.script = (stream, headers, body) => {
		const isScripted = headers[':path']!.startsWith('/scripted');
		if (isScripted) asked.set(headers[':path']!, { headers, stream });
		(isScripted ? script : takes)(stream, headers, body);
	};
	proxy = await startProxy(settings(`h2c://${upstream.authority}`));
	await firstVerdicts(proxy);
});

after(async () => {
	await proxy?.stop();
	await upstream?.stop();
});

let paths = 0;

/** A path that no other test asks for. */
function newPath(name: string): string {
	return `/${name}/${++paths}`;
}

/** The access line of a path. */
function lineOf(path: string, target = proxy) {
	return target.waitForLog((line) => line.target === 'proxy::access' && line.path === path);
}

for (const protocol of PROTOCOLS) {
	describe(`a WebSocket over ${protocol} to an h2 upstream`, () => {
		after(() => proxy.atRest());

		const open = (path: string, options: WebSocketOptions = {}) => openWebSocket(protocol, proxy, { path, ...options });

		it("a WebSocket that its h2 upstream refuses gets the upstream's response", async () => {
			script = (stream) => {
				stream.respond({ ':status': 403, 'x-why': 'because', 'content-length': 2 });
				stream.end('no');
			};
			const path = newPath('scripted');
			const { status: got, headers } = await refusal(open(path));
			assert.deepEqual([got, headers['x-why'], headers['content-length']], [403, 'because', '2']);
			await until(() => asked.get(path)!.stream.closed, 'the stream to end');
			assert.equal(asked.get(path)!.stream.rstCode, constants.NGHTTP2_NO_ERROR);
		});

		it('ends with 1011 when the upstream resets its stream between two frames', async () => {
			const path = newPath('reset');
			await using client = await open(path);
			client.ws.send('up');
			assert.equal(await client.text(), 'up');
			asked.get(path)!.stream.close(constants.NGHTTP2_INTERNAL_ERROR);
			assert.equal(await client.closed, 1011);
			assert.equal((await lineOf(path)).tunnel_end, 'upstream_lost');
		});

		it('is cancelled at the upstream when the client is lost', async () => {
			const path = newPath('lost');
			const client = await open(path);
			const { stream } = asked.get(path)!;
			if (client.stream === undefined) client.ws.terminate();
			else client.stream.close(constants.NGHTTP2_CANCEL);
			await until(() => stream.closed, 'the stream to end');
			await client[Symbol.asyncDispose]();
			assert.match(String((await lineOf(path)).tunnel_end), /^client(_lost)?$/);
		});

		it('goes on after a GOAWAY, and the next one goes to another connection', async () => {
			const paths = [newPath('first'), newPath('second')] as const;
			await using first = await open(paths[0]);
			const { session } = asked.get(paths[0])!.stream;
			session!.goaway(constants.NGHTTP2_NO_ERROR, 2 ** 31 - 1);
			await using second = await until(async () => {
				const next = await open(paths[1]);
				if (asked.get(paths[1])!.stream.session !== session) return next;
				await next[Symbol.asyncDispose]();
				return undefined;
			}, 'another connection');
			for (const client of [first, second]) {
				client.ws.send('still here');
				assert.equal(await client.text(), 'still here');
				client.ws.close(1000);
				assert.equal(await client.closed, 1000);
			}
		});

		it('shares its connection with others and with requests, and gets only its own bytes', async () => {
			const clients = await Promise.all(Array.from({ length: 20 }, () => open(newPath('many'))));
			const asks = Promise.all(Array.from({ length: 20 }, () => request(protocol, proxy, { path: '/plain' })));
			await Promise.all(
				clients.map(async (client, i) => {
					for (let round = 0; round < 20; round++) {
						const sent = `${i} ${round} `.repeat(100 * (i + 1));
						client.ws.send(sent);
						assert.equal(await client.text(), sent);
					}
					client.ws.close(1000);
					assert.equal(await client.closed, 1000);
				}),
			);
			assert.deepEqual(new Set((await asks).map(({ status }) => status)), new Set([200]));
			for (const client of clients) await client[Symbol.asyncDispose]();
		});
	});
}

describe('an h2 upstream that accepts no WebSockets', () => {
	it('causes a 502 whose reason names the setting, and no failure for the breaker', async () => {
		const plain = await startHttp2WebSocketUpstream(undefined, { settings: {} });
		const own = await startProxy({
			...settings(`h2c://${plain.authority}`),
			routes: [{ prefix: '/', upstream: `h2c://${plain.authority}`, websocket: true, failures: 1 }],
		});
		await firstVerdicts(own);
		for (const protocol of PROTOCOLS) {
			const path = newPath(protocol);
			assert.equal((await refusal(openWebSocket(protocol, own, { path }))).status, 502);
			assert.match(String((await lineOf(path, own)).reason), /SETTINGS_ENABLE_CONNECT_PROTOCOL/);
			assert.equal((await request(protocol, own, { path: '/plain' })).status, 200);
		}
		assert.equal(plain.streams, PROTOCOLS.length);
		await own.atRest();
		await own.stop();
		await plain.stop();
	});
});

describe('the SETTINGS of an h2 upstream', () => {
	let frames: FramesUpstream;
	let own: ProxyProcess;
	const isHead = ({ type }: { type: number }) => type === FRAME.HEADERS;

	before(async () => {
		frames = await startFramesUpstream();
		const url = `h2c://${frames.authority}`;
		own = await startProxy({
			...settings(url, { config: { health: false }, limits: { upstream_timeout_secs: 1 } }),
			routes: [
				{ prefix: '/', upstream: url, websocket: true, failures: 100, upstream_timeout_secs: 30 },
				{
					...{ prefix: '/for-ever', upstream: url, websocket: true, upstream_timeout_secs: 30 },
					...{ idle_timeout_secs: 3600, websocket_messages_per_sec: 1 },
				},
			],
		});
	});

	after(async () => {
		await own?.stop();
		await frames?.stop();
	});

	for (const protocol of PROTOCOLS) {
		it(`are waited for before a CONNECT goes out (${protocol})`, async () => {
			const opening = openWebSocket(protocol, own, { path: newPath('late') });
			const connection = await frames.connection();
			await connection.frame(({ type }) => type === FRAME.SETTINGS);
			// What comes of a request would be here with it.
			await new Promise((resolve) => setTimeout(resolve, 100));
			assert.equal(connection.frames.some(isHead), false);
			connection.send(settingsFrame([[8, 1]]));
			const { streamId, flags } = await connection.frame(isHead);
			assert.equal(flags, FLAG.END_HEADERS);
			connection.send(headersFrame(streamId, [[':status', '200']], { endStream: false }));
			await (await opening)[Symbol.asyncDispose]();
			connection.cut();
			await own.atRest();
		});

		it(`SETTINGS without the extended CONNECT cause a 502 (${protocol})`, async () => {
			const path = newPath('no');
			const opening = refusal(openWebSocket(protocol, own, { path }));
			const connection = await frames.connection();
			connection.send(settingsFrame([[8, 0]]));
			assert.equal((await opening).status, 502);
			assert.match(String((await lineOf(path, own)).reason), /SETTINGS_ENABLE_CONNECT_PROTOCOL/);
			assert.equal(connection.frames.some(isHead), false);
			connection.cut();
			await own.atRest();
		});
	}

	const MESSAGE = Buffer.concat([Buffer.from([0x82, 0x80 | 100, 1, 2, 3, 4]), Buffer.alloc(100)]);
	for (const [protocol, what, window, messages] of [
		['h1', 'that give no window', 0, 1],
		['h2', 'that give a window to a client that has sent more than its pace allows', 65_535, 100],
	] as const) {
		it(`${what} keep no tunnel for ever whose client has ended (${protocol})`, async () => {
			const path = newPath('for-ever');
			const opening = openRaw(protocol, own, path);
			const connection = await frames.connection();
			connection.send(
				settingsFrame([
					[8, 1],
					[4, window],
				]),
			);
			const { streamId } = await connection.frame(isHead);
			connection.send(headersFrame(streamId, [[':status', '200']], { endStream: false }));
			const client = await opening;
			client.end(Buffer.concat(Array(messages).fill(MESSAGE)));
			// A Close.
			assert.equal((await client.rest())[0], 0x88);
			await client.closed;
			const { payload } = await connection.frame(({ type }) => type === FRAME.RST_STREAM);
			assert.equal(payload.readUInt32BE(0), constants.NGHTTP2_CANCEL);
			assert.equal((await lineOf(path, own)).tunnel_end, 'client');
			await own.atRest();
			connection.cut();
		});
	}

	it('SETTINGS that allow one stream let out no second WebSocket', async () => {
		const openings = PROTOCOLS.map((protocol) => refusal(openWebSocket(protocol, own, { path: newPath('one') })));
		const connection = await frames.connection();
		await until(async () => (await own.metric('proxy_upstream_streams')) === 2, 'both to wait');
		connection.send(
			settingsFrame([
				[8, 1],
				[3, 1],
			]),
		);
		const { streamId } = await connection.frame(isHead);
		// The other one was not sent, so it goes elsewhere.
		const second = await frames.connection();
		assert.equal(connection.frames.filter(isHead).length, 1);
		connection.send(headersFrame(streamId, [[':status', '403']]));
		second.send(settingsFrame([[8, 1]]));
		second.send(headersFrame((await second.frame(isHead)).streamId, [[':status', '403']]));
		for (const { status } of await Promise.all(openings)) assert.equal(status, 403);
		connection.cut();
		second.cut();
		await own.atRest();
	});
});

describe('all WebSockets to h2 upstreams', () => {
	it('count in max_requests until they end', async () => {
		const own = await startProxy({
			...settings(''),
			upstreams: [{ name: 'one', addresses: [upstream.authority], protocol: 'h2', max_requests: 1 }],
			routes: [{ prefix: '/', upstream: 'one', websocket: true }],
		});
		await firstVerdicts(own);
		for (const protocol of PROTOCOLS) {
			const client = await openWebSocket(protocol, own, { path: newPath('held') });
			assert.equal((await refusal(openWebSocket(protocol, own, { path: newPath('second') }))).status, 503);
			client.ws.close(1000);
			await client.closed;
			await client[Symbol.asyncDispose]();
			await own.atRest();
			assert.equal((await request(protocol, own, { path: '/plain' })).status, 200);
		}
		await own.stop();
	});
});
