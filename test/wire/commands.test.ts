import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { PROTOCOLS, request } from '../fixtures/clients.ts';
import { temporaryFolder } from '../fixtures/pki.ts';
import { neutralEnvironment, Program } from '../fixtures/program.ts';
import { commandLine, type ProxyProcess, spawnProxy, startProxy } from '../fixtures/proxy.ts';
import { startUpstream } from '../fixtures/upstream.ts';
import { until, within } from '../fixtures/wait.ts';

const dir = temporaryFolder('commands');

interface Outcome {
	readonly code: number | NodeJS.Signals;
	readonly stdout: string;
	readonly stderr: string;
}

/** Runs another command of the same program to its end. */
async function proxyCommand(args: readonly string[], env: Readonly<Record<string, string>> = {}): Promise<Outcome> {
	const command = new Program([...commandLine(), ...args], { env: { ...neutralEnvironment(), ...env } });
	const code = await command.ended();
	return { code, stdout: command.stdout, stderr: command.stderr };
}

const metricsOf = (proxy: ProxyProcess) => ['--metrics', `127.0.0.1:${proxy.metricsPort}`];

describe('the commands to a running proxy', () => {
	test('find it by its metrics address: healthcheck, reload and drain', async () => {
		await using upstream = await startUpstream();
		await using proxy = await startProxy({ routes: [{ prefix: '/', upstream: upstream.url }] });
		const metrics = metricsOf(proxy);

		assert.deepEqual(await proxyCommand(['healthcheck', ...metrics]), { code: 0, stdout: 'ready\n', stderr: '' });
		const live = await proxyCommand(['healthcheck', '--live'], { PROXY_METRICS_BIND: `0.0.0.0:${proxy.metricsPort}` });
		assert.deepEqual(live, { code: 0, stdout: 'alive\n', stderr: '' });

		proxy.writeConfig({ routes: [{ prefix: '/new', upstream: upstream.url }] });
		const reloaded = await proxyCommand(['reload', ...metrics]);
		assert.match(reloaded.stdout, /^reloaded: generation 2 is in force \(process \d+, \d+\.\d s\)\n$/);
		assert.deepEqual([reloaded.code, reloaded.stderr], [0, '']);
		for (const protocol of PROTOCOLS) {
			assert.equal((await request(protocol, proxy, { path: '/new' })).status, 200);
			assert.equal((await request(protocol, proxy, { path: '/' })).status, 404);
		}

		proxy.writeConfig('bogus = 1\n');
		const failed = await proxyCommand(['reload', ...metrics]);
		assert.match(
			failed.stdout,
			/^\S+config\.toml:1: bogus: unknown key; .*\n(.*\n)+the reload failed, and the parts that failed/,
		);
		assert.equal(failed.code, 1);
		assert.equal((await request('h1', proxy, { path: '/new' })).status, 200, 'the old table goes on');

		const routes = [{ prefix: '/new', upstream: upstream.url }];
		proxy.writeConfig({ routes, limits: { max_header_bytes: 1000 } });
		const vain = await proxyCommand(['reload', ...metrics]);
		assert.match(
			vain.stdout,
			/^needs a restart: limits\.max_header_bytes \(\S+config\.toml:\d+\)\nreloaded: generation 3 /,
		);
		assert.equal(vain.code, 3);
		const page = await (await fetch(`http://127.0.0.1:${proxy.metricsPort}/`)).text();
		assert.match(page, /A setting needs a restart: limits\.max_header_bytes/);

		const drained = await proxyCommand(['drain', '--wait', ...metrics]);
		assert.match(drained.stdout, new RegExp(`^process ${proxy.pid} has ended after \\d+\\.\\d s\\n$`));
		assert.equal(drained.code, 0);
		assert.equal(await proxy.stop(), 0);

		const gone = await proxyCommand(['healthcheck', ...metrics]);
		assert.match(gone.stdout, /^127\.0\.0\.1:\d+: nothing listens there \(ECONNREFUSED\)[^\n]*\n$/);
		assert.equal(gone.code, 1);
	});

	test('find it by its pid file, which is there while it is ready', async () => {
		const path = join(dir, 'proxy.pid');
		// Left behind by a process that has gone: taken over.
		writeFileSync(path, '2147483646\n');
		await using upstream = await startUpstream();
		await using proxy = await spawnProxy({
			routes: [{ prefix: '/', upstream: upstream.url }],
			env: { PROXY_PID_FILE: path },
		});
		await proxy.ready();
		await until(() => readFileSync(path, 'utf8') === `${proxy.pid}\n`, 'the pid file');
		assert.equal(statSync(path).mode & 0o777, 0o644 & ~process.umask());
		assert.deepEqual(readdirSync(dir), ['proxy.pid'], 'no draft is left');

		const second = await spawnProxy({ args: ['--pid-file', path] });
		assert.equal(await within(second.exited, 'the second one'), 1);
		assert.match(
			second.stderr,
			new RegExp(`^proxy: --pid-file: "[^"]+" belongs to process ${proxy.pid}, a running proxy;`),
		);
		assert.equal(readFileSync(path, 'utf8'), `${proxy.pid}\n`);

		const reloaded = await proxyCommand(['reload', '--pid-file', path, ...metricsOf(proxy)]);
		assert.match(reloaded.stdout, /^reloaded: generation 2 /);
		const blind = await proxyCommand(['reload', '--pid-file', path, '--metrics', '127.0.0.1:1']);
		assert.match(blind.stderr, /^proxy: nothing was reloaded, because the outcome could not be read: .*--no-wait\n$/);
		assert.equal(blind.code, 1);
		assert.equal(await proxy.metric('proxy_reloads_total', { result: 'success' }), 1);

		// Two drains are one: the second would otherwise cut the first one short.
		const held = Promise.withResolvers<void>();
		await using slow = await startUpstream({ script: (exchange) => held.promise.then(() => exchange.respond()) });
		proxy.writeConfig({ routes: [{ prefix: '/', upstream: slow.url }] });
		await proxy.reload();
		const inFlight = request('h1', proxy);
		await slow.request(1);
		const target = ['--pid-file', path, ...metricsOf(proxy)];
		assert.match((await proxyCommand(['drain', ...target])).stdout, /^process \d+ was told to drain\n$/);
		assert.match((await proxyCommand(['drain', ...target])).stdout, /^process \d+ is draining already\n$/);
		const health = await proxyCommand(['healthcheck', ...metricsOf(proxy)]);
		assert.deepEqual(health, { code: 1, stdout: 'not ready: shutting down\n', stderr: '' });
		const impatient = await proxyCommand(['drain', '--wait', '--timeout', '100ms', ...target]);
		assert.match(impatient.stderr, /^proxy: process \d+ is still draining after 0\.1 s; see its log/);
		assert.equal(impatient.code, 1);
		held.resolve();
		assert.equal((await inFlight).status, 200);
		assert.equal(await within(proxy.exited, 'the end of the drain'), 0);
		assert.equal(existsSync(path), false, 'the file goes with the process');
		assert.match((await proxyCommand(['drain', ...target])).stderr, /^proxy: [^\n]*proxy\.pid: does not exist;/);
		await proxy.stop();
	});
});
