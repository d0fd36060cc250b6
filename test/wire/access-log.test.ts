/** The access log: one line for each request, however it ends; and the identifiers by which the upstream's log names it. */
import assert from 'node:assert/strict';
import { X509Certificate } from 'node:crypto';
import { after, before, describe, test } from 'node:test';
import { connect, h2Connect, h2Raw, PROTOCOLS, request } from '../fixtures/clients.ts';
import { dataFrame, FRAME, headersFrame, requestFields } from '../fixtures/h2-frames.ts';
import { EchoUpstream } from '../fixtures/load.ts';
import { testPki } from '../fixtures/pki.ts';
import type { LogLine } from '../fixtures/program.ts';
import { BODY_MODE, type ProxyProcess, startProxy, testOnce } from '../fixtures/proxy.ts';
import { type Stage, startLanes } from '../fixtures/stage.ts';
import { until } from '../fixtures/wait.ts';

const COLLECTED = BODY_MODE === 'collected';
const LIMIT = 1000;
const pki = await testPki();
const SECRET = 'hunter2-hunter2';

const isAccess = ({ target }: LogLine) => target === 'proxy::access';

/** Waits for this many access lines during `during`, and asserts that there are no more. */
async function lines(proxy: ProxyProcess, count: number, during: () => Promise<unknown>): Promise<LogLine[]> {
	const before = proxy.logs.length;
	await during();
	const found = () => proxy.logs.slice(before).filter(isAccess);
	await until(
		() => found().length >= count,
		() => `${count} lines; there are ${found().length}`,
	);
	assert.equal(found().length, count);
	return found();
}

async function line(proxy: ProxyProcess, during: () => Promise<unknown>): Promise<LogLine> {
	return (await lines(proxy, 1, during))[0]!;
}

function assertMembers(line: LogLine, members: Readonly<Record<string, unknown>>): void {
	assert.deepEqual(Object.fromEntries(Object.keys(members).map((name) => [name, line[name]])), members);
}

