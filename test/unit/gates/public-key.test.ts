import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { createPublicKey, createSecretKey, generateKeyPairSync } from 'node:crypto';
import { describe, it } from 'node:test';
import { checkPublicKey, readPublicKey } from '../../../packages/gate/src/gates/public-key.ts';
import { Rejection } from '../../../packages/gate/src/gates/rejection.ts';
import { createTokenKey, mintToken } from '../../../packages/proxy/src/cli/demo/tokens.ts';
import { testPki } from '../../fixtures/pki.ts';
import { verifyToken } from '../../fixtures/token-policy.ts';

const key = createTokenKey();
const strangersKey = createTokenKey();

/** An RSA public key with this exponent: `verify` would take it, whatever it is. */
function withExponent(exponent: string): string {
	const e = Buffer.from(exponent, 'hex').toString('base64url');
	const jwk = { ...createPublicKey(key.publicKeyPem).export({ format: 'jwk' }), e };
	return createPublicKey({ key: jwk, format: 'jwk' }).export({ type: 'spki', format: 'pem' }) as string;
}

describe('the verification key', () => {
	const pem = (bits: number, type: 'spki' | 'pkcs1') =>
		generateKeyPairSync('rsa', { modulusLength: bits }).publicKey.export({ type, format: 'pem' }) as string;

	it('is read from SPKI and from PKCS#1 PEM', () => {
		const token = mintToken(key, { sub: 'tenant', exp: 2000 });
		for (const type of ['spki', 'pkcs1'] as const) {
			const publicKey = readPublicKey(createPublicKey(key.publicKeyPem).export({ type, format: 'pem' }) as string);
			const verdict = verifyToken(token, { publicKey, issuer: undefined, audience: undefined }, 1000);
			assert.ok(!(verdict instanceof Rejection));
		}
		readPublicKey(`# our key\n${key.publicKeyPem.replaceAll('\n', '\r\n')}\n`);
	});

	it('has at least 2048 bits', () => {
		readPublicKey(pem(2048, 'pkcs1'));
		for (const type of ['spki', 'pkcs1'] as const)
			assert.throws(() => readPublicKey(pem(1024, type)), /1024 bits.*2048/);
		assert.throws(() => readPublicKey(pem(2040, 'spki')), /2040 bits.*2048/);
	});

	it('has an odd public exponent of at least 65537', () => {
		readPublicKey(withExponent('010001'));
		readPublicKey(withExponent('010003'));
		for (const [exponent, message] of [
			['01', /public exponent 1; at least 65537/],
			['03', /public exponent 3; at least 65537/],
			['11', /public exponent 17; at least 65537/],
			['ffff', /public exponent 65535; at least 65537/],
			['010002', /even public exponent/],
		] as const) {
			assert.throws(() => readPublicKey(withExponent(exponent)), message);
		}
	});

	it('is an RSA key', () => {
		const pairs = [
			generateKeyPairSync('ec', { namedCurve: 'P-256' }),
			generateKeyPairSync('ed25519'),
			generateKeyPairSync('rsa-pss', { modulusLength: 2048 }),
		];
		for (const pair of pairs) {
			const text = pair.publicKey.export({ type: 'spki', format: 'pem' }) as string;
			assert.throws(() => readPublicKey(text), /contains a key of type (?:ec|ed25519|rsa-pss); RS256 needs an RSA key/);
		}
	});

	it('is not a private key, not even next to a public one', () => {
		const encrypted = { type: 'pkcs8', format: 'pem', cipher: 'aes-256-cbc', passphrase: 'x' } as const;
		const ec = generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey;
		for (const [text, what] of [
			[key.privateKey.export({ type: 'pkcs8', format: 'pem' }), 'a private key'],
			[key.privateKey.export({ type: 'pkcs1', format: 'pem' }), 'a private key'],
			[key.privateKey.export(encrypted), 'an encrypted private key'],
			[key.privateKey.export({ ...encrypted, type: 'pkcs1' }), 'an encrypted private key'],
			[ec.export({ type: 'sec1', format: 'pem' }), 'a private key'],
		] as const) {
			const message = `contains ${what}; give only the public key (openssl pkey -in KEY -pubout)`;
			assert.throws(() => readPublicKey(text as string), { message });
			assert.throws(() => readPublicKey(`${key.publicKeyPem}${text}`), { message });
		}
	});

	it('is exactly one key, and the message says what was found instead', async () => {
		const certificate = (await testPki()).server.certPem;
		const request = certificate.replaceAll('CERTIFICATE', 'CERTIFICATE REQUEST');
		const der = createPublicKey(key.publicKeyPem).export({ type: 'spki', format: 'der' });
		for (const [text, message] of [
			['', /^is empty/],
			['garbage', /^is not a PEM public key/],
			['https://issuer.test/jwks.json', /^is not a PEM public key/],
			['{"keys":[]}', /^contains a JWK Set \(JSON\).*as PEM \(node -p .*keys\[0\]/],
			['{\n  "kty": "RSA"\n}', /^contains JSON, perhaps a JWK.*as PEM \(node -p /],
			['ssh-rsa AAAA somebody', /^contains an OpenSSH key.*ssh-keygen -e -m PKCS8/],
			[der.toString('utf8'), /^contains bytes that may be DER.*openssl pkey -pubin -inform DER/],
			[certificate, /^contains a certificate.*openssl x509 -in FILE -noout -pubkey/],
			[request, /^contains a certificate request.*openssl req -in FILE -noout -pubkey/],
			[key.publicKeyPem.replaceAll('PUBLIC KEY', 'DH PARAMETERS'), /^contains a PEM block of type DH PARAMETERS/],
			[key.publicKeyPem + strangersKey.publicKeyPem, /^contains 2 PEM blocks; give a single PEM public key/],
		] as const) {
			assert.throws(() => readPublicKey(text), { message });
		}
		const [begin, first, ...rest] = key.publicKeyPem.split('\n');
		assert.throws(() => readPublicKey([begin, first!.slice(20), ...rest].join('\n')), /readable/);
		assert.throws(() => readPublicKey(key.publicKeyPem.slice(0, -40)), /PEM public key/);
		assert.throws(() => readPublicKey('-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n'), /readable/);
	});

	it('can be extracted from a JWK Set with the command in the message', async () => {
		const jwk = createPublicKey(key.publicKeyPem).export({ format: 'jwk' });
		const text = JSON.stringify({ keys: [jwk] });
		const file = (await testPki()).writeFile('jwks.json', text);
		let command = '';
		assert.throws(
			() => readPublicKey(text),
			({ message }: Error) => {
				command = /node -p "(.*)"/.exec(message)![1]!.replace('FILE', file);
				return true;
			},
		);
		const pem = execFileSync(process.execPath, ['-p', command], { encoding: 'utf8' });
		assert.equal(pem.trim(), key.publicKeyPem.trim());
	});

	it('is never quoted in a message', () => {
		const secret = key.privateKey.export({ type: 'pkcs8', format: 'pem' }) as string;
		for (const text of [secret, secret.replaceAll('PRIVATE KEY', 'PUBLIC KEY'), pem(1024, 'spki')]) {
			assert.throws(
				() => readPublicKey(text),
				(error: Error) => !text.split('\n').some((line) => line.length > 20 && error.message.includes(line)),
			);
		}
	});

	it('given as an object has the same requirements', () => {
		const publicKey = createPublicKey(key.publicKeyPem);
		assert.equal(checkPublicKey(publicKey), publicKey);
		assert.throws(() => checkPublicKey(key.privateKey), /contains a private key/);
		assert.throws(() => checkPublicKey(createSecretKey(Buffer.alloc(32))), /contains a secret key/);
		assert.throws(() => checkPublicKey(createPublicKey(withExponent('03'))), /public exponent 3/);
	});
});
