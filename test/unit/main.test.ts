import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { type AddressInfo, createServer, type Server } from 'node:net';
import { after, before, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { renderConfig } from '../../src/cli/demo/config-file.ts';
import { type TestPki, testPki } from '../fixtures/pki.ts';
import { HAS_PROC, handlesSignal, listeningPorts } from '../fixtures/proc.ts';
import { sampleSum } from '../fixtures/prometheus.ts';
import { until } from '../fixtures/wait.ts';
import { ProxyProcess } from './control/fixtures/proxy-process.ts';

const MAIN = fileURLToPath(new URL('../../src/main.ts', import.meta.url));
const LOCAL = ['--bind', '127.0.0.1:0', '--metrics-bind', '127.0.0.1:0', '--workers', '1'];

let pki: TestPki;
/** Accepts and says nothing, so that a start waits for its verdict for 2 s. */
let silent: Server;
let configPath: string;
let slowConfigPath: string;

before(async () => {
	pki = await testPki();
	silent = createServer((socket) => socket.on('error', () => {})).listen(0, '127.0.0.1');
	await once(silent, 'listening');
	const { port } = silent.address() as AddressInfo;
	const tls = { cert_path: pki.server.certPath, key_path: pki.server.keyPath, client_ca_path: pki.caPath };
	const jwt = { jwks_path: pki.publicKeyPath };
	const routes = [{ prefix: '/', upstream: `http://127.0.0.1:${port}` }];
	configPath = pki.writeFile('main.toml', renderConfig({ tls, jwt, routes: [] }));
	slowConfigPath = pki.writeFile('main-slow.toml', renderConfig({ tls, jwt, routes }));
});
after(() => silent.close());

describe('the command', () => {
	test('--version names version, body mode and Node', async () => {
		using command = new ProxyProcess([MAIN, '--version']);
		assert.equal(await command.exited, 0);
		const { version } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8'));
		assert.equal(command.stdout, `proxy ${version} (collected bodies, Node ${process.version})\n`);
	});

	test('--version names the streaming mode where that was chosen', async () => {
		using command = new ProxyProcess(['-C', 'boxed_body', MAIN, '--version']);
		assert.equal(await command.exited, 0);
		assert.match(command.stdout, / \(streaming bodies, Node /);
	});

	test('--help goes to standard output, with 0', async () => {
		using command = new ProxyProcess([MAIN, '--help']);
		assert.equal(await command.exited, 0);
		assert.match(command.stdout, /--config/);
		assert.equal(command.stderr, '');
	});

	test('output that cannot be written is 1, with one line and no stack; a reader that has gone is none', {
		skip: !existsSync('/dev/full') && 'needs /dev/full',
	}, () => {
		const run = (words: string, to: string) =>
			spawnSync('sh', ['-c', `"$0" "$1" ${words} ${to}`, process.execPath, MAIN], { encoding: 'utf8' });
		for (const words of ['--version', '--help', 'help check', 'schema', 'completion bash']) {
			const { status, stderr } = run(words, '> /dev/full');
			assert.equal(stderr, 'proxy: standard output cannot be written (ENOSPC)\n', words);
			assert.equal(status, 1, words);
			assert.equal(run(words, '| true').stderr, '', words);
		}
	});

	test('a wrong flag is 2, with one line for each problem', async () => {
		using command = new ProxyProcess([MAIN, '--bogus', '--workers', 'none']);
		assert.equal(await command.exited, 2);
		assert.match(command.stderr, /^proxy: unknown option "--bogus"[^\n]*\nproxy: --workers: [^\n]*\n$/);
		assert.equal(command.stdout, '');
	});

	test('a configuration that cannot be used is 1, with all of its problems by line', async () => {
		const path = pki.writeFile('bad.toml', 'tenant_rps = -1\nbogus = 1\n');
		using command = new ProxyProcess([MAIN, '--config', path, ...LOCAL]);
		assert.equal(await command.exited, 1);
		const lines = command.stderr.trimEnd().split('\n');
		assert.ok(lines.length >= 3, command.stderr);
		for (const line of lines) assert.ok(line.startsWith(`proxy: ${path}`), line);
		assert.match(command.stderr, /:1: tenant_rps: /);
		assert.match(command.stderr, /:2: bogus: /);
	});

	test('a start that fails is 1, with one line and no stack', async () => {
		using command = new ProxyProcess([MAIN, '--config', configPath, '--bind', '192.0.2.1:8443', '--workers', '1']);
		assert.equal(await command.exited, 1);
		assert.match(command.stderr, /^proxy: cannot listen on 192\.0\.2\.1:8443 \(--bind\): [^\n]*\n$/);
	});
});

describe('signals during the start', () => {
	test('SIGTERM ends it at once, with 0', async () => {
		using command = new ProxyProcess([MAIN, '--config', slowConfigPath, ...LOCAL]);
		await once(silent, 'connection');
		command.signal('SIGTERM');
		assert.equal(await command.exited, 0);
		assert.deepEqual(
			command.logged.filter(({ message }) => message === 'ready'),
			[],
		);
	});

	test('SIGUSR1 is a reload once ready, however early it comes, and opens no inspector', async (t) => {
		if (!HAS_PROC) return t.skip('reads /proc');
		using command = new ProxyProcess([MAIN, '--config', configPath, ...LOCAL]);
		// The moment when Node would not die of it any more, long before a line of ours has run.
		await until(() => handlesSignal(command.pid, 10), 'the first handler of SIGUSR1');
		command.signal('SIGUSR1');
		await command.line('ready');
		await command.line('routing table reloaded');
		assert.equal(sampleSum(await command.metrics(), 'proxy_reloads_total', { result: 'success' }), 1);
		assert.equal(listeningPorts(command.pid).length, 2, 'TLS and metrics, and no inspector');
	});

	test('SIGUSR1 while waiting for the first verdicts is a reload once ready', async () => {
		using command = new ProxyProcess([MAIN, '--config', slowConfigPath, ...LOCAL]);
		await once(silent, 'connection');
		command.signal('SIGUSR1');
		await command.line('routing table reloaded');
		const messages = command.logged.map(({ message }) => message);
		assert.ok(messages.indexOf('ready') < messages.indexOf('mTLS config reloaded'));
		assert.equal(command.stderr, '', 'not even for a moment');
	});
});

describe('the running command', () => {
	test('drains on SIGTERM and on SIGINT, with 0', async () => {
		for (const signal of ['SIGTERM', 'SIGINT'] as const) {
			using command = new ProxyProcess([MAIN, '--config', configPath, ...LOCAL]);
			await command.line('ready');
			command.signal(signal);
			assert.equal(await command.exited, 0);
			assert.equal((await command.line('draining')).signal, signal);
		}
	});

	test('goes on when nobody reads its log any more', async () => {
		using command = new ProxyProcess([MAIN, '--config', configPath, ...LOCAL]);
		await command.line('ready');
		command.closeStdout();
		command.signal('SIGUSR1');
		const reloads = async () => sampleSum(await command.metrics(), 'proxy_reloads_total', { result: 'success' });
		await until(async () => (await reloads()) === 1, 'the reload whose log line nobody gets');
		command.signal('SIGTERM');
		assert.equal(await command.exited, 0);
		assert.equal(command.stderr, '');
	});
});
