import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { type AddressInfo, createServer, type Server } from 'node:net';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { connectTls, PROTOCOLS, request } from '../fixtures/clients.ts';
import { freePort } from '../fixtures/free-port.ts';
import { temporaryFolder, testPki } from '../fixtures/pki.ts';
import { HAS_PROC, handlesSignal, listeningPorts } from '../fixtures/proc.ts';
import { BODY_MODE, type ProxyOptions, type ProxyProcess, spawnProxy, startProxy } from '../fixtures/proxy.ts';
import { startUpstream, type Upstream } from '../fixtures/upstream.ts';
import { until, within } from '../fixtures/wait.ts';

const VERSION: string = JSON.parse(
	readFileSync(new URL('../../packages/proxy/package.json', import.meta.url), 'utf8'),
).version;

const pki = await testPki();
let upstream: Upstream;
before(async () => {
	upstream = await startUpstream();
});
after(() => upstream.close());

/** The complete output of a process that exits without a signal. */
async function outcome(options: ProxyOptions) {
	await using proxy = new Ended(await spawnProxy({ workers: 1, ...options }));
	const code = await within(proxy.process.exited, () => `it to end${proxy.process.output()}`);
	const { logs, strayLines, stderr } = proxy.process;
	return { code, logs, stdout: strayLines.map((line) => `${line}\n`).join(''), stderr };
}

/** A process that exits without a signal. */
class Ended {
	readonly process: ProxyProcess;

	constructor(process: ProxyProcess) {
		this.process = process;
	}

	async [Symbol.asyncDispose](): Promise<void> {
		await this.process.kill();
	}
}

async function listen(options: { reusePort?: boolean } = {}): Promise<Server & AsyncDisposable & { port: number }> {
	const server = createServer().listen({ host: '127.0.0.1', port: 0, ...options });
	await once(server, 'listening');
	const { port } = server.address() as AddressInfo;
	return Object.assign(server, {
		port,
		[Symbol.asyncDispose]: async () => void (await new Promise((resolve) => server.close(resolve))),
	});
}

