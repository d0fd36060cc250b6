/** Faults of HTTP/2 upstreams. One proxy; each subject has a separate upstream. */
import { deepEqual, equal, match, ok } from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { constants } from 'node:http2';
import { type AddressInfo, createServer } from 'node:net';
import { after, describe, test } from 'node:test';
import { connect, PROTOCOLS, type Protocol, request } from '../fixtures/clients.ts';
import { h2Connect } from '../fixtures/h2-client.ts';
import { dataFrame, ERROR_CODE, FRAME, headersFrame, rstStreamFrame, settingsFrame } from '../fixtures/h2-frames.ts';
import { type FramesConnection, startFramesUpstream } from '../fixtures/h2-frames-upstream.ts';
import { type StreamScript, startHttp2Upstream } from '../fixtures/h2-upstream.ts';
import { Load } from '../fixtures/load.ts';
import { testPki } from '../fixtures/pki.ts';
import { ASKED_ONCE, BODY_MODE, startProxy } from '../fixtures/proxy.ts';
import { until } from '../fixtures/wait.ts';

const pki = await testPki();
const ownPath: StreamScript = (stream, headers) => {
	stream.respond({ ':status': 200 });
	stream.end(String(headers[':path']));
};

const resetting = await startFramesUpstream();
const hung = { h1: await startFramesUpstream(), h2: await startFramesUpstream() };
const storming = await startHttp2Upstream({ script: ownPath });
/** node:http2 takes 128 fields. */
const fussy = await startHttp2Upstream({ script: ownPath });
const secure = await startHttp2Upstream({
	script: ownPath,
	tls: { cert: pki.server.certPem, key: pki.server.keyPem },
});
const endless = await startHttp2Upstream({
	script: (stream, headers) => {
		stream.respond({ ':status': 200 });
		stream.write('beginning');
		if (headers[':path'] === '/cancelled/whole') stream.end();
	},
});
/** Takes connections, and says nothing in any handshake. */
const mute = createServer((socket) => socket.on('error', () => {}).resume());
await new Promise<void>((resolve) => mute.listen(0, '127.0.0.1', resolve));
const muteAuthority = `127.0.0.1:${(mute.address() as AddressInfo).port}`;

/** In a separate process, which can be stopped. */
const PAUSABLE = `require('http2').createServer((_, response) => response.end('awake'))
	.listen(0, '127.0.0.1', function () { console.log(this.address().port) })`;
const pausable = spawn(process.execPath, ['-e', PAUSABLE], { stdio: ['ignore', 'pipe', 'inherit'] });
process.on('exit', () => pausable.kill('SIGKILL'));
const [pausablePort] = (await once(pausable.stdout, 'data')) as [Buffer];

const h2 = { protocol: 'h2', health: false };
const tls = { ca_path: pki.caPath };
const upstreams = [
	{ name: 'resets', addresses: [resetting.authority], ...h2, retries: 0 },
	...PROTOCOLS.map((protocol) => ({
		name: `hung-${protocol}`,
		addresses: [hung[protocol].authority],
		...h2,
		retries: 0,
	})),
	{ name: 'fussy', addresses: [fussy.authority], ...h2 },
	{ name: 'storm', addresses: [storming.authority], ...h2 },
	{ name: 'mute', addresses: [muteAuthority], ...h2, tls, connect_timeout_secs: 0.2 },
	// The other address has to make its handshake in that time, on a busy machine, too.
	{ name: 'half-mute', addresses: [muteAuthority, secure.authority], ...h2, tls, connect_timeout_secs: 2 },
	{ name: 'paused', addresses: [`127.0.0.1:${Number(String(pausablePort))}`], ...h2 },
	{ name: 'cancelled', addresses: [endless.authority], ...h2 },
];
const proxy = await startProxy({
	upstreams,
	routes: [
		...upstreams.map(({ name }) => ({
			...{ prefix: `/${name}`, upstream: name, failures: name === 'cancelled' || name === 'fussy' ? 1 : 100 },
			...(name === 'paused' && { upstream_timeout_secs: 1 }),
		})),
		...PROTOCOLS.map((protocol) => ({
			...{ prefix: `/hung-${protocol}/brief`, upstream: `hung-${protocol}`, failures: 100, upstream_timeout_secs: 3 },
		})),
	],
	workers: 1,
	config: { ...ASKED_ONCE, tenant_rps: 0 },
	log: { access: 'errors' },
});
after(async () => {
	pausable.kill('SIGKILL');
	await proxy.stop();
	for (const upstream of [resetting, hung.h1, hung.h2, storming, fussy, secure, endless]) await upstream.stop();
	mute.close();
});

/** No request is left anywhere, and the worker is the same as before. */
async function atRest(): Promise<void> {
	await proxy.atRest();
	equal(proxy.logs.filter(({ level }) => level === 'error').length, 0);
}

