import assert from 'node:assert/strict';
import { createPrivateKey, generateKeyPairSync } from 'node:crypto';
import { before, describe, test } from 'node:test';
import { type Authority, createAuthority, type Issued, issue } from '../../../src/cli/demo/pki.ts';
import type { TlsMaterial } from '../../../src/shared/messages.ts';
import { type TlsNames, tlsWarnings, validateTlsMaterial } from '../../../src/shared/tls-material.ts';

const NAMES: TlsNames = { cert: 'CERT', key: 'KEY', ca: 'CA' };
const NOW = new Date('2030-06-01T00:00:00Z');
const VALID = { notBefore: new Date('2030-01-01T00:00:00Z'), notAfter: new Date('2031-01-01T00:00:00Z') };
const SERVER = { commonName: 'localhost', sans: ['localhost'], usages: 'server', ...VALID } as const;

let root: Authority;
let intermediate: Authority;
let server: Issued;
let other: Issued;
let material: TlsMaterial;

before(async () => {
	root = await createAuthority({ commonName: 'Root', ...VALID });
	intermediate = await createAuthority({ commonName: 'Intermediate', issuer: root, ...VALID });
	server = await issue(intermediate, SERVER);
	other = await issue(root, SERVER);
	material = { cert: server.certPem, key: server.keyPem, ca: root.certPem };
});

/** The certificates of a PEM text, one by one. */
function blocks(pem: string): string[] {
	return pem.match(/-----BEGIN[\s\S]*?-----END CERTIFICATE-----\n/g)!;
}

function problemWith(changes: Partial<TlsMaterial>): string {
	let message = '';
	assert.throws(
		() => validateTlsMaterial({ ...material, ...changes }, NAMES),
		(error: Error) => {
			message = error.message;
			return true;
		},
	);
	assert.ok(!/[A-Za-z0-9+/]{40}/.test(message), `the message quotes the file: ${message}`);
	return message;
}

describe('material that can be used', () => {
	test('a leaf with its intermediate, its key and a CA', () => validateTlsMaterial(material, NAMES));

	test('text between the certificates, Windows line ends and missing last line ends', () => {
		const cert = `Certificate:\n    Data: whatever - it says\n${material.cert}`.replaceAll('\n', '\r\n').trimEnd();
		validateTlsMaterial({ ...material, cert }, NAMES);
	});

	test('keys in SEC1 and PKCS#1', () => {
		const sec1 = createPrivateKey(server.keyPem).export({ type: 'sec1', format: 'pem' }) as string;
		validateTlsMaterial({ ...material, key: sec1 }, NAMES);
		const parameters = '-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----\n';
		validateTlsMaterial({ ...material, key: parameters + sec1 }, NAMES);
	});

	test('a bundle of several CAs', async () => {
		const second = await createAuthority({ commonName: 'Second', ...VALID });
		validateTlsMaterial({ ...material, ca: root.certPem + second.certPem }, NAMES);
	});

	test('an expired leaf: clients will refuse it, but a renewed one can only come by a reload', async () => {
		const expired = await issue(root, { ...SERVER, notAfter: new Date('2030-02-01T00:00:00Z') });
		validateTlsMaterial({ ...material, cert: expired.certPem, key: expired.keyPem }, NAMES);
	});
});

