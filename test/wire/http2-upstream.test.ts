/** HTTP/2 to upstreams, for clients of both protocols. */
import { deepEqual, equal, match, ok } from 'node:assert/strict';
import { constants, type IncomingHttpHeaders, type ServerHttp2Stream } from 'node:http2';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { after, describe, test } from 'node:test';
import { countedBytes, heldBody, inPieces } from '../fixtures/bodies.ts';
import { h1Raw, PROTOCOLS, type Protocol, type RequestOptions, request } from '../fixtures/clients.ts';
import { h2Connect } from '../fixtures/h2-client.ts';
import { echo, type Http2Upstream, type StreamScript, startHttp2Upstream } from '../fixtures/h2-upstream.ts';
import { testPki } from '../fixtures/pki.ts';
import { ASKED_ONCE, BODY_MODE, firstVerdicts, startProxy } from '../fixtures/proxy.ts';
import { startUpstream } from '../fixtures/upstream.ts';
import { until } from '../fixtures/wait.ts';

const auth = { authorization: `Bearer ${(await testPki()).token()}` };

/** The first one has most of the traffic, the second takes short heads only, and each of the others is for one test. */
const upstream = await startHttp2Upstream();
const ofShortHeads = await startHttp2Upstream({ settings: { maxHeaderListSize: 2000 } });
const others = await Promise.all(Array.from({ length: 5 }, () => startHttp2Upstream()));
const upstreams = [upstream, ofShortHeads, ...others];
const prefixOf = ({ port }: Http2Upstream) => `/${port}`;
const proxy = await startProxy({
	routes: upstreams.map((one) => ({
		prefix: one === upstream ? '/' : prefixOf(one),
		upstream: `h2c://${one.authority}`,
	})),
	workers: 1,
	breaker: { failures: 100 },
	config: { ...ASKED_ONCE, tenant_rps: 0 },
});
await firstVerdicts(proxy);
after(async () => {
	await proxy.stop();
	for (const one of upstreams) await one.stop();
});
const ask = (protocol: Protocol, options = {}) => request(protocol, proxy, options);

/** An upstream that no other test knows, and requests to it. */
function alone(script?: StreamScript, own = others.pop()!) {
	if (script !== undefined) own.script = script;
	const prefix = prefixOf(own);
	return {
		upstream: own,
		prefix,
		ask: (protocol: Protocol, options: RequestOptions = {}) =>
			ask(protocol, { ...options, path: `${prefix}${options.path ?? ''}` }),
	};
}

const DATE = 'Sun, 06 Nov 1994 08:49:37 GMT';
const big = countedBytes(1_000_000);

