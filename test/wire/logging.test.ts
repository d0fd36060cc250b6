import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, describe, test } from 'node:test';
import { h1Raw, h2Connect, PROTOCOLS, request } from '../fixtures/clients.ts';
import { freePort } from '../fixtures/free-port.ts';
import { EchoUpstream } from '../fixtures/load.ts';
import { testPki } from '../fixtures/pki.ts';
import type { LogLine } from '../fixtures/program.ts';
import { type ProxyOptions, type ProxyProcess, spawnProxy, startProxy } from '../fixtures/proxy.ts';
import { until } from '../fixtures/wait.ts';

const pki = await testPki();

let upstream: EchoUpstream;
before(async () => {
	upstream = await EchoUpstream.start();
});
after(() => upstream[Symbol.asyncDispose]());

function start(rustLog: string, options: ProxyOptions = {}): Promise<ProxyProcess> {
	return startProxy({
		config: { tenant_rps: 0 },
		routes: [{ prefix: '/', upstream: upstream.url }],
		...options,
		env: { RUST_LOG: rustLog, ...options.env },
	});
}

const ANSWERED = 'answered';

/** All characters that could forge or break a line, as far as a `sub` may have them. */
const HOSTILE_SUB = `"},{"level":"error","message":"forged\\n\\u0000%0a'<>&{}[]$(x)\`,;:=~`;
/** The same for a path; other bytes than these do not get as far as being a path. */
const HOSTILE_PATH = `/"},{"level":"error","message":"forged"}%0d%0a%1b[2J%e2%80%a8'{}|^\``;
/** Line separators, terminal commands and marks that turn text around, in UTF-8. */
const HOSTILE_BYTES = '"},{"\xe2\x80\xa8\xc2\x85\xc2\x9b2J\xe2\x80\xae\xff';

