import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { issue } from '../../../../packages/proxy/src/cli/demo/pki.ts';
import { ConfigError, describeProblem } from '../../../../packages/proxy/src/config/error.ts';
import { parseConfig } from '../../../../packages/proxy/src/config/load.ts';
import { readSpec } from '../../../../packages/proxy/src/control/files/findings.ts';
import { inspect, reloadedFiles } from '../../../../packages/proxy/src/control/files/inspection.ts';
import { judgeUpstreamTlsFiles } from '../../../../packages/proxy/src/control/files/upstream-tls-files.ts';
import { type ClientCert, type TestPki, testPki } from '../../../fixtures/pki.ts';

let pki: TestPki;
let own: ClientCert;
let certPath: string;
let keyPath: string;

before(async () => {
	pki = await testPki();
	own = await pki.issueClient();
	certPath = pki.writeFile('upstream.crt', own.certPem);
	keyPath = pki.writeFile('upstream.key', own.keyPem);
});

/** @param tls of `[upstreams.tls]`. */
function textWith(tls: Record<string, string>, url = 'https://a'): string {
	return [
		'[tls]',
		`cert_path = "${pki.server.certPath}"`,
		`key_path = "${pki.server.keyPath}"`,
		`client_ca_path = "${pki.caPath}"`,
		`[jwt]\njwks_path = "${pki.publicKeyPath}"\nissuer = "i"\naudience = "a"`,
		'[[upstreams]]\nname = "billing"\naddresses = ["10.0.0.1:8443"]\n[upstreams.tls]',
		...Object.entries(tls).map(([key, value]) => `${key} = "${value}"`),
		`[[routes]]\nprefix = "/a"\nupstream = "billing"\n[[routes]]\nprefix = "/b"\nupstream = "${url}"`,
	].join('\n');
}

const NOW = new Date();

async function read(tls: Record<string, string>, now = NOW) {
	const config = parseConfig(textWith(tls), 'config.toml');
	return { config, ...(await readSpec(config, (found) => judgeUpstreamTlsFiles(found, config, now))) };
}

async function problemsOf(tls: Record<string, string>): Promise<string[]> {
	try {
		await read(tls);
	} catch (error) {
		assert.ok(error instanceof ConfigError);
		return error.problems.map((problem) => describeProblem('config.toml', problem));
	}
	return [];
}

describe('the files of TLS to upstreams', () => {
	test('are read for each upstream that names some, and missed by none', async () => {
		const {
			spec: upstreamTls,
			warnings,
			config,
		} = await read({
			ca_path: pki.otherCaPath,
			cert_path: certPath,
			key_path: keyPath,
			server_name: 'billing.internal',
			min_version: '1.3',
		});
		const nothing = { ca: undefined, cert: undefined, key: undefined, serverName: undefined, minVersion: undefined };
		assert.deepEqual(
			[...upstreamTls],
			[
				[
					'billing',
					{
						ca: pki.otherCa.certPem,
						cert: own.certPem,
						key: own.keyPem,
						serverName: 'billing.internal',
						minVersion: '1.3',
						verify: true,
					},
				],
				['a:443', { ...nothing, verify: true }],
			],
		);
		assert.deepEqual(warnings, []);
		assert.deepEqual(reloadedFiles(config).slice(-3), [pki.otherCaPath, certPath, keyPath]);
	});

	test('are judged as those of the listener are, each problem at the key that names the file', async () => {
		for (const [tls, problem] of [
			[
				{ ca_path: '/nowhere.pem' },
				/^config\.toml:13: upstreams\[0\]\.tls\.ca_path \(\/nowhere\.pem\): cannot be read: there is no such file/,
			],
			[{ ca_path: keyPath }, /tls\.ca_path .*contains no PEM certificate/],
			[
				{ ca_path: certPath },
				/contains no CA certificate \(basicConstraints CA:TRUE\); give the CA that issues the upstream/,
			],
			[
				{ cert_path: certPath, key_path: pki.server.keyPath },
				/tls\.key_path .*the key does not match the first certificate/,
			],
			[{ cert_path: keyPath, key_path: keyPath }, /tls\.cert_path .*contains no PEM certificate/],
			[{ cert_path: certPath, key_path: certPath }, /tls\.key_path .*contains no PEM private key/],
		] as [Record<string, string>, RegExp][]) {
			const found = await problemsOf(tls);
			assert.equal(found.length, 1, found.join('\n'));
			assert.match(found[0]!, problem);
		}
	});

	test('cause a warning before they expire, and if they are for another purpose', async () => {
		const soon = new Date(Date.now() + 40 * 24 * 3_600_000);
		const { warnings } = await read({ ca_path: pki.caPath, cert_path: certPath, key_path: keyPath }, soon);
		assert.deepEqual(
			warnings.map(({ key, message }) => `${key}: ${message.replace(/ on .*/, '')}`),
			['upstreams[0].tls.cert_path: the leaf expires', 'upstreams[0].tls.ca_path: certificate 1 expires'],
		);
		const server = await issue(pki.ca, {
			commonName: 'a',
			usages: 'server',
			notBefore: new Date(Date.now() - 3_600_000),
			notAfter: new Date(Date.now() + 90 * 24 * 3_600_000),
		});
		const other = await read({
			cert_path: pki.writeFile('other.crt', server.certPem),
			key_path: pki.writeFile('other.key', server.keyPem),
		});
		assert.deepEqual(
			other.warnings.map(({ message }) => message),
			['the leaf has an extended key usage without clientAuth: upstreams will refuse it; issue it for clients'],
		);
	});

	test('are judged by proxy check also if the configuration is wrong elsewhere', async () => {
		const path = pki.writeFile(
			'wrong.toml',
			textWith({ ca_path: '/nowhere.pem', cert_path: certPath, key_path: keyPath }, 'nonsense://a'),
		);
		const { problems } = await inspect(path, NOW);
		assert.deepEqual(
			problems.map(({ key }) => key),
			['routes[1].upstream', 'upstreams[0].tls.ca_path'],
		);
	});
});