const reasonOf = async (path: string): Promise<string> => {
	const line = await until(
		() => proxy.logs.findLast(({ target, path: own }) => target === 'proxy::access' && own === path),
		'its access line',
	);
	return String(line.reason);
};

describe('an HTTP/2 upstream that resets streams', () => {
	const head = (id: number, more: readonly (readonly [string, string])[] = []) =>
		headersFrame(id, [[':status', '200'], ...more], { endStream: false });
	/** What the upstream has sent of the response when the reset comes. */
	const POINTS: Readonly<Record<string, (id: number) => Buffer[]>> = {
		'before any of it': () => [],
		'in the middle of its body': (id) => [head(id), dataFrame(id, 'half')],
		'behind all of its bytes, but before its end': (id) => [head(id, [['content-length', '4']]), dataFrame(id, 'full')],
	};
	const CODES = Object.entries(ERROR_CODE);

	/** The upstream's side of the connection that the requests share. */
	let shared: FramesConnection | undefined;
	async function stream(path: string): Promise<number> {
		if (shared === undefined) {
			shared = await resetting.connection();
			shared.send(settingsFrame());
		}
		const { streamId } = await shared.frame(
			({ type, payload }) => type === FRAME.HEADERS && payload.includes(Buffer.from(path)),
		);
		return streamId;
	}

	for (const protocol of PROTOCOLS) {
		for (const [point, sent] of Object.entries(POINTS)) {
			test(`${point}: no whole answer over ${protocol}, whatever the code, and its neighbours go on`, async () => {
				const name = `/resets/${protocol}/${point.replaceAll(' ', '-')}`;
				const neighbour = request('h2', proxy, { path: `${name}/next` });
				const next = await stream(`${name}/next`);
				await Promise.all(
					CODES.map(async ([code, number]) => {
						const path = `${name}/${code}.`;
						const asked = request(protocol, proxy, { path });
						const id = await stream(path);
						shared!.send(...sent(id), rstStreamFrame(id, number));
						const hasBegun = sent(id).length > 0;
						if (code === 'REFUSED_STREAM' && !hasBegun) {
							// It was not looked at: it is sent again, on the same connection.
							const again = await until(
								() =>
									shared!.frames.findLast(
										({ type, streamId, payload }) =>
											type === FRAME.HEADERS && streamId > id && payload.includes(Buffer.from(path)),
									),
								'it to be sent again',
							);
							shared!.send(head(again.streamId), dataFrame(again.streamId, 'again', true));
							equal((await asked).text, 'again');
							return;
						}
						const answer = await asked;
						if (BODY_MODE === 'collected' || !hasBegun) equal(answer.status, 502, code);
						// Over HTTP/1.1 a body ends with its last byte.
						else if (protocol === 'h1' && point.includes('all of its bytes')) equal(answer.text, 'full');
						else ok(answer.ended !== 'complete', `${code}: ${answer.status} ${answer.text}`);
					}),
				);
				shared!.send(head(next), dataFrame(next, 'neighbour', true));
				equal((await neighbour).text, 'neighbour');
				equal(resetting.take(), undefined, 'one connection carries all of them');
				await atRest();
			});
		}

		test(`behind the head of a response without a body: it is whole over ${protocol}, whatever the code, and its connection stays`, async () => {
			await using connection = await connect(protocol, proxy);
			for (const [code, number] of CODES) {
				const path = `/resets/${protocol}/without-body/${code}.`;
				const asked = connection.request({ method: 'HEAD', path });
				const id = await stream(path);
				shared!.send(head(id, [['content-length', '4']]), rstStreamFrame(id, number));
				const { status, ended, headers } = await asked;
				deepEqual([status, ended, headers['content-length']], [200, 'complete', '4'], code);
			}
			await atRest();
		});
	}
});

describe('a request that is too much for an HTTP/2 upstream (ENHANCE_YOUR_CALM)', () => {
	for (const protocol of PROTOCOLS) {
		test(`is a bad gateway for its client, and opens no breaker for others, over ${protocol}`, async () => {
			const headers = Array.from({ length: 200 }, (_, i) => [`x-${i}`, '1'] as const);
			const { status } = await request(protocol, proxy, { path: `/fussy/${protocol}`, headers });
			equal(status, 502);
			equal(await reasonOf(`/fussy/${protocol}`), 'stream reset with ENHANCE_YOUR_CALM');
			equal((await request(protocol, proxy, { path: '/fussy/next' })).status, 200);
			await atRest();
		});
	}
});