describe('the log at RUST_LOG=debug', () => {
	let proxy: ProxyProcess;
	before(async () => {
		proxy = await start('debug');
	});
	after(() => proxy[Symbol.asyncDispose]());

	/** Waits for this many lines about requests during `during`. */
	async function answered(count: number, during: () => Promise<unknown>): Promise<LogLine[]> {
		const logged = proxy.logs.length;
		await during();
		const lines = () => proxy.logs.slice(logged).filter(({ message }) => message === ANSWERED);
		await until(() => lines().length >= count, `${count} lines; there are ${lines().length}`);
		return lines();
	}

	for (const protocol of PROTOCOLS) {
		test(`has one line for each answer, with who, what and how (${protocol})`, async () => {
			const lines = await answered(3, async () => {
				await request(protocol, proxy, { path: '/a?query=1', token: pki.token('acme') });
				await request(protocol, proxy, { method: 'POST', path: '/b', body: 'x', token: null });
				await request(protocol, proxy, { path: '/../c', token: pki.token('acme') });
			});
			const { authority } = upstream;
			const expected = [
				{ method: 'GET', path: '/../c', status: 400, tenant: 'acme', upstream: undefined, rejection: 'bad-path' },
				{ method: 'GET', path: '/a', status: 200, tenant: 'acme', upstream: authority, rejection: undefined },
				{ method: 'POST', path: '/b', status: 401, tenant: undefined, upstream: undefined, rejection: 'token-missing' },
			];
			// Each request has its own connection, so another worker may log it, earlier or later.
			const byPath = lines.toSorted((one, other) => (String(one.path) < String(other.path) ? -1 : 1));
			for (const [i, line] of byPath.entries()) {
				const { method, path, status, tenant, upstream, rejection, duration_ms, level, target } = line;
				assert.deepEqual([level, target], ['debug', 'proxy::request']);
				assert.deepEqual({ method, path, status, tenant, upstream, rejection }, expected[i]);
				assert.ok(typeof duration_ms === 'number' && duration_ms > 0 && duration_ms < 10_000);
			}
		});

		test(`is one valid line each for a hostile sub (${protocol})`, async () => {
			const [line, ...more] = await answered(1, () => request(protocol, proxy, { token: pki.token(HOSTILE_SUB) }));
			assert.deepEqual([line!.tenant, line!.level, more], [HOSTILE_SUB, 'debug', []]);
		});
	}

	test('is one valid line each for hostile paths and headers', async () => {
		const head = `Host: localhost\r\nAuthorization: Bearer ${pki.token()}\r\n`;
		const messages = [
			`GET ${HOSTILE_PATH}?${HOSTILE_PATH} HTTP/1.1\r\n${head}X-Hostile: ${HOSTILE_BYTES}\r\n\r\n`,
			`GET /${HOSTILE_BYTES} HTTP/1.1\r\n${head}\r\n`,
			`GET / HTTP/1.1\r\n${head}X: \x00\x1b[2J\r\n\r\n`,
			`${HOSTILE_BYTES}\r\n\r\n`,
		];
		const lines = await answered(messages.length, async () => {
			for (const message of messages) {
				using raw = await h1Raw(proxy);
				raw.send(message);
				await raw.readResponse();
			}
		});
		assert.deepEqual(
			lines.map(({ path, status, rejection }) => [path, status, rejection]),
			[[HOSTILE_PATH, 200, undefined], ...['', '/', ''].map((path) => [path, 400, 'bad-request'])],
		);
		const [line, ...more] = await answered(1, async () => {
			await using h2 = await h2Connect(proxy);
			await h2.request({ path: `${HOSTILE_PATH}?${HOSTILE_PATH}`, headers: { 'x-hostile': '"},{"\xff' } });
		});
		assert.deepEqual([line!.path, more], [HOSTILE_PATH, []]);
	});

	test('has nothing in it that is none: no second line, no raw control character, no other shape', () => {
		assert.deepEqual(proxy.strayLines, []);
		for (const { timestamp, level, target, message } of proxy.logs) {
			assert.match(timestamp, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
			assert.ok(['error', 'warn', 'info', 'debug'].includes(level), level);
			assert.match(target, /^proxy(::\w+)*$/);
			assert.notEqual(message, 'forged');
		}
		assert.equal(proxy.stderr, '');
	});

	test('the log at RUST_LOG=debug never shows a token, a key, a header or a query', async () => {
		const SECRET = 'hunter2-hunter2';
		const tokens = [pki.token('somebody'), pki.token('somebody', { nonce: SECRET }), `${pki.token('somebody')}x`];
		const expired = pki.token('somebody', { exp: 1 });
		const attempts = PROTOCOLS.flatMap((protocol) => [
			...[...tokens, expired, SECRET].map((token) => () => request(protocol, proxy, { token })),
			() => request(protocol, proxy, { path: `/?token=${tokens[0]}&password=${SECRET}` }),
			() => request(protocol, proxy, { token: null, headers: { authorization: `Basic ${SECRET}` } }),
			() => request(protocol, proxy, { headers: { cookie: SECRET, 'x-api-key': SECRET } }),
			() =>
				request(protocol, proxy, {
					headers: [
						['authorization', `Bearer ${tokens[0]}`],
						['authorization', SECRET],
					],
				}),
		]);
		await answered(attempts.length, async () => {
			for (const attempt of attempts) await attempt();
		});
		await proxy.reload();
		proxy.writeConfig({ tls: { key_path: pki.writeFile('secret.key', `-----BEGIN PRIVATE KEY-----\n${SECRET}\n`) } });
		await proxy.reload();
		const output = JSON.stringify(proxy.logs) + proxy.strayLines.join('\n') + proxy.stderr;
		assert.ok(!output.includes(SECRET));
		assert.doesNotMatch(output, /-----BEGIN|Bearer/);
		// A token is three long words; its parts are as telling as the whole.
		for (const part of [...tokens, expired].flatMap((token) => token.split('.')))
			assert.ok(!output.includes(part), part);
		for (const line of pki.server.keyPem.split('\n').slice(1, -2)) assert.ok(!output.includes(line));
	});
});

describe('RUST_LOG', { concurrency: 4 }, () => {
	/** Every level and target of the lines that a start, a request, a reload and an end bring. */
	async function logged(rustLog: string): Promise<LogLine[]> {
		const [port, metricsPort] = [Number(await freePort()), Number(await freePort())];
		await using proxy = await spawnProxy({
			config: { tenant_rps: 0 },
			routes: [{ prefix: '/', upstream: upstream.url }],
			env: { RUST_LOG: rustLog },
			args: ['--bind', `127.0.0.1:${port}`, '--metrics-bind', `127.0.0.1:${metricsPort}`],
		});
		const answer = () =>
			request('h1', { port }).then(
				({ status }) => status === 200,
				() => false,
			);
		await until(answer, 'the proxy to serve');
		proxy.writeConfig('broken');
		proxy.signal('SIGUSR1');
		const failures = () =>
			fetch(`http://127.0.0.1:${metricsPort}/metrics`).then(
				async (response) => /reloads_total\{result="failure"\} 1/.test(await response.text()),
				() => false,
			);
		await until(failures, 'the reload');
		assert.equal(await proxy.stop(), 0);
		assert.deepEqual(proxy.strayLines, []);
		return proxy.logs;
	}

	/** Without the warning about an old Node. */
	const summary = (lines: LogLine[]) => {
		const others = lines.filter(({ message }) => !/^Node \d/.test(message));
		return [...new Set(others.map(({ level, target }) => `${level} ${target}`))].sort();
	};

	test('takes levels by target, on the main thread and on the workers', async () => {
		assert.deepEqual(summary(await logged('off,proxy::request=debug,proxy::health=info')), [
			'debug proxy::request',
			'info proxy::health',
		]);
	});

	test('a mistake in RUST_LOG causes a warning, and the proxy still logs', async () => {
		const lines = await logged('imfo');
		const [warning] = lines;
		assert.deepEqual([warning!.level, warning!.message.includes('"imfo"')], ['warn', true]);
		assert.ok(lines.some(({ message }) => message === 'ready'));
	});
});

describe('--log-format pretty', { concurrency: 3 }, () => {
	const PRETTY = ['--log-format', 'pretty'];

	/** A proxy whose log is not JSON, from its ready line on. */
	async function pretty(options: ProxyOptions): Promise<ProxyProcess & { address: string }> {
		const proxy = await spawnProxy({ ...options, routes: [{ prefix: '/', upstream: upstream.url }], args: PRETTY });
		await until(
			() => proxy.strayLines.some((line) => line.includes('ready')),
			() => `the ready line${proxy.output()}`,
		);
		const line = proxy.strayLines.find((line) => line.includes('ready'))!;
		return Object.assign(proxy, { address: /[^_]bind=(\S+)/.exec(line)![1]! });
	}

	test('is lines for people, without colours where standard output is no terminal', async () => {
		await using proxy = await pretty({ env: { RUST_LOG: 'debug' } });
		const { address, strayLines } = proxy;
		const ready = strayLines.find((line) => line.includes('ready'))!;
		assert.match(ready, /^\d{4}-\d\d-\d\dT[\d:.]+Z INFO {2}proxy: ready bind=127\.0\.0\.1:\d+ metrics_bind=/);
		using raw = await h1Raw({ port: Number(address.split(':')[1]) });
		raw.send(
			`GET ${HOSTILE_PATH} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${pki.token(HOSTILE_SUB)}\r\n\r\n`,
		);
		await raw.readResponse();
		await until(() => strayLines.some((line) => line.includes(ANSWERED)), 'the line of the request');
		for (const line of strayLines) {
			assert.match(line, /^\d{4}-\d\d-\d\dT[\d:.]+Z (ERROR|WARN |INFO |DEBUG) proxy/, 'a forged line');
			assert.match(line, /^[\x20-\x7e\xa0-\u2027\u2030-\uffff]*$/, 'control characters');
		}
		assert.deepEqual(proxy.logs, []);
	});

	// util-linux has it, and that is on every Debian.
	const terminal = ['bash', '-c', 'exec script -qec "$(printf "%q " "$@")" /dev/null', '-'];
	test('has colours on a terminal', async (t) => {
		if (process.platform !== 'linux') return t.skip('script(1) of util-linux');
		await using proxy = await pretty({ launcher: terminal });
		// SIGKILL ends only script(1), and the closed terminal makes the proxy reload. So the process group is ended by its number.
		const group = Number.parseInt(readFileSync(`/proc/${proxy.pid}/task/${proxy.pid}/children`, 'utf8'), 10);
		t.after(() => process.kill(-group, 'SIGKILL'));
		assert.ok(proxy.strayLines.some((line) => line.includes('\x1b[')));
	});
});

describe('the reader of the log', () => {
	test('may go: the proxy serves, reloads and drains on', async () => {
		await using proxy = await start('debug');
		proxy.ignoreLog(true);
		for (const protocol of PROTOCOLS) assert.equal((await request(protocol, proxy)).status, 200);
		proxy.signal('SIGUSR1');
		await until(async () => (await proxy.metric('proxy_reloads_total')) === 1, 'the reload');
		assert.equal(await proxy.stop(), 0);
		assert.equal(proxy.stderr, '');
	});
});