describe('the first line', () => {
	test('says addresses, workers, body mode and routes, and everything it says is true', async () => {
		await using proxy = await startProxy({
			workers: 3,
			routes: [
				{ prefix: '/', upstream: upstream.url },
				{ prefix: '/a', upstream: upstream.url, cooldown_secs: 7 },
			],
		});
		const ready = await proxy.ready();
		assert.match(ready.timestamp, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
		assert.deepEqual(
			{ ...ready, timestamp: '' },
			{
				timestamp: '',
				level: 'info',
				target: 'proxy',
				message: 'ready',
				bind: `127.0.0.1:${proxy.port}`,
				metrics_bind: `127.0.0.1:${proxy.metricsPort}`,
				workers: 3,
				body_mode: BODY_MODE,
				routes: [
					{ prefix: '/', upstream: upstream.authority },
					{ prefix: '/a', upstream: upstream.authority },
				],
				version: VERSION,
				generation: 1,
			},
		);
		assert.ok(proxy.port > 0 && proxy.metricsPort > 0, 'port 0 is no address that anybody could use');
		for (const protocol of PROTOCOLS) assert.equal((await request(protocol, proxy)).status, 200);
		assert.equal(await proxy.metric('proxy_workers'), 3);
		assert.equal(await proxy.metric('proxy_build_info', { version: VERSION, body_mode: BODY_MODE }), 1);
		assert.deepEqual(proxy.strayLines, []);
		assert.equal(proxy.stderr, '');
	});

	test('waits 2 s at most for an upstream that says nothing, which then has its breaker open', async () => {
		await using silent = await startUpstream({ health: (exchange) => exchange.stall() });
		const start = performance.now();
		await using proxy = await spawnProxy({
			// No request is let through to try the upstream while the test looks.
			config: { default_cooldown_secs: 60 },
			routes: [
				{ prefix: '/', upstream: upstream.url },
				{ prefix: '/silent', upstream: silent.url },
			],
		});
		await proxy.ready();
		assert.ok(performance.now() - start >= 1_900, 'it has not waited for the verdict');
		for (const protocol of PROTOCOLS) {
			assert.equal((await request(protocol, proxy)).status, 200);
			const { status, text } = await request(protocol, proxy, { path: '/silent' });
			assert.equal(`${status} ${text}`, '503 upstream unavailable');
		}
		assert.equal(silent.requests.length, 0);
	});
});

describe('the command line', { concurrency: 2 }, () => {
	test('--version names version, body mode and Node', async () => {
		const { code, stdout, stderr } = await outcome({ args: ['--version'] });
		assert.equal(stdout, `proxy ${VERSION} (${BODY_MODE} bodies, Node ${process.version})\n`);
		assert.deepEqual([code, stderr], [0, '']);
	});
});

describe('a start that fails', { concurrency: 3 }, () => {
	/** Exit code and one line, with neither stack nor log, and nothing of any key. */
	async function fails(code: 1 | 2, line: RegExp, options: ProxyOptions): Promise<void> {
		const result = await outcome(options);
		assert.equal(result.code, code, result.stderr);
		assert.match(result.stderr, /^proxy: [^\n]*\n$/, 'one line');
		assert.match(result.stderr, line);
		assert.doesNotMatch(result.stderr, /PRIVATE KEY|\n\s+at /);
		assert.equal(result.stdout, '');
		assert.deepEqual(
			result.logs.filter(({ level, message }) => level !== 'warn' || message === 'ready'),
			[],
		);
	}

	test('names the address and its flag if a port is taken', async () => {
		await using taken = await listen();
		const address = `127.0.0.1:${taken.port}`;
		const line = (flag: string) => new RegExp(`cannot listen on ${address} \\(--${flag}\\): .*in use \\(EADDRINUSE\\)`);
		await fails(1, line('bind'), { workers: 2, args: ['--bind', address] });
		await fails(1, line('bind'), { workers: 1, args: ['--bind', address] });
		await fails(1, line('metrics-bind'), { args: ['--metrics-bind', address] });
	});

	test('shares no port with another instance, though both share theirs among their workers', async () => {
		await using first = await startProxy({ routes: [{ prefix: '/', upstream: upstream.url }] });
		const line = /cannot listen on 127\.0\.0\.1:\d+ \(--bind\): .*in use/;
		await fails(1, line, { workers: 2, args: ['--bind', `127.0.0.1:${first.port}`] });
		await fails(1, line, { workers: 1, args: ['--bind', `127.0.0.1:${first.port}`] });
		for (let i = 0; i < 8; i++) assert.equal((await request('h1', first)).status, 200, 'the first one goes on');
	});

	test('shares no port with a stranger that would let it', async (t) => {
		if (process.platform !== 'linux') return t.skip('reusePort');
		await using stranger = await listen({ reusePort: true });
		await fails(1, /in use/, { workers: 2, args: ['--bind', `127.0.0.1:${stranger.port}`] });
	});

	test('is wrong usage with an unknown flag and with a wrong variable, and names them', async () => {
		await fails(2, /unknown option "--bogus"/, { args: ['--bogus'] });
		await fails(2, /PROXY_BIND: must be HOST:PORT/, { flags: false, env: { PROXY_BIND: 'here' } });
	});
});

describe('a signal during the start', { concurrency: 2 }, () => {
	/** A start that takes as long as the test likes. */
	async function held() {
		const gate = Promise.withResolvers<void>();
		const upstream = await startUpstream({
			health: async (exchange) => {
				await gate.promise;
				exchange.respond();
			},
		});
		const proxy = await spawnProxy({ routes: [{ prefix: '/', upstream: upstream.url }] });
		await until(() => upstream.healthProbes > 0, 'the probe');
		const end = async () => {
			await proxy.kill();
			await upstream.stop();
		};
		return { proxy, release: gate.resolve, [Symbol.asyncDispose]: end };
	}

	test('SIGTERM ends it at once, with 0', async () => {
		await using start = await held();
		const { proxy } = start;
		proxy.signal('SIGTERM');
		assert.equal(await within(proxy.exited, 'the end'), 0);
		const early = proxy.logs.filter(({ message, target }) => message === 'ready' || target === 'proxy::health');
		assert.deepEqual([proxy.stderr, early], ['', []], 'before the probe could have been given up');
	});

	/** A start whose first worker accepts connections, and whose second one waits for `release` before its first line. */
	async function halfStarted() {
		const gate = join(temporaryFolder('start'), 'released');
		const wait = `import { existsSync } from 'node:fs';
			import { threadName } from 'node:worker_threads';
			const never = new Int32Array(new SharedArrayBuffer(4));
			if (threadName === 'worker-1') while (!existsSync(${JSON.stringify(gate)})) Atomics.wait(never, 0, 0, 10);`;
		const preload = pki.writeFile('second-worker-waits.mjs', wait);
		const answered = Promise.withResolvers<void>();
		const upstream = await startUpstream({
			script: async (exchange) => {
				await Promise.race([answered.promise, exchange.closed]);
				exchange.respond({ body: 'in flight' });
			},
		});
		const port = Number(await freePort());
		const proxy = await spawnProxy({
			workers: 2,
			args: ['--bind', `127.0.0.1:${port}`],
			routes: [{ prefix: '/', upstream: upstream.url }],
			env: { NODE_OPTIONS: `--import=${preload}` },
		});
		const serves = () =>
			connectTls({ port }).then(
				(socket) => socket.destroy(),
				() => undefined,
			);
		// Its port is looked at for a moment, to see whether it is free, long before.
		const isUp = async () => listeningPorts(proxy.pid).includes(port) && (await serves()) !== undefined;
		await until(isUp, () => `the first worker${proxy.output()}`);
		const end = async () => {
			await proxy.kill();
			await upstream.stop();
		};
		const release = () => writeFileSync(gate, '');
		return { proxy, port, upstream, release, answer: answered.resolve, [Symbol.asyncDispose]: end };
	}
	const isReady = ({ logs }: ProxyProcess) => logs.some(({ message }) => message === 'ready');

	test('SIGTERM between the first and the last worker is a drain: what is in flight is answered', async (t) => {
		if (!HAS_PROC) return t.skip('reads /proc');
		await using start = await halfStarted();
		const { proxy, port, upstream, answer } = start;
		const answers = PROTOCOLS.map((protocol) => request(protocol, { port }));
		await upstream.request(answers.length);
		assert.equal(isReady(proxy), false);
		proxy.signal('SIGTERM');
		// The second worker has not begun, and is not waited for.
		assert.equal((await proxy.waitForLog('draining')).signal, 'SIGTERM');
		answer();
		for (const { status, text } of await Promise.all(answers)) assert.equal(`${status} ${text}`, '200 in flight');
		assert.equal(await within(proxy.exited, () => `the end of the drain${proxy.output()}`), 0);
		assert.equal(proxy.stderr, '');
	});

	// From the moment when Node no longer dies of it, long before a line of ours has run.
	for (const delayMs of [0, 100]) {
		test(`SIGUSR1 ${delayMs} ms after Node can take it opens no inspector and is a reload, once ready`, async (t) => {
			if (!HAS_PROC) return t.skip('reads /proc');
			await using proxy = await spawnProxy({
				routes: [{ prefix: '/', upstream: upstream.url }],
				// Another debugged program on this machine may have the usual port; then there is nothing to close.
				env: { NODE_OPTIONS: '--inspect-port=127.0.0.1:0' },
			});
			await until(() => handlesSignal(proxy.pid, SIGUSR1), 'the first handler of SIGUSR1');
			await sleep(delayMs);
			proxy.signal('SIGUSR1');
			await proxy.ready();
			await proxy.waitForLog('mTLS config reloaded');
			await proxy.waitForLog('routing table reloaded');
			assert.equal(await proxy.metric('proxy_reloads_total', { result: 'success' }), 1);
			const expected = [proxy.metricsPort, proxy.port, proxy.port].sort();
			assert.deepEqual(listeningPorts(proxy.pid).sort(), expected, 'one for metrics and one for each worker');
			assert.equal((await request('h1', proxy)).status, 200);
		});
	}

	// From our first statement on, long before anything is loaded that could read a file again.
	test('SIGHUP as soon as it can be taken ends nothing and is a reload, once ready', async (t) => {
		if (!HAS_PROC) return t.skip('reads /proc');
		await using proxy = await spawnProxy({ routes: [{ prefix: '/', upstream: upstream.url }] });
		await until(() => handlesSignal(proxy.pid, SIGHUP), 'the handler of SIGHUP');
		proxy.signal('SIGHUP');
		await proxy.ready();
		await proxy.waitForLog('routing table reloaded');
		assert.equal((await proxy.waitForLog('reading the files again')).signal, 'SIGHUP');
		assert.equal(await proxy.metric('proxy_reloads_total', { result: 'success' }), 1);
		assert.equal((await request('h1', proxy)).status, 200);
	});

	test('an inspector that was asked for stays', async () => {
		await using proxy = await startProxy({ env: { NODE_OPTIONS: '--inspect=127.0.0.1:0' } });
		const port = Number(/ws:\/\/127\.0\.0\.1:(\d+)/.exec(proxy.stderr)?.[1]);
		assert.ok(port > 0, proxy.stderr);
		const { tls } = await proxy.reload();
		assert.equal(tls.message, 'mTLS config reloaded');
		assert.equal((await fetch(`http://127.0.0.1:${port}/json/version`)).status, 200);
	});
});

const SIGHUP = 1;
const SIGUSR1 = 10;