describe('material that cannot be used', () => {
	const cases: readonly [what: string, changes: () => Partial<TlsMaterial>, problem: RegExp][] = [
		['an empty certificate file', () => ({ cert: '' }), /^CERT: holds no PEM certificate/],
		['garbage for a certificate', () => ({ cert: 'garbage' }), /^CERT: holds no PEM certificate/],
		['a key for a certificate', () => ({ cert: server.keyPem }), /^CERT: holds no PEM certificate/],
		[
			'a certificate cut short',
			() => ({ cert: server.certPem.slice(0, 300) }),
			/^CERT: a certificate in it is cut off/,
		],
		[
			'an intermediate cut short',
			() => ({ cert: server.certPem.slice(0, -100) }),
			/^CERT: a certificate in it is cut off/,
		],
		[
			'a certificate with damaged base64',
			() => ({ cert: server.certPem.replace('MII', '!!!') }),
			/^CERT: certificate 1 is not readable/,
		],
		[
			'an intermediate with damaged base64',
			() => ({ cert: blocks(server.certPem)[0]! + blocks(server.certPem)[1]!.replace('MII', 'AAA') }),
			/^CERT: certificate 2 is not readable/,
		],
		['an empty key file', () => ({ key: '' }), /^KEY: holds no PEM private key/],
		['a certificate for a key', () => ({ key: server.certPem }), /^KEY: holds no PEM private key/],
		['a damaged key', () => ({ key: server.keyPem.replace('MIG', 'AAA') }), /^KEY: the private key is not readable/],
		['an encrypted key', () => ({ key: encrypted(server.keyPem) }), /^KEY: the key is encrypted/],
		[
			'the key of another certificate',
			() => ({ key: other.keyPem }),
			/^KEY: the key does not fit .* of CERT; give the key/,
		],
		[
			'a key of another kind',
			() => ({ key: rsaKey(2048) }),
			/^KEY: the key does not fit the first certificate of CERT/,
		],
		[
			'a chain with the leaf last',
			() => ({ cert: blocks(server.certPem).toReversed().join('') }),
			/^KEY: the key does not fit .* the leaf comes first/,
		],
		['an empty CA bundle', () => ({ ca: '' }), /^CA: holds no PEM certificate/],
		['a CA bundle of leaves', () => ({ ca: other.certPem }), /^CA: holds no CA certificate/],
		['a damaged CA bundle', () => ({ ca: root.certPem.replace('MII', '!!!') }), /^CA: certificate 1 is not readable/],
	];
	for (const [what, changes, problem] of cases) {
		test(what, () => assert.match(problemWith(changes()), problem));
	}
});

describe('what an operator is told of usable material', () => {
	const warnings = (changes: Partial<TlsMaterial>) => tlsWarnings({ ...material, ...changes }, NAMES, NOW);

	test('nothing, where there is nothing to tell', () => assert.deepEqual(warnings({}), []));

	test('a leaf that has expired', async () => {
		const { certPem } = await issue(root, { ...SERVER, notAfter: new Date('2030-02-01T00:00:00Z') });
		assert.deepEqual(warnings({ cert: certPem }), ['CERT: the leaf expired on 2030-02-01T00:00:00.000Z; renew it']);
	});

	test('a leaf that is not valid yet', async () => {
		const { certPem } = await issue(root, { ...SERVER, notBefore: new Date('2030-12-01T00:00:00Z') });
		assert.deepEqual(warnings({ cert: certPem }), ['CERT: the leaf is not valid before 2030-12-01T00:00:00.000Z']);
	});

	test('an authority of the clients that has expired', async () => {
		const expired = await createAuthority({ commonName: 'Old', ...VALID, notAfter: new Date('2030-02-01T00:00:00Z') });
		assert.deepEqual(warnings({ ca: root.certPem + expired.certPem }), [
			'CA: certificate 2 expired on 2030-02-01T00:00:00.000Z; renew it',
		]);
	});

	test('a certificate of the CA bundle that is no CA', () => {
		const [leaf] = blocks(other.certPem);
		assert.deepEqual(warnings({ ca: root.certPem + leaf! }), [
			'CA: certificate 2 is no CA (basicConstraints CA:TRUE) and counts for nothing',
		]);
		assert.deepEqual(warnings({ ca: leaf! + intermediate.certPem + root.certPem }), [
			'CA: certificate 1 is no CA (basicConstraints CA:TRUE) and counts for nothing',
		]);
	});

	test('a certificate in the chain that is none of its issuers', () => {
		assert.deepEqual(warnings({ cert: server.certPem + other.certPem }), [
			'CERT: certificate 3 did not issue the one before it; give the leaf, then each issuer in turn',
		]);
	});
});

function encrypted(keyPem: string): string {
	return createPrivateKey(keyPem).export({
		type: 'pkcs8',
		format: 'pem',
		cipher: 'aes-256-cbc',
		passphrase: 'x',
	}) as string;
}

function rsaKey(modulusLength: number): string {
	return generateKeyPairSync('rsa', { modulusLength }).privateKey.export({ type: 'pkcs8', format: 'pem' }) as string;
}
