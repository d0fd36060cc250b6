import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { chmodSync } from 'node:fs';
import { join } from 'node:path';
import { before, describe, test } from 'node:test';
import { type CheckResult, runCheck } from '../../../packages/proxy/src/cli/check.ts';
import { COMMANDS } from '../../../packages/proxy/src/cli/commands.ts';
import { type ConfigTables, renderConfig } from '../../../packages/proxy/src/cli/demo/config-file.ts';
import { type TestPki, testPki } from '../../fixtures/pki.ts';
import { Program } from '../../fixtures/program.ts';
import { BODY_MODE } from '../../fixtures/proxy.ts';

const MAIN = join(import.meta.dirname, '../../../packages/proxy/src/main.ts');
const LISTENERS = { bind: { host: '0.0.0.0', port: 8443 }, metricsBind: { host: '127.0.0.1', port: 9090 } };
const ROUTES = [{ prefix: '/', upstream: 'http://127.0.0.1:9' }];

let pki: TestPki;
before(async () => {
	pki = await testPki();
});

function write(name: string, tables: Partial<ConfigTables> = {}): string {
	const tls = { cert_path: pki.server.certPath, key_path: pki.server.keyPath, client_ca_path: pki.caPath };
	const jwt = { jwks_path: pki.publicKeyPath, issuer: 'i', audience: 'a' };
	const breaker = { tenants: 2 };
	return pki.writeFile(name, renderConfig({ tls, jwt, breaker, routes: ROUTES, ...tables }));
}

/** Exit code and output, without what depends on the machine. */
async function check(
	config: string,
	{ json = false, rustLog = 'info', env = {}, workers = 1, forceWorkers = false } = {},
) {
	let output = '';
	const print = (text: string) => {
		output += text;
	};
	const code = await runCheck(
		{ config, workers, forceWorkers, ...LISTENERS, rustLog, json },
		{ env, print, cores: 2, commands: COMMANDS },
	);
	return { code, output: output.replaceAll(config, 'config.toml').replaceAll(pki.dir, 'pki') };
}

/** Node's own version may be one that the start warns of. */
const ofNode = ({ message }: { readonly message: string }) => /^Node \d/.test(message);

