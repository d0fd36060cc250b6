/** Tokens that the gate refuses in each of its places: the proxy and every adapter. */
import { constants, createHmac, createPublicKey, generateKeyPairSync, type KeyObject, sign } from 'node:crypto';
import { mintToken, signToken, type TokenClaims, type TokenKey } from '../../packages/proxy/src/cli/demo/tokens.ts';

interface HostileToken {
	/** Completes the sentence "refuses ...". */
	readonly what: string;
	readonly token: string;
}

/**
 * @param key the one whose public half the gate has.
 * @param good claims that would pass.
 */
export function hostileTokens(key: TokenKey, good: TokenClaims): HostileToken[] {
	return [
		...otherAlgorithms(key, good),
		...misleadingHeaders(key, good),
		...brokenSpellings(key, good),
		...badTimes(key, good),
		...duplicateMembers(key, good),
		...badSubjects(key, good),
	];
}

function otherAlgorithms(key: TokenKey, good: TokenClaims): HostileToken[] {
	const { privateKey, publicKeyPem } = key;
	const ec = generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey;
	const ed = generateKeyPairSync('ed25519').privateKey;
	const stranger = generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey;
	const pss = { key: privateKey, padding: constants.RSA_PKCS1_PSS_PADDING, saltLength: 32 };
	const der = createPublicKey(publicKeyPem).export({ type: 'spki', format: 'der' });
	const signed = (alg: string, signer: (input: Buffer) => Buffer): string => {
		const input = `${encoded({ alg, typ: 'JWT' })}.${encoded(good)}`;
		return `${input}.${signer(Buffer.from(input)).toString('base64url')}`;
	};
	const rsa = (digest: string, by: KeyObject) => (input: Buffer) => sign(digest, input, by);
	return [
		{ what: 'alg none without a signature', token: `${encoded({ alg: 'none' })}.${encoded(good)}.` },
		{ what: 'alg none with a signature that is right for RS256', token: signed('none', rsa('sha256', privateKey)) },
		{ what: 'HS256 keyed with the public key as PEM', token: signed('HS256', hmac(publicKeyPem)) },
		{ what: 'HS256 keyed with the public key as DER', token: signed('HS256', hmac(der)) },
		{ what: 'RS384', token: signed('RS384', rsa('sha384', privateKey)) },
		{ what: 'RS512', token: signed('RS512', rsa('sha512', privateKey)) },
		{ what: 'PS256', token: signed('PS256', (input) => sign('sha256', input, pss)) },
		{ what: 'a PSS signature that calls itself RS256', token: signed('RS256', (input) => sign('sha256', input, pss)) },
		{ what: 'ES256', token: signed('ES256', (input) => sign('sha256', input, { key: ec, dsaEncoding: 'ieee-p1363' })) },
		{ what: 'EdDSA', token: signed('EdDSA', (input) => sign(null, input, ed)) },
		{ what: 'rs256 in lower case', token: signed('rs256', rsa('sha256', privateKey)) },
		{ what: 'the signature of another RSA key', token: signed('RS256', rsa('sha256', stranger)) },
		{ what: 'a header without alg', token: mintToken(key, good, { alg: undefined }) },
	];
}

function misleadingHeaders(key: TokenKey, good: TokenClaims): HostileToken[] {
	const forger = generateKeyPairSync('rsa', { modulusLength: 2048 });
	const forged: TokenKey = { privateKey: forger.privateKey, publicKeyPem: '' };
	const jwk = forger.publicKey.export({ format: 'jwk' });
	return [
		{ what: 'crit', token: mintToken(key, good, { crit: ['exp'], exp: 0 }) },
		{ what: 'an empty crit', token: mintToken(key, good, { crit: [] }) },
		{ what: 'b64: false', token: mintToken(key, good, { b64: false, crit: ['b64'] }) },
		{ what: 'a forger who brings the key along as jwk', token: mintToken(forged, good, { jwk }) },
		{ what: 'a forger who points to a key by jku', token: mintToken(forged, good, { jku: 'https://evil.test/jwks' }) },
		{ what: 'a forger who points to a key by x5u', token: mintToken(forged, good, { x5u: 'https://evil.test/x5u' }) },
		{ what: 'a forger whose kid is a path', token: mintToken(forged, good, { kid: '../../../../dev/null' }) },
	];
}

