import assert from 'node:assert/strict';
import { createPrivateKey, generateKeyPairSync, KeyObject, webcrypto } from 'node:crypto';
import { before, describe, test } from 'node:test';
import { readCertificates } from '../../../packages/gate/src/tls/certificates.ts';
import { judgeTlsMaterial, type TlsNames, validateTlsMaterial } from '../../../packages/gate/src/tls/tls-material.ts';
import { type Authority, createAuthority, type Issued, issue } from '../../../packages/proxy/src/cli/demo/pki.ts';
import { loadX509 } from '../../../packages/proxy/src/identity/x509.ts';
import type { TlsMaterial } from '../../../packages/proxy/src/shared/messages.ts';

const NAMES: TlsNames = { cert: 'CERT', key: 'KEY', ca: 'CA' };
const NOW = new Date('2030-06-01T00:00:00Z');
const VALID = { notBefore: new Date('2030-01-01T00:00:00Z'), notAfter: new Date('2031-01-01T00:00:00Z') };
const SERVER = { commonName: 'localhost', sans: ['localhost'], usages: 'server', ...VALID } as const;

let root: Authority;
let intermediate: Authority;
let server: Issued;
let other: Issued;
let material: TlsMaterial;
let weak: Pick<Issued, 'certPem' | 'keyPem'>;