for (const protocol of PROTOCOLS) {
	describe(`requests of ${protocol} at an HTTP/2 upstream`, () => {
		test('bodies arrive whole, in both directions', async () => {
			upstream.script = echo;
			for (const size of [0, 1, 16_384, 65_536, 1_000_000]) {
				const body = big.subarray(0, size);
				const answer = await ask(protocol, { method: 'POST', path: '/echo', body });
				equal(answer.status, 200);
				ok(answer.body.equals(body), `${size} bytes have changed on their way`);
			}
			const answer = await ask(protocol, { method: 'POST', path: '/pieces', body: inPieces(big, 1, 700, 30_000) });
			ok(answer.body.equals(big));
			await proxy.atRest();
		});

		test('the upstream gets the fields of the contract, and none of a connection', async () => {
			let seen: IncomingHttpHeaders = {};
			upstream.script = (stream, headers) => {
				seen = headers;
				stream.respond({ ':status': 200 });
				stream.end('ok');
			};
			const headers = {
				'X-Own': 'kept',
				cookie: 'a=1; b=2',
				te: 'trailers',
				'x-proxy-tenant': 'forged',
				...(protocol === 'h1' && { 'keep-alive': 'timeout=1', 'proxy-connection': 'x' }),
			};
			const answer = await ask(protocol, { path: '/a/b?c=d', headers });
			equal(answer.status, 200);
			equal(seen[':method'], 'GET');
			equal(seen[':path'], '/a/b?c=d');
			equal(seen[':scheme'], 'http');
			equal(seen[':authority'], upstream.authority);
			equal(seen['x-own'], 'kept');
			equal(seen.cookie, 'a=1; b=2');
			equal(seen.te, 'trailers');
			equal(seen['x-forwarded-proto'], 'https');
			equal(seen['x-forwarded-for'], '127.0.0.1');
			match(String(seen['x-proxy-tenant']), /^(?!forged)/);
			for (const name of [
				'host',
				'connection',
				'keep-alive',
				'proxy-connection',
				'transfer-encoding',
				'content-length',
			]) {
				equal(seen[name], undefined, name);
			}
		});

		test('fields of the answer pass, and a status of any class', async () => {
			for (const status of [200, 201, 206, 301, 404, 418, 500, 599]) {
				upstream.script = (stream) => {
					stream.respond({ ':status': status, 'x-a': '1', 'set-cookie': ['a=1', 'b=2'] });
					stream.end(`says ${status}`);
				};
				const answer = await ask(protocol, {});
				equal(answer.status, status);
				equal(answer.text, `says ${status}`);
				equal(answer.headers['x-a'], '1');
				equal(answer.ended, 'complete');
			}
		});

		test('HEAD, 204, 304, only a head and interim responses', async () => {
			const cases: [method: string, script: StreamScript, status: number, length: string | undefined][] = [
				[
					'HEAD',
					(stream) => stream.respond({ ':status': 200, 'content-length': 1000 }, { endStream: true }),
					200,
					'1000',
				],
				['GET', (stream) => stream.respond({ ':status': 204 }, { endStream: true }), 204, undefined],
				['GET', (stream) => stream.respond({ ':status': 304, etag: '"1"' }, { endStream: true }), 304, undefined],
				['GET', (stream) => stream.respond({ ':status': 200 }, { endStream: true }), 200, '0'],
				[
					'GET',
					(stream) => {
						stream.additionalHeaders({ ':status': 103, link: '</x>' });
						stream.respond({ ':status': 200, 'content-length': 2 });
						stream.end('ok');
					},
					200,
					'2',
				],
			];
			for (const [method, script, status, length] of cases) {
				upstream.script = script;
				const answer = await ask(protocol, { method });
				equal(answer.status, status);
				equal(answer.headers['content-length'], length);
				equal(answer.ended, 'complete');
				deepEqual(answer.informational, []);
			}
			await proxy.atRest();
		});

		test('a stream that breaks off in the middle of its body is not a whole answer', async () => {
			upstream.script = (stream) => {
				stream.respond({ ':status': 200 });
				stream.write('beginning', () => stream.destroy(new Error('breaks off')));
			};
			const answer = await ask(protocol, {});
			if (BODY_MODE === 'collected') equal(answer.status, 502);
			else equal(answer.ended === 'complete', false);
			await proxy.atRest();
		});

		test('trailers are announced with every answer, also if its head is that of another one', async () => {
			upstream.script = (stream) => {
				stream.on('wantTrailers', () => setTimeout(() => stream.sendTrailers({ 'x-sum': 'abc' }), 50));
				stream.respond({ ':status': 200, trailer: 'x-sum', date: DATE }, { waitForTrailers: true });
				stream.end('body');
			};
			const headers = protocol === 'h1' ? { te: 'trailers', connection: 'te' } : {};
			// Heads in a row, with no trailers between them, are read once.
			const answers = await Promise.all(Array.from({ length: 8 }, () => ask(protocol, { headers })));
			for (const answer of answers) {
				equal(answer.headers.trailer, protocol === 'h1' ? 'x-sum' : undefined);
				deepEqual(answer.trailers, [['x-sum', 'abc']]);
			}
		});

		test('what the upstream refuses is sent again, whatever it is', async () => {
			// Connections end one behind the other; only one that is refused everywhere is a failure.
			let refusals = 4;
			let seen = 0;
			upstream.script = (stream, headers, body) => {
				if (seen++ < refusals) return void body.then(() => stream.close(constants.NGHTTP2_REFUSED_STREAM));
				echo(stream, headers, body);
			};
			const trailers: [string, string][] = [['x-sum', 'abc']];
			for (const options of [
				{ method: 'DELETE' },
				{ method: 'POST', body: Buffer.from('twice') },
				{ method: 'POST', body: Buffer.alloc(16_384, 'twice'), trailers },
			]) {
				seen = 0;
				refusals = 4;
				const answer = await ask(protocol, options);
				equal(answer.status, 200);
				equal(answer.text, options.body?.toString() ?? '');
				equal(seen, 5);

				seen = 0;
				refusals = 100;
				equal((await ask(protocol, options)).status, 502);
				equal(seen, 9);
			}
			await proxy.atRest();
		});

		test('a body that is still on its way goes on where it is sent again', async () => {
			const bodies: string[] = [];
			upstream.script = (stream, headers, body) => {
				if (bodies.push('') > 1) return echo(stream, headers, body);
				stream.once('data', () => stream.close(constants.NGHTTP2_REFUSED_STREAM));
			};
			const body = heldBody('first ');
			const answer = ask(protocol, { method: 'POST', body });
			if (BODY_MODE === 'streaming') await until(() => bodies.length === 2, 'the request to be sent again');
			body.finish('second');
			equal((await answer).text, 'first second');
			await proxy.atRest();
		});

		test('a client that awaits 100 Continue gets one, however often the request is sent', async () => {
			let seen = 0;
			upstream.script = (stream, headers, body) => {
				if (++seen > 3) return echo(stream, headers, body);
				const refuse = () => stream.close(constants.NGHTTP2_REFUSED_STREAM);
				if (BODY_MODE === 'streaming') refuse();
				else void body.then(refuse);
			};
			async function* afterRefusals() {
				if (BODY_MODE === 'streaming') await until(() => seen === 4, 'the request to be sent again');
				yield Buffer.from('late');
			}
			const headers = { expect: '100-continue' };
			const answer = await ask(protocol, { method: 'POST', headers, body: afterRefusals() });
			deepEqual([answer.status, answer.text, answer.informational], [200, 'late', [100]]);
			equal(seen, 4);
			await proxy.atRest();
		});

		test('a refused request whose body is too long to be kept is a 502 in streaming mode', async () => {
			let seen = 0;
			upstream.script = (stream, headers, body) => {
				if (seen++ > 0) return echo(stream, headers, body);
				void body.then(() => stream.close(constants.NGHTTP2_REFUSED_STREAM));
			};
			const answer = await ask(protocol, { method: 'POST', body: Buffer.alloc(16_385, 'a') });
			equal(answer.status, BODY_MODE === 'streaming' ? 502 : 200);
			equal(seen, BODY_MODE === 'streaming' ? 1 : 2);
			await proxy.atRest();
		});

		test('trailers of an empty body go with it when it is sent again', async () => {
			const trailers: unknown[] = [];
			let seen = 0;
			upstream.script = (stream, headers, body) => {
				const isFirst = seen++ === 0;
				stream.once('trailers', (fields) => trailers.push(fields['x-sum']));
				if (!isFirst) echo(stream, headers, body);
				else void body.then(() => stream.close(constants.NGHTTP2_REFUSED_STREAM));
			};
			const answer = await ask(protocol, { method: 'POST', body: '', trailers: [['x-sum', 'abc']] });
			equal(answer.status, 200);
			deepEqual(trailers, ['abc', 'abc']);
		});
	});
}

