import assert from 'node:assert/strict';
import { createPublicKey, X509Certificate } from 'node:crypto';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, before, describe, it, test } from 'node:test';
import { jwtVerify } from 'jose';
import { CommandError, Malformed } from '../../../../packages/proxy/src/cli/command.ts';
import {
	parseClaim,
	parseClientName,
	parseSan,
	parseServerName,
	parseTtl,
	token,
} from '../../../../packages/proxy/src/cli/commands/set-up.ts';
import { createClient } from '../../../../packages/proxy/src/cli/development/client.ts';
import { type Initialised, initialise } from '../../../../packages/proxy/src/cli/development/init.ts';
import { runInit } from '../../../../packages/proxy/src/cli/development/run.ts';
import { makeToken, partiesOf } from '../../../../packages/proxy/src/cli/development/token.ts';
import { parseConfig, readConfig } from '../../../../packages/proxy/src/config/load.ts';
import { KEYS } from '../../../../packages/proxy/src/config/schema.ts';
import { inspect } from '../../../../packages/proxy/src/control/files/inspection.ts';

const NOW = Date.now();

describe('files for development', () => {
	let root: string;
	let made: Initialised;
	let alice: string;

	before(async () => {
		root = mkdtempSync(join(tmpdir(), 'mtls-edge-proxy-init-'));
		made = await initialise({ dir: join(root, 'edge'), hosts: ['edge.test'], upstream: 'http://127.0.0.1:3000' }, NOW);
		alice = join(root, 'edge/dev/alice.crt');
	});
	after(() => rmSync(root, { recursive: true }));

	const certificate = (path: string) => new X509Certificate(readFileSync(path));

	describe('proxy init', () => {
		it('makes a configuration that proxy check accepts without a warning', async () => {
			const home = process.cwd();
			try {
				process.chdir(join(root, 'edge'));
				const { problems, warnings } = await inspect('config.toml', new Date(NOW));
				assert.deepEqual({ problems, warnings }, { problems: [], warnings: [] });
			} finally {
				process.chdir(home);
			}
		});

		it('makes a configuration in which one tenant cannot open a breaker, and explains it', () => {
			const text = readFileSync(join(root, 'edge/config.toml'), 'utf8');
			assert.deepEqual(
				parseConfig(text, 'config.toml').routes.map(({ opening }) => opening),
				[{ failures: 1, tenants: 2 }],
			);
			assert.match(text, /^# .*tenant.*\n(?:# .*\n)*tenants = 2$/m);
		});

		it('shows the default of every key that has one, as a comment that can be taken away', async () => {
			const text = readFileSync(join(root, 'edge/config.toml'), 'utf8');
			const shown = text.replaceAll(/^# (\w+ = .)/gm, '$1');
			const without = { lines: undefined, path: undefined };
			const [all, none] = [shown, text].map((one) => ({ ...parseConfig(one, 'config.toml'), ...without }));
			assert.notEqual(shown, text);
			assert.deepEqual(all, none);
			const keys = [...KEYS].flatMap(([table, names]) =>
				['issuers', 'limiter', 'tenants', 'trace', 'upstreams', 'upstreams.tls'].includes(table) ? [] : names,
			);
			for (const key of keys) assert.match(text, new RegExp(`^(# )?(${key} =|\\[+${key}\\]+)`, 'm'));
		});

		it('makes certificates that chain to its CA, the server for this machine and for --host', () => {
			const ca = certificate(join(root, 'edge/dev/ca.crt'));
			const server = certificate(join(root, 'edge/dev/server.crt'));
			assert.ok(server.verify(ca.publicKey) && certificate(alice).verify(ca.publicKey));
			assert.equal(server.checkIP('127.0.0.1'), '127.0.0.1');
			for (const host of ['localhost', 'edge.test']) assert.equal(server.checkHost(host), host);
		});

		it('names the CA as one for development', () => {
			assert.match(certificate(join(root, 'edge/dev/ca.crt')).subject, /development CA \(not for production\)/);
		});

		it('keeps keys for their owner', () => {
			for (const path of made.all.filter((name) => name.endsWith('.key')))
				assert.equal(statSync(path).mode & 0o777, 0o600);
			assert.equal(statSync(join(root, 'edge/dev')).mode & 0o777, 0o700);
		});

		it('overwrites nothing, and writes nothing if it would have to', async () => {
			const dir = join(root, 'other');
			// The last of its files: what was written before it is taken back.
			const key = join(dir, 'dev/issuer.key');
			mkdirSync(dirname(key), { recursive: true });
			writeFileSync(key, 'mine');
			await assert.rejects(
				initialise({ dir, hosts: [], upstream: 'http://127.0.0.1:3000' }, NOW),
				new CommandError(`${key}: already exists, and is not overwritten; move it away, or name another folder`),
			);
			assert.deepEqual([readdirSync(dir), readdirSync(join(dir, 'dev'))], [['dev'], ['issuer.key']]);
			assert.equal(readFileSync(key, 'utf8'), 'mine');
		});
	});

	test('proxy init ends with the commands to type, and with what the service must answer', async () => {
		const home = process.cwd();
		const work = mkdtempSync(join(root, 'work-'));
		let text = '';
		const print = (more: string) => {
			text += more;
		};
		try {
			process.chdir(work);
			const options = { dir: '-x y', hosts: [], upstream: 'http://127.0.0.1:3000' };
			assert.equal(await runInit(options, { print, env: {}, mainPath: '/opt/main.js' }), 0);
		} finally {
			process.chdir(home);
		}
		assert.match(text, /service at http:\/\/127\.0\.0\.1:3000 .* that answers GET \/health with a 2xx/);
		const commands = [...text.matchAll(/^ {2}((?:cd|node|curl) .*)$/gm)].map(([, command]) => command!);
		assert.deepEqual(commands.slice(0, 3), ["cd './-x y'", 'node /opt/main.js check', 'node /opt/main.js']);
		assert.match(commands[3]!, /^curl --cacert dev\/ca\.crt .*\$\(node \/opt\/main\.js token --sub acme\)/);
		assert.match(text, /The proxy runs until Ctrl-C: enter the last command in another terminal/);
	});

	describe('proxy pki client', () => {
		it('issues a certificate with names below the folder’s CA', async () => {
			const { cert, key } = await createClient(join(root, 'edge/dev'), 'web', ['spiffe://test/web', 'web.test'], NOW);
			const client = certificate(cert);
			assert.ok(client.verify(certificate(join(root, 'edge/dev/ca.crt')).publicKey));
			assert.equal(client.subject, 'CN=web');
			assert.equal(client.subjectAltName, 'URI:spiffe://test/web, DNS:web.test');
			assert.deepEqual(client.keyUsage, ['1.3.6.1.5.5.7.3.2']);
			assert.equal(statSync(key).mode & 0o777, 0o600);
		});

		it('reports a missing CA, and overwrites no client', async () => {
			await assert.rejects(
				createClient(join(root, 'none'), 'web', [], NOW),
				/none\/ca\.crt: .*there is no such file; `proxy init` creates it/,
			);
			await assert.rejects(createClient(join(root, 'edge/dev'), 'alice', [], NOW), /alice\.crt: already exists/);
		});

		it('refuses a CA with the key of another one', async () => {
			const dir = join(root, 'mixed');
			await initialise({ dir, hosts: [], upstream: 'http://127.0.0.1:3000' }, NOW);
			writeFileSync(join(dir, 'dev/ca.key'), readFileSync(join(root, 'edge/dev/ca.key')));
			await assert.rejects(createClient(join(dir, 'dev'), 'web', [], NOW), /ca\.key: does not belong to .*ca\.crt/);
		});

		for (const name of ['', '.', '../x', 'a/b', 'ca', 'server', 'issuer', 'x'.repeat(65)]) {
			it(`refuses the name ${JSON.stringify(name)}`, () => assert.throws(() => parseClientName(name), Malformed));
		}

		it('takes URIs and DNS names', () => {
			assert.deepEqual(['spiffe://a/b', 'dns:web.test'].map(parseSan), ['spiffe://a/b', 'web.test']);
			for (const wrong of ['web.test', 'dns:', 'dns:a b', 'spiffe://ä', ''])
				assert.throws(() => parseSan(wrong), Malformed, wrong);
		});

		it('does not take a prefix of OpenSSL for the scheme of a URI', () => {
			for (const wrong of ['URI:spiffe://a/b', 'IP:127.0.0.1', 'email:a@b.test', 'otherName:x', 'DNS:a_ b'])
				assert.throws(() => parseSan(wrong), /must be a URI or dns:NAME/, wrong);
		});
	});

	describe('proxy token', () => {
		const seconds = Math.floor(NOW / 1000);

		async function verified(token: string) {
			const key = createPublicKey(readFileSync(join(root, 'edge/dev/issuer.pub')));
			const expected = { issuer: 'https://issuer.development.invalid', audience: 'edge', currentDate: new Date(NOW) };
			return (await jwtVerify(token, key, expected)).payload;
		}
		const order = { sub: 'acme', claims: {}, ttlSeconds: 60 };
		async function make(change: object) {
			const { config } = await readConfig(join(root, 'edge/config.toml'));
			const key = readFileSync(join(root, 'edge/dev/issuer.key'), 'utf8');
			return makeToken({ ...order, ...change }, partiesOf(config!, undefined), key, seconds);
		}

		it('has what the configuration asks for', async () => {
			const { sub, iat, nbf, exp } = await verified(await make({}));
			assert.deepEqual({ sub, iat, nbf, exp }, { sub: 'acme', iat: seconds, nbf: seconds, exp: seconds + 60 });
		});

		it('takes claims, its own among them', async () => {
			const payload = await verified(await make({ claims: { rps: 5, exp: seconds + 700 } }));
			assert.deepEqual([payload.rps, payload.exp], [5, seconds + 700]);
		});

		it('is bound to a certificate', async () => {
			const payload = await verified(await make({ certificate: readFileSync(alice, 'utf8') }));
			const thumbprint = Buffer.from(certificate(alice).fingerprint256.replaceAll(':', ''), 'hex');
			assert.deepEqual(payload.cnf, { 'x5t#S256': thumbprint.toString('base64url') });
			await assert.rejects(make({ certificate: 'x' }), /--cert: contains no PEM certificate/);
		});

		it('accepts each claim once', () => {
			const problems = (...claims: string[]) =>
				token.conflicts!({ claims: claims.map(parseClaim) } as never).map((problem) => problem.split(';')[0]);
			assert.deepEqual(problems('aud=x', 'scope=y'), []);
			assert.deepEqual(problems('aud=x', 'scope=y', 'aud=z'), ['--claim: "aud" is given twice']);
		});

		it('needs a choice between several issuers', () => {
			const tables = ['a', 'b'].map(
				(name) =>
					`[[issuers]]\nissuer = "${name}"\naudience = ["x", "y"]\njwks_path = "k"\ntenant_prefix = "${name}:"\n`,
			);
			const tls = '[tls]\ncert_path = "c"\nkey_path = "k"\nclient_ca_path = "c"\n';
			const config = parseConfig(
				`${tls}${tables.join('')}[[routes]]\nprefix = "/"\nupstream = "http://127.0.0.1:1"\n`,
				'c.toml',
			);
			assert.throws(
				() => partiesOf(config, undefined),
				/c\.toml: has several issuers; say which one with --claim iss=…, one of a, b/,
			);
			assert.deepEqual(partiesOf(config, 'b'), { iss: 'b', aud: 'x' });
		});
	});

	it('reads claims as JSON if they are, otherwise as text', () => {
		const claims = ['a=1', 'a=true', 'a=["x"]', 'a="1"', 'a=x y', 'a=', 'a=b=c'].map(parseClaim);
		assert.deepEqual(claims, [
			['a', 1],
			['a', true],
			['a', ['x']],
			['a', '1'],
			['a', 'x y'],
			['a', ''],
			['a', 'b=c'],
		]);
		for (const wrong of ['', 'a', '=x']) assert.throws(() => parseClaim(wrong), /must be NAME=VALUE/);
	});

	it('takes host names and addresses for the server', () => {
		assert.deepEqual(['edge.test', '10.0.0.1', '::1'].map(parseServerName), ['edge.test', '10.0.0.1', '::1']);
		for (const wrong of ['', 'a b', 'edge:8443', 'http://edge'])
			assert.throws(() => parseServerName(wrong), Malformed, wrong);
	});

	it('reads how long a token lives', () => {
		assert.deepEqual(['90s', '15m', '1h', '7d'].map(parseTtl), [90, 900, 3600, 604_800]);
		for (const wrong of ['', '0s', '1', '1w', '-1s', '1.5h', '367d', '99999999d'])
			assert.throws(() => parseTtl(wrong), Malformed, wrong);
	});
});