before(async () => {
	root = await createAuthority({ commonName: 'Root', ...VALID });
	intermediate = await createAuthority({ commonName: 'Intermediate', issuer: root, ...VALID });
	server = await issue(intermediate, SERVER);
	other = await issue(root, SERVER);
	weak = await selfSignedRsa(1024);
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

describe('usable material', () => {
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

describe('unusable material', () => {
	const cases: readonly [what: string, changes: () => Partial<TlsMaterial>, problem: RegExp][] = [
		['an empty certificate file', () => ({ cert: '' }), /^CERT: contains no PEM certificate/],
		['garbage for a certificate', () => ({ cert: 'garbage' }), /^CERT: contains no PEM certificate/],
		['a key for a certificate', () => ({ cert: server.keyPem }), /^CERT: contains no PEM certificate/],
		[
			'a certificate cut short',
			() => ({ cert: server.certPem.slice(0, 300) }),
			/^CERT: the block that begins on line 1 is truncated/,
		],
		[
			'an intermediate cut short',
			() => ({ cert: server.certPem.slice(0, -100) }),
			/^CERT: the block that begins on line \d\d is truncated/,
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
		['an empty key file', () => ({ key: '' }), /^KEY: contains no PEM private key/],
		['a certificate for a key', () => ({ key: server.certPem }), /^KEY: contains no PEM private key/],
		['a damaged key', () => ({ key: server.keyPem.replace('MIG', 'AAA') }), /^KEY: the private key is not readable/],
		['an encrypted key', () => ({ key: encrypted(server.keyPem) }), /^KEY: the key is encrypted/],
		[
			'the key of another certificate',
			() => ({ key: other.keyPem }),
			/^KEY: the key does not match .* of CERT; give the key/,
		],
		[
			'a key of another kind',
			() => ({ key: rsaKey(2048) }),
			/^KEY: the key does not match the first certificate of CERT/,
		],
		[
			'a chain with the leaf last',
			() => ({ cert: blocks(server.certPem).toReversed().join('') }),
			/^KEY: the key does not match .* put the leaf first/,
		],
		['an empty CA bundle', () => ({ ca: '' }), /^CA: contains no PEM certificate/],
		['a CA bundle of leaves', () => ({ ca: other.certPem }), /^CA: contains no CA certificate/],
		[
			'an end cut off in the BEGIN line of the next certificate',
			() => ({ cert: `${server.certPem}-----BEGIN CERTIF` }),
			/^CERT: line \d+ is a truncated or damaged line/,
		],
		[
			'a bundle cut off in the BEGIN line of its second CA',
			() => ({ ca: `${root.certPem}-----BEG` }),
			/^CA: line \d+ is a truncated or damaged line/,
		],
		[
			'a key file with a rest',
			() => ({ key: `${server.keyPem}-----BEGIN` }),
			/^KEY: line \d+ is a truncated or damaged line/,
		],
		...['TRUSTED CERTIFICATE', 'X509 CERTIFICATE', 'PKCS7', 'CMS'].flatMap((label): (typeof cases)[number][] => [
			[
				`a ${label} in the chain`,
				() => ({ cert: server.certPem + other.certPem.replaceAll('CERTIFICATE', label) }),
				new RegExp(`^CERT: contains a block "${label}" on line \\d+; write it as "CERTIFICATE"`),
			],
			[
				`a ${label} in the CA bundle`,
				() => ({ ca: root.certPem + root.certPem.replaceAll('CERTIFICATE', label) }),
				new RegExp(`^CA: contains a block "${label}" on line \\d+; write it as "CERTIFICATE"`),
			],
		]),
		['a damaged CA bundle', () => ({ ca: root.certPem.replace('MII', '!!!') }), /^CA: certificate 1 is not readable/],
	];
	for (const [what, changes, problem] of cases) {
		test(what, () => assert.match(problemWith(changes()), problem));
	}

	test('is reported with all problems', () => {
		const judge = (material: Partial<TlsMaterial>) =>
			judgeTlsMaterial(material, NAMES, NOW).problems.map(({ of }) => of);
		assert.deepEqual(judge({ cert: '', key: '', ca: '' }), ['cert', 'key', 'ca']);
		assert.deepEqual(judge({ key: '', ca: '' }), ['key', 'ca']);
		assert.deepEqual(judge({ cert: server.certPem, key: other.keyPem, ca: '' }), ['ca', 'key']);
		assert.deepEqual(judge({ cert: server.certPem }), []);
	});

	test('keys that OpenSSL finds too small: which one, its size, and what is wanted', () => {
		const { certPem, keyPem } = weak;
		assert.deepEqual(judgeTlsMaterial({ cert: certPem, key: keyPem, ca: root.certPem }, NAMES, NOW).problems, [
			{
				of: 'cert',
				message:
					'the key of the leaf is too small (RSA, 1024 bits); OpenSSL requires RSA of 2048 bits or EC of 224 bits at least: ' +
					'issue it with a larger key',
			},
		]);
		assert.match(
			problemWith({ cert: server.certPem + certPem }),
			/^CERT: the key of certificate 3 is too small \(RSA, 1024 bits\); OpenSSL requires RSA of 2048 bits/,
		);
	});
});

describe('a file that was cut off while it was written', () => {
	/** What a cut at this byte leaves: the certificates, or `undefined` where the file is refused. */
	const certificatesOf = (text: string): string[] | undefined => {
		try {
			return readCertificates(text).map((certificate) => certificate.toString());
		} catch {
			return undefined;
		}
	};

	test('has all complete certificates, or is refused', () => {
		const all = certificatesOf(server.certPem + other.certPem)!;
		assert.equal(all.length, 3);
		const text = `# the chain\n${server.certPem}# another\n${other.certPem}`;
		const blocks = [...text.matchAll(/-----BEGIN[\s\S]*?-----END CERTIFICATE-----/g)];
		for (let cut = 0; cut <= text.length; cut++) {
			const whole = blocks.filter(({ index, 0: block }) => index + block.length <= cut).length;
			const inside = blocks.some(({ index, 0: block }) => index < cut && cut < index + block.length);
			const expected = inside || whole === 0 ? undefined : all.slice(0, whole);
			assert.deepEqual(certificatesOf(text.slice(0, cut)), expected, `cut at ${cut}`);
		}
	});

	test('has its key, or is refused', () => {
		const key = server.keyPem.trimEnd();
		for (let cut = 0; cut < key.length; cut++) {
			assert.match(problemWith({ key: key.slice(0, cut) }), /^KEY: /, `cut at ${cut}`);
		}
		validateTlsMaterial({ ...material, key }, NAMES);
	});
});

describe('warnings about usable material', () => {
	const warnings = (changes: Partial<TlsMaterial>, now = NOW) =>
		judgeTlsMaterial({ ...material, ...changes }, NAMES, now).warnings.map(
			({ of, message }) => `${NAMES[of]}: ${message}`,
		);

	test('no warning for material without a fault', () => assert.deepEqual(warnings({}), []));

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
			'CA: certificate 2 is not a CA (basicConstraints CA:TRUE), and is ignored',
		]);
		assert.deepEqual(warnings({ ca: leaf! + intermediate.certPem + root.certPem }), [
			'CA: certificate 1 is not a CA (basicConstraints CA:TRUE), and is ignored',
		]);
	});

	test('certificates that expire within 30 days, of the chain and of the bundle', () => {
		const days = (left: number) => new Date(VALID.notAfter.getTime() - left * 24 * 3_600_000);
		const when = 'on 2031-01-01T00:00:00.000Z';
		assert.deepEqual(warnings({}, days(30.01)), []);
		assert.deepEqual(warnings({}, days(30)), [
			`CERT: the leaf expires ${when}, in 30 days; renew it`,
			`CERT: certificate 2 expires ${when}, in 30 days; renew it`,
			`CA: certificate 1 expires ${when}, in 30 days; renew it`,
		]);
		assert.match(warnings({}, days(1.5))[0]!, /, in 1 day; renew it$/);
		assert.match(warnings({}, days(0.5))[0]!, /, in less than a day; renew it$/);
	});

	test('a leaf that is not meant for servers', async () => {
		const { certPem, keyPem } = await issue(root, { ...SERVER, usages: 'client' });
		assert.deepEqual(warnings({ cert: certPem, key: keyPem }), [
			'CERT: the leaf has an extended key usage without serverAuth: clients will refuse it; issue it for servers',
		]);
		const anything = { cert: weak.certPem, key: weak.keyPem };
		assert.deepEqual(
			warnings(anything).filter((warning) => !/no subject alternative name/.test(warning)),
			[],
			'without the extension it may be used for anything',
		);
	});

	test('a private key in the CA bundle, which is never quoted', () => {
		for (const key of [server.keyPem, encrypted(server.keyPem), weak.keyPem]) {
			const [warning, ...others] = warnings({ ca: root.certPem + key });
			assert.match(warning!, /^CA: contains a private key on line \d+, which is not needed here: remove it/);
			assert.deepEqual(others, []);
			for (const line of key.split('\n').filter((line) => line.length > 20)) assert.ok(!warning!.includes(line));
		}
	});

	test('a block of the CA bundle that is not read, such as a revocation list', () => {
		const list = '-----BEGIN X509 CRL-----\nMIIB\n-----END X509 CRL-----\n';
		assert.match(
			warnings({ ca: root.certPem + list }).join(),
			/^CA: contains a block "X509 CRL" on line \d+, which is ignored/,
		);
	});

	test('no warning about a key next to the chain in one file', () => {
		const both = server.keyPem + server.certPem;
		assert.deepEqual(warnings({ cert: both, key: both }), []);
		validateTlsMaterial({ ...material, cert: both, key: both }, NAMES);
	});

	test('a certificate in the chain that is not one of its issuers', () => {
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

/** For no use in particular: without an extended key usage. */
async function selfSignedRsa(modulusLength: number): Promise<Pick<Issued, 'certPem' | 'keyPem'>> {
	const { X509CertificateGenerator } = await loadX509();
	const signingAlgorithm = { name: 'RSASSA-PKCS1-v1_5', hash: 'SHA-256' };
	const publicExponent = Uint8Array.of(1, 0, 1);
	const keys = await webcrypto.subtle.generateKey({ ...signingAlgorithm, modulusLength, publicExponent }, true, [
		'sign',
		'verify',
	]);
	const certificate = await X509CertificateGenerator.createSelfSigned(
		{ name: 'CN=weak', ...VALID, keys, signingAlgorithm },
		webcrypto as Crypto,
	);
	const keyPem = KeyObject.from(keys.privateKey).export({ type: 'pkcs8', format: 'pem' }) as string;
	return { certPem: `${certificate.toString('pem')}\n`, keyPem };
}
