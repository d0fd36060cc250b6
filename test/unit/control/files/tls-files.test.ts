import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { before, describe, test } from 'node:test';
import { NOTHING_REVOKED } from '../../../../packages/gate/src/identity/revocations.ts';
import { type RouteEntry, renderConfig } from '../../../../packages/proxy/src/cli/demo/config-file.ts';
import type { Config } from '../../../../packages/proxy/src/config/config.ts';
import { describeProblem } from '../../../../packages/proxy/src/config/error.ts';
import { parseConfig } from '../../../../packages/proxy/src/config/load.ts';
import { Findings, readSpec } from '../../../../packages/proxy/src/control/files/findings.ts';
import { judgeJwtKeyFile } from '../../../../packages/proxy/src/control/files/identity-files.ts';
import { inspect, readStartFiles } from '../../../../packages/proxy/src/control/files/inspection.ts';
import { judgeTlsFiles } from '../../../../packages/proxy/src/control/files/tls-files.ts';
import { type TestPki, testPki } from '../../../fixtures/pki.ts';

let pki: TestPki;
/** What is asked of clients' certificates unless the configuration says otherwise. */
const CLIENTS = {
	crls: [],
	crlRequired: false,
	revoked: NOTHING_REVOKED,
	endAtExpiry: true,
	endAtCaRemoval: false,
};
let special: [what: string, path: string, reason: string][];

before(async () => {
	pki = await testPki();
	const folder = join(pki.dir, 'folder.crt');
	const fifo = join(pki.dir, 'fifo.crt');
	const large = join(pki.dir, 'large.crt');
	mkdirSync(folder, { recursive: true });
	execFileSync('mkfifo', [fifo]);
	writeFileSync(large, Buffer.alloc(9 * 1024 * 1024, '\n'));
	special = [
		['nothing', '/nowhere/server.key', 'there is no such file'],
		['a folder', folder, 'it is a directory'],
		['a FIFO', fifo, 'it is a FIFO, not a regular file'],
		['a device', '/dev/zero', 'it is a device, not a regular file'],
		['a file of 9 MiB', large, 'it is larger than 8 MiB'],
	];
});

interface Paths {
	readonly cert?: string;
	readonly key?: string;
	readonly ca?: string;
	readonly jwt?: string;
}

function textWith({ cert, key, ca, jwt }: Paths, routes: readonly RouteEntry[] = []): string {
	const tls = {
		cert_path: cert ?? pki.server.certPath,
		key_path: key ?? pki.server.keyPath,
		client_ca_path: ca ?? pki.caPath,
	};
	return renderConfig({ tls, jwt: { jwks_path: jwt ?? pki.publicKeyPath, issuer: 'i', audience: 'a' }, routes });
}

const configWith = (paths: Paths): Config => parseConfig(textWith(paths), 'config.toml');
const read = (config: Config) => readSpec(config, (found) => judgeTlsFiles(found, new Date()));

describe('the TLS files', () => {
	test('are read whole', async () => {
		const { spec: material, warnings } = await read(configWith({}));
		const texts = { cert: pki.server.certPem, key: pki.server.keyPem, ca: pki.ca.certPem };
		assert.deepEqual(material, { ...texts, minVersion: undefined, clients: CLIENTS });
		const strict = parseConfig(textWith({}).replace('[tls]', '[tls]\nmin_version = "1.3"'), 'config.toml');
		assert.deepEqual((await read(strict)).spec, {
			...texts,
			minVersion: '1.3',
			clients: CLIENTS,
		});
		assert.deepEqual(warnings, []);
	});

	test('may begin with a byte order mark', async () => {
		const cert = pki.writeFile('bom.crt', `\ufeff${pki.server.certPem}`);
		const { spec: material } = await read(configWith({ cert }));
		assert.equal(material.cert, pki.server.certPem);
	});

	test('unreadable TLS files are named by line, key and path', async () => {
		for (const [what, path, reason] of special) {
			await assert.rejects(
				read(configWith({ key: path })),
				{ name: 'ConfigError', message: `config.toml:4: tls.key_path (${path}): cannot be read: ${reason}` },
				what,
			);
		}
	});

	test('a certificate and a key that do not match are both named', async () => {
		const { keyPath } = await pki.issueServer('other');
		await assert.rejects(read(configWith({ key: keyPath })), {
			message:
				`config.toml:4: tls.key_path (${keyPath}): the key does not match the first certificate of ` +
				`tls.cert_path (${pki.server.certPath}); give the key that this certificate was issued for`,
		});
	});
});