describe('access = "all" with request_id', () => {
	let edge: Stage;
	let proxy: ProxyProcess;
	before(async () => {
		edge = await startLanes({
			lanes: 14,
			workers: 1,
			config: { tenant_rps: 0, default_cooldown_secs: 3600 },
			limits: { max_request_body_bytes: LIMIT },
			log: { access: 'all', request_id: true },
		});
		proxy = edge.proxy;
	});
	after(() => edge.close());

	for (const protocol of PROTOCOLS) {
		describe(`over ${protocol}`, () => {
			const send = (options: Parameters<typeof request>[2]) => request(protocol, proxy, options);

			test('has the client, the request, the route and the duration', async () => {
				const { path, upstream } = edge.lane();
				upstream.script = (exchange) => exchange.respond({ body: 'x'.repeat(1234) });
				const got = await line(proxy, () =>
					send({ method: 'POST', path: `${path}/a?secret=${SECRET}`, body: 'y'.repeat(321), token: pki.token('acme') }),
				);
				const certificate = new X509Certificate(pki.clients.valid.certPem);
				assertMembers(got, {
					level: 'info',
					target: 'proxy::access',
					message: 'request',
					method: 'POST',
					path: `${path}/a`,
					status: 200,
					ending: undefined,
					reason: undefined,
					tenant: 'acme',
					route: path,
					upstream: upstream.authority,
					protocol: protocol === 'h1' ? 'http/1.1' : 'h2',
					tls: 'TLSv1.3',
					client: '127.0.0.1',
					client_subject: certificate.subject.replaceAll('\n', ', '),
					client_sha256: certificate.fingerprint256.replaceAll(':', '').toLowerCase(),
					bytes_in: 321,
					bytes_out: 1234,
					attempt: 1,
				});
				assert.match(got.timestamp, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
				for (const name of ['duration_ms', 'body_ms', 'upstream_ms']) {
					assert.ok(typeof got[name] === 'number' && got[name] >= 0 && got[name] < 10_000, name);
				}
				assert.ok(Number(got.duration_ms) >= Number(got.upstream_ms));
				const [seen] = upstream.requests;
				assert.equal(seen!.header('x-request-id'), got.request_id);
				assert.match(seen!.header('traceparent')!, new RegExp(`^00-${got.trace_id}-[0-9a-f]{16}-00$`));
			});

			test('distinguishes refusals by the proxy from answers of upstreams', async () => {
				const { path, upstream } = edge.lane();
				upstream.script = (exchange) => exchange.respond({ status: 404, body: 'none' });
				const [noRoute, theirs, large, head] = await lines(proxy, 4, async () => {
					await send({ path: '/nowhere' });
					await send({ path });
					await send({ method: 'POST', path, body: 'x'.repeat(LIMIT + 1) });
					await send({ method: 'HEAD', path: '/nowhere' });
				});
				assertMembers(noRoute!, { status: 404, reason: 'no route', tenant: 'tenant', route: undefined, bytes_out: 8 });
				assertMembers(theirs!, { status: 404, reason: undefined, route: path, upstream: upstream.authority });
				assertMembers(large!, { status: 413, reason: 'payload too large', attempt: undefined });
				assertMembers(head!, { method: 'HEAD', status: 404, bytes_out: 0 });
			});

			test('has one for a client that leaves before it is answered', async () => {
				const { path, upstream } = edge.lane();
				upstream.script = (exchange) => exchange.stall();
				const got = await line(proxy, async () => {
					const client = await connect(protocol, proxy);
					const answer = client.request({ path });
					await upstream.request(1);
					await client.close();
					await answer;
				});
				assertMembers(got, {
					status: undefined,
					ending: 'client gone',
					path,
					tenant: 'tenant',
					bytes_out: 0,
					tls: 'TLSv1.3',
				});
			});

			test('has one for a client that leaves in the middle of its answer', async (t) => {
				if (COLLECTED) return t.skip('there is no middle');
				const { path, upstream } = edge.lane();
				upstream.script = (exchange) => {
					exchange.startChunked();
					exchange.chunk('first');
					return exchange.stall();
				};
				const got = await line(proxy, async () => {
					const client = await connect(protocol, proxy);
					const answer = client.request({ path });
					await upstream.request(1);
					await until(
						async () => (await proxy.metric('proxy_requests_total', { upstream: upstream.authority })) === 1,
						'the answer',
					);
					await client.close();
					await answer;
				});
				assertMembers(got, { status: 200, ending: 'client gone', bytes_out: 5 });
			});

			test('distinguishes a broken-off answer from a complete one', async () => {
				const { path, upstream } = edge.lane();
				upstream.script = (exchange) => {
					exchange.startChunked();
					exchange.chunk('first');
					exchange.socket.write('', () => exchange.end());
				};
				const got = await line(proxy, () => send({ path }));
				assert.equal(typeof got.reason, 'string');
				if (COLLECTED) assertMembers(got, { status: 502, ending: undefined });
				else assertMembers(got, { status: 200, ending: 'broken off', upstream: upstream.authority });
			});
		});
	}

	testOnce('has one for an HTTP/2 request that is malformed, whose stream is reset without an answer', async () => {
		const { path, upstream } = edge.lane();
		upstream.script = (exchange) => exchange.stall();
		const target = `${path}?${SECRET}`;
		const head = [...requestFields('POST', target, pki.token()), ['content-length', '5'] as const];
		const since = proxy.logs.length;
		const [malformed, longer] = await lines(proxy, 3, async () => {
			using raw = await h2Raw(proxy);
			raw.send(headersFrame(1, [...head, ['connection', SECRET]]));
			await raw.resetCode(1);
			raw.send(headersFrame(3, head, { endStream: false }));
			// By its answer the one before it is known to have begun.
			raw.send(headersFrame(5, [...requestFields('POST', target), ['content-length', '0']]));
			await raw.frameOf(FRAME.HEADERS, 5);
			raw.send(dataFrame(3, 'x'.repeat(6)));
			await raw.resetCode(3);
		}).then((got) => got.filter(({ status }) => status !== 401));
		const shared = { status: undefined, ending: 'broken off', client: '127.0.0.1', protocol: 'h2' };
		assertMembers(malformed!, { ...shared, method: '', path: '', reason: 'connection in HTTP/2' });
		const otherLength = 'a body whose length differs from content-length';
		assertMembers(longer!, { ...shared, method: 'POST', path, reason: otherLength });
		const errors = proxy.logs.slice(since).filter(({ message }) => message === 'stream ended with an error');
		for (const error of errors) assertMembers(error, { level: 'info', target: 'proxy::http2', peer: '127.0.0.1' });
		assert.deepEqual(
			errors.map(({ what }) => what),
			['connection in HTTP/2', otherLength],
		);
	});

	test("the access log never shows a token, a query or a header's value, and each entry is one line of ASCII", () => {
		const output = JSON.stringify(proxy.logs) + proxy.stderr;
		assert.ok(!output.includes(SECRET));
		assert.doesNotMatch(output, /Bearer|eyJ/);
		assert.deepEqual(proxy.strayLines, []);
	});
});

describe('access = "errors"', () => {
	testOnce('has what was refused and what went wrong, and nothing else', async () => {
		await using edge = await startLanes({ lanes: 2, workers: 1, log: { access: 'errors' } });
		const { proxy } = edge;
		const [good, bad] = [edge.lane(), edge.lane()];
		bad.upstream.script = (exchange) => exchange.respond({ status: 500 });
		const got = await lines(proxy, 3, async () => {
			for (const protocol of PROTOCOLS) await request(protocol, proxy, { path: good.path });
			await request('h1', proxy, { path: good.path, token: null });
			await request('h2', proxy, { path: bad.path });
			good.upstream.script = (exchange) => exchange.stall();
			const client = await connect('h1', proxy);
			const answer = client.request({ path: good.path });
			await good.upstream.request(3);
			await client.close();
			await answer;
		});
		assert.deepEqual(
			got.map(({ status, ending }) => [status, ending]),
			[
				[401, undefined],
				[500, undefined],
				[undefined, 'client gone'],
			],
		);
		// Without `request_id` nothing is added to the forwarded fields.
		assert.deepEqual([got[1]!.trace_id, got[1]!.request_id], [undefined, undefined]);
		assert.equal(bad.upstream.requests[0]!.header('x-request-id'), undefined);
	});
});

describe('writing the access log', () => {
	let upstream: EchoUpstream;
	before(async () => {
		upstream = await EchoUpstream.start();
	});
	after(() => upstream[Symbol.asyncDispose]());

	const start = () =>
		startProxy({
			config: { tenant_rps: 0 },
			routes: [{ prefix: '/', upstream: upstream.url }],
			workers: 2,
			log: { access: 'all' },
		});

	testOnce('loses no line of a finished request at the drain', async () => {
		await using proxy = await start();
		const REQUESTS = 300;
		for (const protocol of PROTOCOLS) {
			await using client = await connect(protocol, proxy);
			for (let i = 0; i < REQUESTS / 2; i++) assert.equal((await client.request()).status, 200);
		}
		const stopped = proxy.stop();
		assert.equal(await stopped, 0);
		assert.equal(proxy.logs.filter(isAccess).length, REQUESTS);
		assert.equal(proxy.logs.at(-1)!.message, 'drained');
	});

	testOnce(
		'costs lines when the reader falls behind, which are counted, and neither requests nor other records',
		async () => {
			await using proxy = await start();
			proxy.ignoreLog();
			const long = 'x'.repeat(8_000);
			const REQUESTS = 1_200;
			await using connection = await h2Connect(proxy);
			for (let sent = 0; sent < REQUESTS; sent += 50) {
				const answers = Array.from({ length: 50 }, () => connection.request({ path: `/${long}` }));
				for (const { status } of await Promise.all(answers)) assert.equal(status, 200);
			}
			const dropped = () => proxy.metric('proxy_access_log_dropped_total');
			await until(async () => (await dropped()) > 0, 'a line to be dropped');
			// The pipe keeps its content; these lines follow it.
			proxy.signal('SIGUSR1');
			await until(async () => (await proxy.metric('proxy_reloads_total')) === 1, 'the reload, log or no log');
			proxy.readLog();
			await proxy.waitForLog(({ message }) => /^mTLS config reloaded/.test(message));
			const lost = () =>
				proxy.logs
					.filter(({ message }) => /^log lines are missing here/.test(message))
					.reduce((sum, { lines }) => sum + Number(lines), 0);
			const kept = () => proxy.logs.filter(isAccess).length;
			await until(
				async () => lost() === (await dropped()) && kept() === REQUESTS - lost(),
				() => `all ${REQUESTS} lines; ${kept()} were kept, and ${lost()} are said to be lost`,
			);
			assert.ok(kept() > 0);
			assert.deepEqual(proxy.strayLines, []);
			await lines(proxy, 1, () => connection.request({ path: '/again' }));
		},
	);
});