describe('the check', () => {
	test('reports nothing for a valid file, and exits with 0', async () => {
		const { code, output } = await check(write('right.toml'));
		assert.equal(code, 0);
		assert.match(output.replace(/^warning: Node .*\n/, ''), /^config\.toml: ok \(0 errors, [01] warnings?\)\n$/);
	});

	test('advises against a breaker that one tenant can open, a route to the proxy itself, and a key that others can read', async () => {
		const routes = [
			{ prefix: '/', upstream: 'http://127.0.0.1:9' },
			{ prefix: '/a', upstream: 'https://localhost:8443' },
			{ prefix: '/b', upstream: 'http://127.0.0.1:9090' },
		];
		const { keyPath, certPath } = await pki.issueServer('open-key');
		chmodSync(keyPath, 0o644);
		const tls = { cert_path: certPath, key_path: keyPath, client_ca_path: pki.caPath };
		const { code, output } = await check(write('advice.toml', { routes, tls, breaker: {} }));
		assert.equal(code, 0);
		assert.match(output, /breaker.tenants: is 1, as is breaker.failures: one failed request of one tenant closes "\/"/);
		assert.match(output, /routes\[1\]\.upstream: localhost:8443 is the proxy itself \(--bind\); name the service/);
		assert.match(output, /routes\[2\]\.upstream: 127\.0\.0\.1:9090 is the proxy itself \(--metrics-bind\)/);
		assert.match(output, /tls\.key_path \(pki\/open-key\.key\): can be read by every user of this machine; chmod 600/);
	});

	const STREAMING = BODY_MODE === 'streaming';

	test('advises that gRPC streams need the other build, at routes that seem to lead to gRPC', async () => {
		const routes = [
			{ prefix: '/a', upstream: 'http://127.0.0.1:9' },
			{ prefix: '/b', upstream: 'h2c://127.0.0.1:7' },
			{ prefix: '/c', upstream: 'http://127.0.0.1:8', health_grpc: 'a.B' },
		];
		const { output } = await check(write('grpc.toml', { routes }));
		const advised = Array.from(
			output.matchAll(/(routes\[\d\])\.upstream: .* streams need proxy-streaming/g),
			([, route]) => route,
		);
		assert.deepEqual(advised, STREAMING ? [] : ['routes[1]', 'routes[2]']);
	});

	test('advises against keys of streams that this build does not have, and against gRPC without trailers', async () => {
		const stream = { idle_timeout_secs: 120, end_streams_at_expiry: true };
		const routes = [
			{ prefix: '/a', upstream: 'http://127.0.0.1:9', ...stream, upstream_timeout_secs: 0 },
			{ prefix: '/b', upstream: 'http://127.0.0.1:8', idle_timeout_secs: 60, websocket: true, trailers: false },
			{ prefix: '/c', upstream: 'h2c://127.0.0.1:7', trailers: false, end_streams_at_expiry: false },
		];
		const { code, output } = await check(write('streams.toml', { routes }));
		const keys = (words: string) =>
			Array.from(output.matchAll(new RegExp(`^warning: \\S+ (\\S+): ${words}`, 'gm')), ([, key]) => key);
		assert.equal(code, 0);
		assert.deepEqual(
			keys('has no effect in this build'),
			STREAMING ? [] : Object.keys(stream).map((key) => `routes[0].${key}`),
		);
		assert.deepEqual(keys('is false, but a gRPC call'), ['routes[2].trailers']);
	});

	test('says nothing against keys of WebSockets and upstreams over HTTP/2 that are right', async () => {
		const websocket = {
			...{ websocket: true, websocket_messages_per_sec: 50, websocket_end_at_expiry: false },
			...{ idle_timeout_secs: 120 },
		};
		const routes = [
			{ prefix: '/a', upstream: 'http://127.0.0.1:9', ...websocket },
			{ prefix: '/b', upstream: 'api', trailers: false },
		];
		// Over TLS HTTP/2 is as likely to carry anything else.
		const upstreams = [{ name: 'api', addresses: ['127.0.0.1:8444'], protocol: 'h2', tls: { ca_path: pki.caPath } }];
		const { code, output } = await check(write('protocols.toml', { routes, upstreams }));
		assert.equal(code, 0);
		assert.doesNotMatch(output, /routes\[|upstreams\[/);
	});

	test('fails for an expired server certificate, with which a start goes on, and warns of one without a name', async () => {
		const { certPem, keyPem } = pki.clients.expired;
		const certPath = pki.writeFile('old.crt', certPem);
		const tls = { cert_path: certPath, key_path: pki.writeFile('old.key', keyPem), client_ca_path: pki.caPath };
		const { code, output } = await check(write('expired.toml', { tls }));
		assert.equal(code, 1);
		assert.match(
			output,
			/^error: config\.toml:\d+: tls\.cert_path \(pki\/old\.crt\): the leaf expired on .*; renew it$/m,
		);
		assert.match(output, /^warning: .*tls\.cert_path .*the leaf has no subject alternative name/m);
	});

	test('reports what the process lacks, apart from the file', async () => {
		const { code, output } = await check(write('many-workers.toml'), {
			json: true,
			workers: 100_000_000,
			forceWorkers: true,
		});
		const [error] = (JSON.parse(output) as CheckResult).errors;
		assert.equal(code, 1);
		assert.match(error!.message, /^the open-file limit is \d+, and with 100000000 workers the proxy needs/);
		assert.deepEqual([error!.file, error!.line, error!.key], [null, null, null]);
	});

	test('refuses more than 4 workers a core, unless they are forced', async () => {
		const of = async (workers: number, forceWorkers = false) =>
			(await check(write('workers.toml'), { workers, forceWorkers })).output.split('\n')[0];
		assert.equal(
			await of(9),
			'error: --workers: 9 are too many for 2 cores; at most 8 (4 a core), write auto for one per core, or add --force-workers',
		);
		for (const one of [await of(8), await of(9, true)]) assert.doesNotMatch(one!, /too many/);
	});

	test('names each error with its line, also those in files, and ends with 1', async () => {
		const { keyPath } = await pki.issueServer('stranger');
		const tls = { cert_path: pki.server.certPath, key_path: keyPath, client_ca_path: '/nowhere/ca.crt' };
		const { code, output } = await check(write('wrong.toml', { tls, tenant_rps: -1 }));
		assert.equal(code, 1);
		assert.deepEqual(output.split('\n'), [
			'error: config.toml:1: tenant_rps: must be a whole number of requests per second, at least 0 (got -1); set it to 0 or more, or leave it out for 1000',
			'error: config.toml:5: tls.key_path (pki/stranger.key): the key does not match the first certificate of tls.cert_path (pki/server.crt); give the key that this certificate was issued for',
			'error: config.toml:6: tls.client_ca_path (/nowhere/ca.crt): cannot be read: there is no such file',
			'config.toml: cannot be used (3 errors, 0 warnings)',
			'',
		]);
	});

	test('prints one JSON object of a fixed shape', async () => {
		const tls = { cert_path: pki.server.certPath, key_path: pki.server.keyPath, client_ca_path: pki.server.certPath };
		const routes = [{ prefix: '/users/{id}', upstream: 'http://127.0.0.1:9' }];
		const bad = await check(write('bad.toml', { tls, routes }), { json: true });
		assert.equal(bad.code, 1);
		assert.equal(bad.output.split('\n').length, 2);
		assert.deepEqual(Object.keys(JSON.parse(bad.output)), ['ok', 'errors', 'warnings']);
		const { ok, errors, warnings } = JSON.parse(bad.output) as CheckResult;
		assert.equal(ok, false);
		assert.deepEqual(errors, [
			{
				file: 'config.toml',
				line: 5,
				key: 'tls.client_ca_path',
				message:
					'pki/server.crt: contains no CA certificate (basicConstraints CA:TRUE); give the CA that issues the clients',
			},
		]);
		assert.deepEqual(
			warnings.map(({ file, line, key }) => ({ file, line, key })),
			[{ file: 'config.toml', line: 16, key: 'routes[0].prefix' }],
		);
		const absent = await check('/nowhere/config.toml', { json: true });
		assert.deepEqual(JSON.parse(absent.output), {
			ok: false,
			errors: [
				{
					file: 'config.toml',
					line: null,
					key: null,
					message:
						'cannot be read: there is no such file; name another file with --config or PROXY_CONFIG, or make one with proxy init',
				},
			],
			warnings: [],
		});
	});

	test('warns of the environment and of the process, as the start does', async () => {
		const limits = { max_connections: 1_000_000_000 };
		const env = { PROXY_BNID: 'secret' };
		const { code, output } = await check(write('env.toml', { limits }), {
			json: true,
			rustLog: 'proxy::helth=debug',
			env,
		});
		const { ok, warnings } = JSON.parse(output) as CheckResult;
		assert.deepEqual([code, ok], [0, true]);
		const nowhere = { file: null, line: null };
		assert.deepEqual(
			warnings
				.filter((one) => !ofNode(one))
				.map(({ message, ...rest }) => ({ ...rest, message: message.slice(0, 30) })),
			[
				{ ...nowhere, key: 'RUST_LOG', message: 'nothing logs to "proxy::helth"' },
				{ ...nowhere, key: 'PROXY_BNID', message: 'is not a variable of the proxy' },
				{ ...nowhere, key: null, message: 'limits.max_connections is 1000' },
			],
		);
		assert.doesNotMatch(output, /secret/);
	});
});

describe('the command', () => {
	/** Makes opening a socket or starting a thread fail. */
	const trap = `data:text/javascript,${encodeURIComponent(`
		import net from 'node:net';
		import threads from 'node:worker_threads';
		import { syncBuiltinESMExports } from 'node:module';
		const trap = (what) => function () { process._rawDebug(what); process.exit(99); };
		net.Server.prototype.listen = trap('a listener');
		net.Socket.prototype.connect = trap('a connection');
		threads.Worker = trap('a thread');
		syncBuiltinESMExports();
	`)}`;

	test('opens no socket, starts no thread, and ends with 0', async () => {
		await using command = new Program([
			process.execPath,
			'--import',
			trap,
			MAIN,
			'check',
			'--config',
			write('main.toml'),
		]);
		assert.equal(await command.ended(), 0, command.stderr);
		assert.match(command.stdout, /main\.toml: ok \(0 errors, /);
		await using start = new Program([process.execPath, '--import', trap, MAIN, '--config', write('main.toml')]);
		assert.equal(await start.ended(), 99, 'the trap works');
	});

	test('ends with 1 if there are errors, and with 2 if it is called wrongly', async () => {
		await using wrong = new Program([process.execPath, MAIN, 'check', '--config', '/nowhere/config.toml', '--json']);
		assert.equal(await wrong.ended(), 1);
		assert.equal(JSON.parse(wrong.stdout).ok, false, 'one line of JSON');
		await using misused = new Program([process.execPath, MAIN, 'check', '--jsno']);
		assert.equal(await misused.ended(), 2);
		assert.match(misused.stderr, /^proxy: unknown option "--jsno"; did you mean --json\?\n$/);
	});

	test('check and the start end at once at a FIFO, with one line', { skip: process.platform === 'win32' }, async () => {
		const fifo = join(pki.dir, 'start.fifo');
		execFileSync('mkfifo', [fifo]);
		const tls = { cert_path: pki.server.certPath, key_path: fifo, client_ca_path: pki.caPath };
		const config = write('fifo.toml', { tls });
		const line = /fifo\.toml:4: tls\.key_path \(\S+start\.fifo\): cannot be read: it is a FIFO, not a regular file\n/;
		await using check = new Program([process.execPath, MAIN, 'check', '--config', config]);
		assert.equal(await check.ended(), 1);
		assert.match(check.stdout, line);
		await using start = new Program([process.execPath, MAIN, '--config', config]);
		assert.equal(await start.ended(), 1);
		assert.match(start.stderr, new RegExp(`^proxy: \\S+${line.source}$`));
		await using ofFifo = new Program([process.execPath, MAIN, '--config', fifo]);
		assert.equal(await ofFifo.ended(), 1);
		assert.match(ofFifo.stderr, /^proxy: \S+start\.fifo: cannot be read: it is a FIFO, not a regular file; [^\n]*\n$/);
	});
});