describe('the JWT key', () => {
	const judge = async (paths: Paths) => {
		const found = new Findings(configWith(paths));
		return { keys: await judgeJwtKeyFile(found), problems: found.problems, warnings: found.warnings };
	};
	const problemsOf = async (jwt: string) => (await judge({ jwt })).problems;

	test('is passed on as text', async () => {
		const { keys, problems, warnings } = await judge({});
		assert.deepEqual([keys?.keys[0]?.pem, problems, warnings], [pki.tokenKey.publicKeyPem, [], []]);
	});

	test('a private key as JWT key is refused by line, key and path', async () => {
		const path = pki.writeFile('private.pem', pki.server.keyPem);
		const [problem, ...others] = await problemsOf(path);
		assert.deepEqual([problem!.line, problem!.key, problem!.file], [8, 'jwt.jwks_path', path]);
		assert.match(problem!.message, /^contains a private key/);
		assert.deepEqual(others, []);
	});

	test('a JWT key with an incomplete block after it is refused', async () => {
		const path = pki.writeFile('rest.pub', `${pki.tokenKey.publicKeyPem}-----BEGIN PUB`);
		assert.match((await problemsOf(path))[0]!.message, /^line \d+ is a truncated or damaged line of a PEM block/);
	});

	test('a truncated JWT key is refused', async () => {
		const whole = pki.tokenKey.publicKeyPem.trimEnd();
		for (let cut = 0; cut < whole.length; cut++) {
			const path = pki.writeFile('cut.pub', whole.slice(0, cut));
			assert.equal((await problemsOf(path)).length, 1, `cut at ${cut}`);
		}
		assert.deepEqual(await problemsOf(pki.writeFile('cut.pub', whole)), []);
	});
});

describe('an inspection', () => {
	const inspected = async (text: string) => {
		const path = pki.writeFile('inspected.toml', text);
		const { files, problems, warnings } = await inspect(path, new Date());
		const describe = (list: typeof problems) => list.map((one) => describeProblem('config.toml', one));
		return { files, problems: describe(problems), warnings: describe(warnings) };
	};

	test('an inspection of usable files returns everything for the start, and the warnings', async () => {
		const { files, problems, warnings } = await inspected(textWith({}));
		assert.deepEqual(problems, []);
		assert.deepEqual(warnings, ['config.toml: routes: there are none, so every request gets 404; add [[routes]]']);
		assert.equal(files?.identity.issuers[0]?.keys?.keys[0]?.pem, pki.tokenKey.publicKeyPem);
		assert.equal(files?.tls.key, pki.server.keyPem);
	});

	test('reports all mistakes in the configuration and in its files at once', async () => {
		const cert = pki.writeFile('cut.crt', pki.server.certPem.slice(0, 300));
		const ca = pki.writeFile('empty.crt', '');
		const text = textWith({ cert, key: '/nowhere/edge.key', ca, jwt: pki.caPath }, [
			{ prefix: 'x', upstream: 'ftp://a' },
		]);
		const { files, problems } = await inspected(text);
		assert.equal(files, undefined);
		assert.deepEqual(
			problems.map((problem) => /^config\.toml:\d+: \S+( \(.*?\))?: \w+ \w+/.exec(problem)?.[0]).toSorted(),
			[
				`config.toml:13: routes[0].prefix: must begin`,
				`config.toml:14: routes[0].upstream: must be`,
				`config.toml:3: tls.cert_path (${cert}): the block`,
				`config.toml:4: tls.key_path (/nowhere/edge.key): cannot be`,
				`config.toml:5: tls.client_ca_path (${ca}): contains no`,
				`config.toml:8: jwt.jwks_path (${pki.caPath}): contains a`,
			].toSorted(),
		);
	});

	test('does not look for files whose keys are wrong', async () => {
		const { problems } = await inspected('[tls]\nkey_path = 5\ncert_path = "https://a/b.crt"\n');
		assert.deepEqual(
			problems.map((problem) => /: (\S+): (\w+ \w+)/.exec(problem)!.slice(1).join(' ')),
			['tls.cert_path must be', 'tls.key_path must be', 'tls.client_ca_path is missing', 'jwt.jwks_path is missing'],
		);
	});

	test('is what the start refuses', async () => {
		const path = pki.writeFile('refused.toml', textWith({ key: '/nowhere/a', jwt: '/nowhere/b' }));
		await assert.rejects(readStartFiles(path, new Date()), {
			name: 'ConfigError',
			message:
				`${path}:4: tls.key_path (/nowhere/a): cannot be read: there is no such file\n` +
				`${path}:8: jwt.jwks_path (/nowhere/b): cannot be read: there is no such file`,
		});
	});
});