describe('connections to an HTTP/2 upstream', () => {
	test('requests of all clients share one', async () => {
		const own = alone(echo);
		const answers = await Promise.all(
			Array.from({ length: 40 }, (_, i) =>
				own.ask(PROTOCOLS[i % 2]!, { method: 'POST', body: Buffer.from(`body ${i}`.repeat(100)) }),
			),
		);
		for (const [i, answer] of answers.entries()) equal(answer.text, `body ${i}`.repeat(100));
		// One of the probe, one of the requests.
		equal(own.upstream.sessions.length, 2);
		await proxy.atRest();
	});

	test('a head too long for the upstream costs its own request, and no other of the connection', async () => {
		let slow: ServerHttp2Stream | undefined;
		const own = alone((stream, headers) => {
			if (!headers[':path']!.endsWith('/slow')) return;
			stream.respond({ ':status': 200 });
			slow = stream;
		}, ofShortHeads);
		const answer = own.ask('h2', { path: '/slow' });
		await until(() => slow !== undefined, 'the request that is under way');
		using client = await h1Raw(proxy);
		const fields = `host: localhost\r\nauthorization: ${auth.authorization}\r\nx-long: ${'a'.repeat(3000)}`;
		client.send(`POST ${own.prefix} HTTP/1.1\r\n${fields}\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n`);
		equal((await client.readResponse()).status, 431);
		slow!.end('slow');
		equal((await answer).text, 'slow');
		equal(own.upstream.sessions.length, 2);
		await proxy.atRest();
	});

	test('answers that do not wait for the body count as resets, and a connection with many of them is left', async () => {
		let slow: ServerHttp2Stream | undefined;
		const own = alone((stream, headers) => {
			if (headers[':path']!.endsWith('/slow')) slow = stream;
			else stream.respond({ ':status': 413 }, { endStream: true });
		});
		await using client = await h2Connect(proxy);
		const answer = own.ask('h2', { path: '/slow', ms: 60_000 });
		await until(() => slow !== undefined, 'the request that is under way');
		// More than a window: some of it cannot have been sent when the answer comes.
		const body = big.subarray(0, 70_000);
		for (let i = 0; i < 45; i++) {
			const answers = await Promise.all(
				Array.from({ length: 10 }, () => client.request({ method: 'POST', path: own.prefix, body })),
			);
			for (const { status } of answers) equal(status, 413);
		}
		slow!.respond({ ':status': 200 });
		slow!.end('slow');
		equal((await answer).text, 'slow');
		ok(own.upstream.sessions.length > 2, 'another connection');
		await proxy.atRest();
	});

	test('requests after a GOAWAY use a new connection, and those in flight finish on the old one', async () => {
		const own = alone((stream) => {
			stream.respond({ ':status': 200 });
			setTimeout(() => stream.end('late'), 300);
		});
		const first = own.ask('h2', {});
		await until(() => own.upstream.streams === 1, 'the first stream');
		for (const session of own.upstream.live) session.goaway(0);
		const second = await own.ask('h2', {});
		equal(second.text, 'late');
		equal((await first).text, 'late');
		equal(own.upstream.sessions.length, 3);
		await proxy.atRest();
	});

	test('an upstream that ends idle connections costs no request its answer', async () => {
		const own = alone();
		for (let i = 0; i < 5; i++) {
			equal((await own.ask('h2', {})).status, 200);
			for (const session of own.upstream.live) session.destroy();
		}
		await proxy.atRest();
	});

	test('limits count connections and streams, and what is over them waits its turn', async () => {
		let most = 0;
		let now = 0;
		const limited = await startHttp2Upstream({
			script: (stream) => {
				most = Math.max(most, ++now);
				setTimeout(() => {
					now--;
					if (stream.destroyed) return;
					stream.respond({ ':status': 200 });
					stream.end('ok');
				}, 5);
			},
		});
		const own = await startProxy({
			upstreams: [
				{
					...{ name: 'limited', addresses: [limited.authority], protocol: 'h2' },
					...{ max_connections: 1, max_requests: 7, queue: 200, queue_timeout_secs: 60 },
				},
			],
			routes: [{ prefix: '/', upstream: 'limited' }],
			config: { ...ASKED_ONCE, tenant_rps: 0 },
		});
		try {
			await firstVerdicts(own);
			const answers = await Promise.all(
				Array.from({ length: 120 }, (_, i) => request(PROTOCOLS[i % 2]!, own, { ms: 60_000 })),
			);
			deepEqual([...new Set(answers.map(({ status }) => status))], [200]);
			ok(most <= 7, `${most} at once`);
			await own.atRest();
		} finally {
			await own.stop();
			await limited.stop();
		}
	});

	test('an upstream that is killed opens its breaker, and comes back', async () => {
		const own = alone(() => {});
		const asked = own.ask('h2', { method: 'POST' });
		await until(() => own.upstream.streams === 1, 'the stream');
		own.upstream.cut();
		equal((await asked).status, 502);
		await proxy.atRest();
	});

	test('a cancelled request is cancelled at the upstream, and opens no breaker', async () => {
		const cancelled: number[] = [];
		upstream.script = (stream) => {
			stream.on('close', () => cancelled.push(stream.rstCode));
		};
		const before = upstream.streams;
		const failures = await Promise.allSettled(Array.from({ length: 20 }, () => ask('h2', { ms: 300 })));
		equal(
			failures.every(({ status }) => status === 'rejected'),
			true,
		);
		await until(() => cancelled.length === upstream.streams - before, 'all streams to be cancelled');
		equal(
			cancelled.every((code) => code === constants.NGHTTP2_CANCEL),
			true,
		);
		upstream.script = echo;
		equal((await ask('h2', {})).status, 200);
		await proxy.atRest();
	});

	test('an upstream that speaks HTTP/1.1 is a bad gateway with its reason', async () => {
		const plain = createServer((socket) => socket.end('HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n'));
		await new Promise<void>((resolve) => plain.listen(0, '127.0.0.1', resolve));
		const { port } = plain.address() as AddressInfo;
		const own = await startProxy({
			routes: [{ prefix: '/', upstream: `h2c://127.0.0.1:${port}` }],
			config: { ...ASKED_ONCE, health: false },
			log: { access: 'errors' },
		});
		try {
			equal((await request('h2', own, {})).status, 502);
			const { reason } = await until(() => own.logs.find(({ target }) => target === 'proxy::access'), 'an access line');
			match(String(reason), /it speaks HTTP\/1\.1/);
		} finally {
			await own.stop();
			plain.close();
		}
	});
});

