import assert from 'node:assert/strict';
import { createPublicKey } from 'node:crypto';
import { describe, it } from 'node:test';
import { decodeProtectedHeader, importSPKI, jwtVerify } from 'jose';
import { createTokenKey, mintToken, signToken } from '../../../packages/proxy/src/cli/demo/tokens.ts';

describe('development tokens', () => {
	const key = createTokenKey();
	const claims = { sub: 'tenant-a', iss: 'https://issuer.test', aud: 'proxy', exp: 2_000_000_000, scope: 'read' };

	it('makes an RSA key of 2048 bits with an SPKI public half', () => {
		const publicKey = createPublicKey(key.publicKeyPem);
		assert.equal(publicKey.asymmetricKeyType, 'rsa');
		assert.equal(publicKey.asymmetricKeyDetails?.modulusLength, 2048);
		assert.match(key.publicKeyPem, /^-----BEGIN PUBLIC KEY-----\n/);
	});

	it('mints a token that jose verifies, with exactly the claims given', async () => {
		const options = { algorithms: ['RS256'], issuer: claims.iss, audience: claims.aud, currentDate: new Date(1e12) };
		const verified = await jwtVerify(mintToken(key, claims), await importSPKI(key.publicKeyPem, 'RS256'), options);
		assert.deepEqual(verified.payload, claims);
		assert.deepEqual(verified.protectedHeader, { alg: 'RS256', typ: 'JWT' });
	});

	it('mints a token that jose refuses under another key', async () => {
		const other = await importSPKI(createTokenKey().publicKeyPem, 'RS256');
		await assert.rejects(jwtVerify(mintToken(key, claims), other), { code: 'ERR_JWS_SIGNATURE_VERIFICATION_FAILED' });
	});

	it('adds extra header members, and passes JSON text unchanged', () => {
		assert.deepEqual(decodeProtectedHeader(mintToken(key, claims, { kid: '1' })), {
			alg: 'RS256',
			typ: 'JWT',
			kid: '1',
		});
		const token = signToken(key, '{"alg":"RS256"}', '{"exp":1e400,"exp":1}');
		assert.equal(Buffer.from(token.split('.')[1]!, 'base64url').toString(), '{"exp":1e400,"exp":1}');
	});
});
