import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { createPrivateKey, X509Certificate } from 'node:crypto';
import {
	existsSync,
	lstatSync,
	mkdirSync,
	mkdtempSync,
	readFileSync,
	rmSync,
	statSync,
	symlinkSync,
	writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { importSPKI, jwtVerify } from 'jose';
import { getStaticTOMLValue, parseTOML } from 'toml-eslint-parser';
import type { Stage } from '../../../packages/proxy/src/cli/demo/act.ts';
import { renderConfig } from '../../../packages/proxy/src/cli/demo/config-file.ts';
import { curlLines } from '../../../packages/proxy/src/cli/demo/curl-lines.ts';
import { type SampleUpstream, startSampleUpstream } from '../../../packages/proxy/src/cli/demo/sample-upstream.ts';
import { createScreen } from '../../../packages/proxy/src/cli/demo/screen.ts';
import { AUDIENCE, createWorkspace, ISSUER, type Workspace } from '../../../packages/proxy/src/cli/demo/workspace.ts';
import { loadConfig } from '../../../packages/proxy/src/config/load.ts';

describe('the configuration file of the demo and the tests', () => {
	it('is the TOML that was meant, whatever the strings hold', () => {
		const config = {
			tenant_rps: 5,
			health_interval_secs: 0.25,
			tls: { cert_path: 'a "b" \\ \t\x7f\u{1f600}', key_path: 'key', client_ca_path: 'ca' },
			jwt: { jwks_path: 'pub', issuer: 'iss' },
			limits: { max_header_bytes: 1024 },
			routes: [
				{ prefix: '/a', upstream: 'http://a:1' },
				{ prefix: '/b', upstream: 'http://b:1', cooldown_secs: 2 },
			],
		};
		assert.deepEqual(getStaticTOMLValue(parseTOML(renderConfig(config))), config);
	});

	it('leaves out what is undefined', () => {
		const tls = { cert_path: 'a', key_path: 'b', client_ca_path: 'c' };
		const text = renderConfig({ tls, jwt: { jwks_path: 'd', issuer: undefined }, routes: [] });
		assert.doesNotMatch(text, /issuer|undefined|limits/);
	});
});

describe('the folder of the demo', () => {
	const parent = mkdtempSync(join(tmpdir(), 'demo-'));
	const dir = join(parent, "it's new");
	const now = Date.now();
	let workspace: Workspace;
	before(async () => {
		workspace = await createWorkspace(dir, now);
	});
	after(() => rmSync(parent, { recursive: true }));

	it('belongs to its owner, and so do the keys and tokens in it', () => {
		assert.equal(statSync(dir).mode & 0o777, 0o700);
		for (const name of ['server.key', 'client.key', 'tenant-a.jwt', 'tenant-b.jwt']) {
			assert.equal(statSync(join(dir, name)).mode & 0o777, 0o600, name);
		}
	});

	it('holds a configuration that the proxy accepts', async () => {
		workspace.writeConfig([{ prefix: '/svc-a', upstream: 'http://127.0.0.1:1' }]);
		const config = await loadConfig(workspace.paths.config);
		assert.equal(config.tenantRps, 5);
		assert.deepEqual([config.jwt!.issuer, config.jwt!.audience], [ISSUER, AUDIENCE]);
		assert.equal(config.routes[0]?.cooldownMs, 1000);
	});

	it('holds tokens that verify with the key in it', async () => {
		const key = await importSPKI(readFileSync(join(dir, 'jwt.pub'), 'utf8'), 'RS256');
		for (const tenant of ['tenant-a', 'tenant-b'] as const) {
			const token = readFileSync(workspace.paths.token[tenant], 'utf8');
			const { payload } = await jwtVerify(token, key, { issuer: ISSUER, audience: AUDIENCE });
			assert.equal(payload.sub, tenant);
		}
	});

	it('gets a new server certificate with a matching key on renewal', async () => {
		const certificate = () => new X509Certificate(readFileSync(join(dir, 'server.crt')));
		const before = certificate();
		assert.equal(before.serialNumber, workspace.serverSerial());
		await workspace.renewServerCertificate();
		assert.notEqual(certificate().serialNumber, before.serialNumber);
		assert.equal(certificate().serialNumber, workspace.serverSerial());
		assert.equal(certificate().publicKey.equals(before.publicKey), false);
		assert.ok(certificate().checkPrivateKey(createPrivateKey(readFileSync(join(dir, 'server.key')))));
	});

	it('writes no key through a link that was left there, and makes an old file private', async () => {
		const victim = join(parent, 'victim');
		rmSync(join(dir, 'client.key'));
		symlinkSync(victim, join(dir, 'client.key'));
		rmSync(join(dir, 'server.key'));
		writeFileSync(join(dir, 'server.key'), 'old', { mode: 0o644 });
		await createWorkspace(dir, now);
		assert.equal(existsSync(victim), false);
		assert.ok(lstatSync(join(dir, 'client.key')).isFile());
		assert.equal(statSync(join(dir, 'server.key')).mode & 0o777, 0o600);
	});

	it('is refused if it has other files, and these stay as they are', async () => {
		const foreign = join(parent, 'foreign');
		mkdirSync(foreign);
		writeFileSync(join(foreign, 'server.key'), 'mine');
		await assert.rejects(
			createWorkspace(foreign, now),
			/^CommandError: --dir: .*foreign has files that are not from a demo/,
		);
		assert.equal(readFileSync(join(foreign, 'server.key'), 'utf8'), 'mine');
	});

	it('is named in the command lines so that a shell reads it back', async () => {
		const upstream = { authority: '127.0.0.1:1' } as SampleUpstream;
		const proxy = { pid: 123, port: 8443, metricsPort: 9090 } as Stage['proxy'];
		const upstreams = { a: upstream, b: upstream, c: [upstream, upstream], grpc: upstream } as const;
		const lines = curlLines({ workspace, proxy, upstreams });
		const script = `curl() { printf '%s\\n' "$@"; }\nkill() { :; }\n${lines}`;
		const words = execFileSync('sh', ['-ec', script], { encoding: 'utf8' }).split('\n');
		assert.ok(words.includes(join(dir, 'client.key')));
		const token = readFileSync(workspace.paths.token['tenant-b'], 'utf8');
		assert.ok(words.includes(`authorization: Bearer ${token}`));
		assert.ok(words.includes('https://localhost:8443/svc-a/%2e%2e/x'));
	});
});

describe('the sample upstream', () => {
	it('echoes its request, and fails and heals on request', async () => {
		const upstream = await startSampleUpstream('svc');
		try {
			const ask = async (path: string, init?: RequestInit) => {
				const response = await fetch(`http://${upstream.authority}${path}`, init);
				const body = (await response.json()) as Record<string, unknown>;
				return { ...body, status: response.status } as Record<string, unknown>;
			};
			const headers = { 'x-proxy-tenant': 't', 'x-forwarded-for': '192.0.2.1', 'x-forwarded-proto': 'https' };
			assert.deepEqual(await ask('/a?b', { method: 'PUT', body: 'x', headers }), {
				status: 200,
				upstream: 'svc',
				method: 'PUT',
				path: '/a?b',
				tenant: 't',
				'x-forwarded-for': '192.0.2.1',
				'x-forwarded-proto': 'https',
			});
			assert.equal((await ask('/health')).status, 200);
			upstream.fail();
			assert.equal((await ask('/health')).status, 503);
			assert.equal((await ask('/a')).status, 503);
			upstream.heal();
			assert.equal((await ask('/a')).status, 200);
			assert.equal((await ask('/_demo/fail', { method: 'POST' })).failing, true);
			assert.equal((await ask('/health')).status, 503);
			assert.equal((await ask('/_demo/heal', { method: 'POST' })).failing, false);
			assert.equal((await ask('/health')).status, 200);
		} finally {
			await upstream.close();
		}
	});
});

describe('the sample upstream that dies', () => {
	const get = async (authority: string, path: string) => (await fetch(`http://${authority}${path}`)).status;

	it('dies during the next request, and returns on the same port', async () => {
		const { authority, ...upstream } = await startSampleUpstream('svc');
		try {
			const death = upstream.die();
			assert.equal(await get(authority, '/health'), 200);
			await assert.rejects(get(authority, '/a'));
			await death;
			await assert.rejects(get(authority, '/health'));
			await upstream.revive();
			assert.equal(await get(authority, '/a'), 200);
		} finally {
			await upstream.close();
		}
	});

	it('can be closed after its death', async () => {
		const { authority, ...upstream } = await startSampleUpstream('svc');
		const death = upstream.die();
		await assert.rejects(get(authority, '/a'));
		await death;
		await upstream.close();
	});
});

describe('the screen of the demo', () => {
	const record = { time: new Date(0), level: 'info', target: 'proxy', message: 'ready' } as const;
	function shown(isTTY: boolean, noColor: string | undefined): string {
		let text = '';
		const screen = createScreen({ isTTY, write: (part) => (text += part) }, noColor);
		screen.heading('Heading');
		screen.outcome(true, 'this', '200');
		screen.outcome(false, 'that', '500');
		screen.record(record);
		screen.stray('stray');
		return text;
	}

	it('counts a line of the log that comes again', () => {
		let text = '';
		const screen = createScreen({ write: (part) => (text += part) }, undefined);
		for (const message of ['refused', 'refused', 'refused', 'ready', 'refused']) screen.record({ ...record, message });
		screen.text('end');
		const lines = ['| INFO  proxy: refused', '| … and 2 more', '| INFO  proxy: ready', '| INFO  proxy: refused', 'end'];
		assert.deepEqual(
			text.split('\n').map((line) => line.trim()),
			[...lines, ''],
		);
	});

	it('has colours only on a terminal, and none if they are declined', () => {
		assert.match(shown(true, undefined), /\x1b\[/);
		assert.match(shown(true, ''), /\x1b\[/);
		for (const plain of [shown(true, '1'), shown(false, undefined)]) {
			assert.doesNotMatch(plain, /\x1b/);
			assert.match(plain, /ok {3}this +200\n {2}FAIL that +500\n/);
			assert.match(plain, /\n {7}\| INFO {2}proxy: ready\n/);
		}
	});
});