describe('over TLS', () => {
	test('HTTP/2 by ALPN; an upstream that does not choose it is a failed connection with its reason', async () => {
		const pki = await testPki();
		const identity = { cert: pki.server.certPem, key: pki.server.keyPem };
		const secure = await startHttp2Upstream({ script: echo, tls: identity });
		const older = await startUpstream({ tls: identity });
		const group = (name: string, authority: string) => ({
			...{ name, addresses: [authority], protocol: 'h2', tls: { ca_path: pki.caPath } },
		});
		const own = await startProxy({
			upstreams: [group('new', secure.authority), group('old', older.authority)],
			routes: [
				{ prefix: '/new', upstream: 'new' },
				{ prefix: '/old', upstream: 'old' },
			],
			config: { ...ASKED_ONCE, tenant_rps: 0, default_cooldown_secs: 3600 },
			log: { access: 'errors' },
		});
		try {
			await until(async () => (await own.samples('proxy_upstream_alive')).length === 2, 'the verdicts');
			const answer = await request('h2', own, { method: 'POST', path: '/new', body: big });
			equal(answer.status, 200);
			ok(answer.body.equals(big));
			equal((await request('h2', own, { path: '/old' })).status, 503);
			const probed = await until(
				() => own.logs.find(({ message, group: name }) => message === 'upstream is unhealthy' && name === 'old'),
				'the failed probe',
			);
			equal(probed.cause, 'it did not choose HTTP/2 (ALPN)');
		} finally {
			await own.stop();
			await secure.stop();
			await older.stop();
		}
	});

	test('a request that is cancelled before its connection is there is not delivered when it is', async () => {
		const pki = await testPki();
		const paths: unknown[] = [];
		const secure = await startHttp2Upstream({
			script: (stream, headers, body) => {
				paths.push(headers[':path']);
				echo(stream, headers, body);
			},
			tls: { cert: pki.server.certPem, key: pki.server.keyPem },
		});
		let isSilent = false;
		const held: Socket[] = [];
		const pass = (socket: Socket) => {
			const passed = connect(Number(secure.authority.split(':')[1]), '127.0.0.1').on('error', () => {});
			socket.pipe(passed).pipe(socket);
		};
		const front = createServer((socket) => {
			socket.on('error', () => {});
			if (isSilent) held.push(socket);
			else pass(socket);
		});
		await new Promise<void>((resolve) => front.listen(0, '127.0.0.1', resolve));
		const address = `127.0.0.1:${(front.address() as AddressInfo).port}`;
		const own = await startProxy({
			upstreams: [{ name: 'late', addresses: [address], protocol: 'h2', tls: { ca_path: pki.caPath } }],
			routes: [{ prefix: '/', upstream: 'late' }],
			workers: 1,
			config: { ...ASKED_ONCE, tenant_rps: 0 },
		});
		const post = (path: string) => request('h2', own, { method: 'POST', path, body: Buffer.from('some'), ms: 60_000 });
		/** Sends a request that its client cancels when this is so. */
		const cancelled = async (when: () => Promise<boolean> | boolean) => {
			const client = await h2Connect(own);
			const answer = client.request({ method: 'POST', path: '/cancelled', body: Buffer.from('some') });
			await until(when, 'the request to wait for its connection');
			await client.close();
			equal((await answer).status, 0);
		};
		try {
			await firstVerdicts(own);
			isSilent = true;
			const waiting = () => own.metric('proxy_upstream_streams');
			await cancelled(() => held.length === 1);
			await until(async () => (await waiting()) === 0, 'the request to be gone');
			// Where another one waits, the connection goes on.
			const waits = post('/waits');
			await until(async () => (await waiting()) === 1, 'the one that waits');
			await cancelled(async () => (await waiting()) === 2);
			await until(async () => (await waiting()) === 1, 'the other one to be gone');
			isSilent = false;
			for (const socket of held) pass(socket);
			equal((await waits).text, 'some');
			equal((await post('/wanted')).text, 'some');
			deepEqual(paths, ['/waits', '/wanted']);
			await own.atRest();
		} finally {
			await own.stop();
			for (const socket of held) socket.destroy();
			front.close();
			await secure.stop();
		}
	});
});
