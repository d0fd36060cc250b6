/** HTTP/2 to upstreams, for clients of both protocols. */
import { deepEqual, equal, ok } from 'node:assert/strict';
import { constants, type ServerHttp2Stream } from 'node:http2';
import { after, describe, test } from 'node:test';
import { countedBytes, heldBody, inPieces } from '../fixtures/bodies.ts';
import { h1Raw, PROTOCOLS, type Protocol, type RequestOptions, request } from '../fixtures/clients.ts';
import { echo, type Http2Upstream, type StreamScript, startHttp2Upstream } from '../fixtures/h2-upstream.ts';
import { testPki } from '../fixtures/pki.ts';
import { ASKED_ONCE, BODY_MODE, firstVerdicts, startProxy } from '../fixtures/proxy.ts';
import { startUpstream } from '../fixtures/upstream.ts';
import { until } from '../fixtures/wait.ts';

const auth = { authorization: `Bearer ${(await testPki()).token()}` };

/** The first one has most of the traffic, the second takes short heads only, and the third is for one test. */
const upstream = await startHttp2Upstream();
const ofShortHeads = await startHttp2Upstream({ settings: { maxHeaderListSize: 2000 } });
const ofOneTest = await startHttp2Upstream();
const upstreams = [upstream, ofShortHeads, ofOneTest];
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
function alone(own: Http2Upstream, script: StreamScript) {
	own.script = script;
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
			for (const size of [0, 1_000_000]) {
				const body = big.subarray(0, size);
				const answer = await ask(protocol, { method: 'POST', path: '/echo', body });
				equal(answer.status, 200);
				ok(answer.body.equals(body), `${size} bytes have changed on their way`);
			}
			const answer = await ask(protocol, { method: 'POST', path: '/pieces', body: inPieces(big, 1, 700, 30_000) });
			ok(answer.body.equals(big));
			await proxy.atRest();
		});

		test('fields of the answer pass, and a status of any class', async () => {
			for (const status of [206, 404, 599]) {
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
			// Connections end one after another; only a request that is refused on all of them is a failure.
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
	});
}

describe('connections to an HTTP/2 upstream', () => {
	test('requests of all clients share one', async () => {
		const own = alone(ofOneTest, echo);
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
		const own = alone(ofShortHeads, (stream, headers) => {
			if (!headers[':path']!.endsWith('/slow')) return;
			stream.respond({ ':status': 200 });
			slow = stream;
		});
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
});