function brokenSpellings(key: TokenKey, good: TokenClaims): HostileToken[] {
	const token = mintToken(key, good);
	const [header, payload, signature] = token.split('.') as [string, string, string];
	return [
		{ what: 'padding', token: `${token}==` },
		{ what: 'white space inside', token: `${header}. ${payload}.${signature}` },
		{ what: 'white space in front', token: ` ${token}` },
		{ what: 'a tab at the end of a segment', token: `${header}\t.${payload}.${signature}` },
		{ what: 'a last character whose unused bits are set', token: token.slice(0, -1) + next(token.at(-1)!) },
		{ what: 'plain base64', token: plainBase64(mintToken(key, { ...good, filler: '??????' })) },
		{ what: 'four segments', token: `${token}.${signature}` },
		{ what: 'two segments', token: `${header}.${payload}` },
		{ what: 'an empty header', token: `.${payload}.${signature}` },
		{ what: 'an empty payload', token: `${header}..${signature}` },
		{ what: 'an empty signature', token: `${header}.${payload}.` },
		{ what: 'a signature with one bit changed', token: flipped(token, signature) },
		{ what: 'a payload that is no JSON', token: signToken(key, RS256, '{"sub":') },
		{ what: 'a payload that is an array', token: signToken(key, RS256, '[]') },
		{ what: 'a payload that is null', token: signToken(key, RS256, 'null') },
		{ what: 'a header that is a string', token: signToken(key, '"RS256"', JSON.stringify(good)) },
		{ what: 'more than 8 KiB', token: mintToken(key, { ...good, filler: 'x'.repeat(7000) }) },
		{ what: 'one character', token: 'x' },
		{ what: 'two dots', token: '..' },
	];
}

function badTimes(key: TokenKey, good: TokenClaims): HostileToken[] {
	const { exp: _exp, ...rest } = good;
	const raw = (members: string) => signToken(key, RS256, `${JSON.stringify(rest).slice(0, -1)},${members}}`);
	return [
		{ what: 'no exp', token: mintToken(key, rest) },
		{ what: 'an exp that is a string', token: mintToken(key, { ...good, exp: String(good.exp) }) },
		{ what: 'a negative exp', token: mintToken(key, { ...good, exp: -1 }) },
		{ what: 'an exp of 1e400', token: raw('"exp":1e400') },
		{ what: 'an exp of NaN', token: raw('"exp":NaN') },
		{ what: 'an exp of null', token: raw('"exp":null') },
		{ what: 'an nbf that is a string', token: mintToken(key, { ...good, nbf: '0' }) },
		{ what: 'an nbf of 1e400', token: raw(`"exp":${good.exp},"nbf":1e400`) },
		{ what: 'an nbf of -1e400', token: raw(`"exp":${good.exp},"nbf":-1e400`) },
		{ what: 'an nbf of NaN', token: raw(`"exp":${good.exp},"nbf":NaN`) },
		{ what: 'a negative nbf', token: mintToken(key, { ...good, nbf: -1 }) },
		{ what: 'an nbf of null', token: mintToken(key, { ...good, nbf: null }) },
	];
}

function duplicateMembers(key: TokenKey, good: TokenClaims): HostileToken[] {
	const payload = JSON.stringify(good).slice(0, -1);
	return [
		{ what: 'sub twice', token: signToken(key, RS256, `${payload},"sub":"root"}`) },
		{ what: 'sub twice, once in escapes', token: signToken(key, RS256, `${payload},"s\\u0075b":"root"}`) },
		{ what: 'a nested name twice', token: signToken(key, RS256, `${payload},"deep":[{"a":1,"a":2}]}`) },
		{
			what: 'claims that stand in __proto__ only',
			token: signToken(key, RS256, `{"__proto__":${JSON.stringify(good)}}`),
		},
		{ what: 'alg twice', token: signToken(key, '{"alg":"none","alg":"RS256"}', JSON.stringify(good)) },
	];
}

function badSubjects(key: TokenKey, good: TokenClaims): HostileToken[] {
	const { sub: _sub, ...rest } = good;
	const subjects: [string, unknown][] = [
		['that is empty', ''],
		['that is null', null],
		['that is an array', ['tenant']],
		['that is a number', 7],
		['with a space in front', ' tenant'],
		['with a space behind', 'tenant '],
		['with CR and LF', 'tenant\r\nx-proxy-tenant: root'],
		['with NUL', 'ten\0ant'],
		['that is not ASCII', 'ténant'],
		['of 257 characters', 'a'.repeat(257)],
	];
	return [
		{ what: 'no sub', token: mintToken(key, rest) },
		...subjects.map(([what, sub]) => ({ what: `a sub ${what}`, token: mintToken(key, { ...rest, sub }) })),
	];
}

const RS256 = '{"alg":"RS256","typ":"JWT"}';

function encoded(value: unknown): string {
	return Buffer.from(JSON.stringify(value)).toString('base64url');
}

function hmac(secret: string | Buffer): (input: Buffer) => Buffer {
	return (input) => createHmac('sha256', secret).update(input).digest();
}

const ALPHABET = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_';

/** 256 bytes leave four unused bits in the last character: its neighbour decodes to the same bytes. */
function next(character: string): string {
	return ALPHABET[ALPHABET.indexOf(character) + 1]!;
}

/** Six question marks are a `_` somewhere, whatever stands in front of them. */
function plainBase64(token: string): string {
	return token.replaceAll('-', '+').replaceAll('_', '/');
}

function flipped(token: string, signature: string): string {
	const bytes = Buffer.from(signature, 'base64url');
	bytes[100]! ^= 1;
	return token.slice(0, -signature.length) + bytes.toString('base64url');
}