describe('an HTTP/2 upstream that goes away again and again', () => {
	test('costs no request that can be repeated its answer', async () => {
		await using load = new Load(proxy, { h1: 4, h2: 2, streams: 8, path: (n) => `/storm/${n}` });
		for (let i = 0; i < 40; i++) {
			await load.answers(10);
			for (const session of storming.open) {
				if (session.destroyed) continue;
				// In order, in haste, and with an end of the connection right behind it.
				if (i % 3 === 0) session.close();
				else session.goaway(i % 3 === 1 ? constants.NGHTTP2_NO_ERROR : constants.NGHTTP2_ENHANCE_YOUR_CALM);
				if (i % 3 === 1) session.close();
			}
		}
		const { losses, answered } = await load.stop();
		deepEqual(losses, []);
		ok(answered >= 400);
		ok(storming.sessions.length > 10, `${storming.sessions.length} connections`);
		await atRest();
	});
});

describe('an HTTP/2 upstream that falls silent', () => {
	for (const protocol of PROTOCOLS) {
		test(`connect_timeout_secs ends a silent TLS handshake with an HTTP/2 upstream, over ${protocol}`, async () => {
			const paths = Array.from({ length: 10 }, (_, i) => `/mute/${protocol}/${i}`);
			const answers = await Promise.all(paths.map((path) => request(protocol, proxy, { path })));
			deepEqual([...new Set(answers.map(({ status }) => status))], [502]);
			equal(await reasonOf(paths[0]!), 'connection timed out');
			await atRest();
		});

		test(`a silent TLS handshake with an HTTP/2 upstream sends the request to another address, over ${protocol}`, async () => {
			const answers = await Promise.all(
				// A retry is for sure within the budget for ten requests.
				Array.from({ length: 5 }, () => request(protocol, proxy, { path: `/half-mute/${protocol}` })),
			);
			deepEqual([...new Set(answers.map(({ status }) => status))], [200]);
			await atRest();
		});

		test(`upstream_timeout_secs ends requests to a silent HTTP/2 upstream, over ${protocol}`, async () => {
			const isAwake = async () => (await request(protocol, proxy, { path: '/paused' })).text === 'awake';
			await until(isAwake, 'it to answer');
			pausable.kill('SIGSTOP');
			try {
				const answers = await Promise.all(
					Array.from({ length: 5 }, (_, i) => request(protocol, proxy, { path: `/paused/${protocol}/${i}` })),
				);
				deepEqual([...new Set(answers.map(({ status }) => status))], [504]);
				match(await reasonOf(`/paused/${protocol}/0`), /^no (response|connection) within 1 s/);
			} finally {
				pausable.kill('SIGCONT');
			}
			await until(async () => (await request(protocol, proxy, { path: '/paused' })).text === 'awake', 'it to go on');
			await atRest();
		});
	}
});

describe('an HTTP/2 connection on which nothing is answered any more, while new ones are', () => {
	test('takes no further requests once one of them was given up in silence', async () => {
		const asked = async (protocol: Protocol) => {
			const upstream = hung[protocol];
			const path = (name: string) => `/hung-${protocol}/${name}`;
			const answered = async (name: string) => {
				const answer = request(protocol, proxy, { path: path(name) });
				const connection = await upstream.connection();
				connection.send(settingsFrame());
				const { streamId } = await connection.frame(
					({ type, payload }) => type === FRAME.HEADERS && payload.includes(Buffer.from(path(name))),
				);
				connection.send(headersFrame(streamId, [[':status', '204']]));
				equal((await answer).status, 204);
			};
			await answered('first');
			equal((await request(protocol, proxy, { path: path('brief') })).status, 504);
			await answered('last');
		};
		await Promise.all(PROTOCOLS.map(asked));
		await atRest();
	});
});

describe('clients that cancel', () => {
	test('hundreds of calls at an HTTP/2 upstream open no breaker, and leave nothing behind', async () => {
		const CALLS = 600;
		const auth = { authorization: `Bearer ${pki.token()}` };
		let left = CALLS;
		/** A connection may cancel a thousand calls at once. */
		const client = async () => {
			const one = await h2Connect(proxy);
			for (let i = 0; i < 800 && left > 0; i += 40, left -= 40) {
				await Promise.all(
					Array.from({ length: 40 }, async (_, n) => {
						const stream = one.session.request({ ':path': `/cancelled/${n}`, ':authority': 'localhost', ...auth });
						stream.on('error', () => {});
						const closed = once(stream, 'close');
						if (n % 4 === 0) stream.close(constants.NGHTTP2_CANCEL);
						else if (n % 4 === 1) setImmediate(() => stream.close(constants.NGHTTP2_CANCEL));
						else if (BODY_MODE === 'collected') setTimeout(() => stream.close(constants.NGHTTP2_CANCEL), n);
						else stream.once('response', () => stream.close(constants.NGHTTP2_CANCEL));
						await closed;
					}),
				);
			}
			await one.close();
		};
		while (left > 0) await client();
		await atRest();
		equal((await request('h2', proxy, { path: '/cancelled/whole' })).text, 'beginning');
		equal(await proxy.metric('proxy_circuit_transitions_total', { to: 'open', group: 'cancelled' }), 0);
		equal(await proxy.metric('proxy_upstream_streams'), 0);
	});
});
