import assert from 'node:assert/strict';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { before, describe, test } from 'node:test';
import { readJwtKeyFile, readTlsFiles } from '../../../src/control/pem-files.ts';
import { type TestPki, testPki } from '../../fixtures/pki.ts';

let pki: TestPki;
let paths: { certPath: string; keyPath: string; clientCaPath: string };

before(async () => {
	pki = await testPki();
	paths = { certPath: pki.server.certPath, keyPath: pki.server.keyPath, clientCaPath: pki.caPath };
});

describe('the TLS files', () => {
	test('are read whole', () => {
		const { material, warnings } = readTlsFiles(paths, new Date());
		const texts = { cert: pki.server.certPem, key: pki.server.keyPem, ca: pki.ca.certPem };
		assert.deepEqual(material, { ...texts, minVersion: undefined });
		const strict = readTlsFiles({ ...paths, minVersion: '1.3' }, new Date());
		assert.deepEqual(strict.material, { ...texts, minVersion: '1.3' });
		assert.deepEqual(warnings, []);
	});

	test('that are not there are named by key and path', () => {
		assert.throws(() => readTlsFiles({ ...paths, keyPath: '/nowhere/server.key' }, new Date()), {
			message: 'tls.key_path (/nowhere/server.key): cannot be read: there is no such file',
		});
	});

	test('that are folders are named, too', () => {
		const folder = join(pki.dir, 'folder.crt');
		mkdirSync(folder, { recursive: true });
		assert.throws(() => readTlsFiles({ ...paths, clientCaPath: folder }, new Date()), {
			message: `tls.client_ca_path (${folder}): cannot be read: it is a directory`,
		});
	});

	test('that do not belong together are named both', async () => {
		const { keyPath } = await pki.issueServer('other');
		assert.throws(() => readTlsFiles({ ...paths, keyPath }, new Date()), {
			message:
				`tls.key_path (${keyPath}): the key does not fit the first certificate of ` +
				`tls.cert_path (${paths.certPath}); give the key that this certificate was issued for`,
		});
	});
});

describe('the JWT key', () => {
	test('is passed on as text', () => {
		assert.equal(readJwtKeyFile(pki.publicKeyPath), pki.tokenKey.publicKeyPem);
	});

	test('that is a private one is refused by key and path', () => {
		const path = pki.writeFile('private.pem', pki.server.keyPem);
		assert.throws(
			() => readJwtKeyFile(path),
			({ message }: Error) => message.startsWith(`jwt.jwks_path (${path}): holds a private key`),
		);
	});

	test('that is not there is named', () => {
		assert.throws(() => readJwtKeyFile('/nowhere/jwt.pub'), {
			message: 'jwt.jwks_path (/nowhere/jwt.pub): cannot be read: there is no such file',
		});
	});
});
