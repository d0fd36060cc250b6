import assert from 'node:assert/strict';
import { X509Certificate } from 'node:crypto';
import { before, describe, test } from 'node:test';
import { caId, factsOf } from '../../../packages/gate/src/identity/certificate-facts.ts';
import {
	canonicalSerial,
	issuerKey,
	NOTHING_REVOKED,
	type RevocationList,
	RevokedCertificates,
} from '../../../packages/gate/src/identity/revocations.ts';
import type { Authority } from '../../../packages/proxy/src/cli/demo/pki.ts';
import { type ChainFault, ChainRevocation, type CrlSeed } from '../../../packages/proxy/src/identity/client-chain.ts';
import { serialMemory } from '../../fixtures/crl.ts';
import { type ClientCert, type TestPki, testPki } from '../../fixtures/pki.ts';
import { presentedChain } from '../../fixtures/presented-chain.ts';
import { certify, newKeys, presenting } from '../../fixtures/second-certificates.ts';

const NOW = 1_800_000_000;
const TEST_CA = issuerKey('CN=Test CA')!;

let pki: TestPki;
let root: X509Certificate;
/** Below the root; an intermediate and, below that, another one. */
let upper: Authority;
let lower: Authority;
let client: ClientCert;
let below: ClientCert;
let leaf: X509Certificate;
before(async () => {
	pki = await testPki();
	root = new X509Certificate(pki.ca.certPem);
	upper = await pki.issueAuthority('Upper');
	lower = await pki.issueAuthority('Lower', upper);
	[client, below] = [await pki.issueClient(), await pki.issueClient({}, lower)];
	leaf = new X509Certificate(client.certPem);
});

const certificateOf = ({ certPem }: { readonly certPem: string }) => new X509Certificate(certPem);

function crlOf(issuer: X509Certificate, revoked: readonly X509Certificate[], more: Partial<CrlSeed> = {}): CrlSeed {
	const serials = serialMemory(revoked.map((certificate) => factsOf(certificate).serial));
	return { caId: caId(issuer), issuer: 'CN=x', thisUpdate: NOW, nextUpdate: NOW + 60, covers: 'all', serials, ...more };
}

/** The same certificate with a key of a kind that there is not. */
function withUnknownKey(pem: string): string {
	const { raw } = new X509Certificate(pem);
	// id-ecPublicKey (RFC 5480 section 2.1.1).
	const oid = Buffer.from('2a8648ce3d0201', 'hex');
	const other = Buffer.from('2a8648ce3d027f', 'hex');
	const changed = Buffer.from(
		raw.toString('latin1').replace(oid.toString('latin1'), other.toString('latin1')),
		'latin1',
	);
	return new X509Certificate(changed).toString();
}

/** Self-signed, with empty names: `openssl req -x509 -subj /`. */
const NAMELESS = `-----BEGIN CERTIFICATE-----
MIIBUzCB+6ADAgECAhR8LATCwFolGfck1BpblEvy9ywgrDAKBggqhkjOPQQDAjAA
MB4XDTI2MTEyMjA1NTgyM1oXDTI2MTIyMjA1NTgyM1owADBZMBMGByqGSM49AgEG
CCqGSM49AwEHA0IABDLxT0Y4X8V58mvTr1goYqHwDCL56dkUtq3gMuCILblnwS0n
Eka2vjbY1eNAFIZjn3H8skK1y3OZx4diO+QqVESjUzBRMB0GA1UdDgQWBBQjpgb8
SKmGhG/aNbCFmWFVkEN1FTAfBgNVHSMEGDAWgBQjpgb8SKmGhG/aNbCFmWFVkEN1
FTAPBgNVHRMBAf8EBTADAQH/MAoGCCqGSM49BAMCA0cAMEQCIGUbaa5KIoyVGa8E
5ZEmpuOBXq5P0N/LxOuDHXGfQ9rpAiB1vVJbd52PF96/Zvx+JDONyiIatnuj6Xys
KsAi6s8cOA==
-----END CERTIFICATE-----`;

interface Rules {
	readonly bundle?: readonly X509Certificate[];
	readonly crls?: readonly CrlSeed[];
	readonly required?: boolean;
	readonly list?: Partial<RevocationList>;
	/** When OpenSSL accepted the chain, seconds since the epoch. */
	readonly seconds?: number;
}

function judge(
	certificate: X509Certificate,
	{ bundle = [root], crls = [], required = false, list, seconds = Date.now() / 1000 }: Rules,
): ChainFault | 'good' {
	const revoked = new RevokedCertificates({ ...NOTHING_REVOKED, ...list });
	const admission = { bundle: { cas: bundle }, seconds };
	return new ChainRevocation(crls, required, revoked).judge(certificate, admission, NOW) ?? 'good';
}

describe("a client's chain", () => {
	test('is good while none of it is revoked', () => {
		assert.equal(judge(leaf, {}), 'good');
		assert.equal(judge(leaf, { crls: [crlOf(root, [])] }), 'good');
		assert.equal(judge(leaf, { crls: [crlOf(root, [certificateOf(pki.server)])] }), 'good');
	});

	test('is revoked only by a CRL of the CA that issued it, fresh or not', () => {
		assert.equal(judge(leaf, { crls: [crlOf(root, [leaf])] }), 'revoked');
		assert.equal(judge(leaf, { crls: [crlOf(root, []), crlOf(root, [leaf])] }), 'revoked');
		assert.equal(judge(leaf, { crls: [crlOf(root, [leaf], { nextUpdate: 1 })] }), 'revoked');
		// The same name and the same serial number, and another key.
		const other = certificateOf(pki.otherCa);
		assert.equal(other.subject, root.subject);
		assert.equal(judge(leaf, { bundle: [other, root], crls: [crlOf(other, [leaf])] }), 'good');
	});

	test('is accepted only if it ends in the bundle', () => {
		assert.equal(judge(leaf, { bundle: [certificateOf(pki.otherCa)] }), 'unknown CA');
		assert.equal(judge(leaf, { bundle: [] }), 'unknown CA');
	});

	test('is revoked with an intermediate that the client sent or that is in the bundle', async () => {
		const whole = await presentedChain(below);
		assert.equal(judge(whole, {}), 'good');
		const revokesUpper = crlOf(root, [certificateOf(upper)]);
		assert.equal(judge(whole, { crls: [revokesUpper] }), 'revoked');
		assert.equal(judge(whole, { crls: [crlOf(certificateOf(upper), [certificateOf(lower)])] }), 'revoked');
		assert.equal(judge(whole, { crls: [crlOf(certificateOf(lower), [whole])] }), 'revoked');
		// Without the rest of its chain, since that is in the bundle.
		const alone = new X509Certificate(below.certPem);
		const bundle = [root, certificateOf(upper), certificateOf(lower)];
		assert.equal(judge(alone, { bundle }), 'good');
		assert.equal(judge(alone, { bundle, crls: [crlOf(certificateOf(upper), [certificateOf(lower)])] }), 'revoked');
		// A CA of the bundle is the operator's own word: who has issued it is not asked.
		assert.equal(judge(alone, { bundle, crls: [revokesUpper] }), 'good');
	});

	test('is accepted with a trailing certificate whose key cannot be read', async () => {
		const stray = await presentedChain({ ...client, certPem: client.certPem + withUnknownKey(upper.certPem) });
		assert.throws(() => stray.issuerCertificate!.publicKey, 'the server has it');
		assert.equal(judge(stray, {}), 'good');
		assert.equal(judge(stray, { crls: [crlOf(root, [leaf])] }), 'revoked');
		assert.equal(judge(stray, { bundle: [certificateOf(pki.otherCa)] }), 'unknown CA');
	});

	test('is found after any number of unrelated certificates', async () => {
		const strays = await Promise.all(Array.from({ length: 12 }, (_, i) => pki.issueAuthority(`Stray ${i}`)));
		const [first, ...others] = below.certPem.split(/(?<=END CERTIFICATE-----\n)/);
		const whole = presenting([first!, ...strays.map(({ certPem }) => certPem), ...others.filter(Boolean)]);
		assert.equal(judge(whole, {}), 'good');
		assert.equal(judge(whole, { crls: [crlOf(root, [certificateOf(upper)])] }), 'revoked');
	});

	test('is refused if the client presents more than 32 certificates of one CA', async () => {
		const keys = await newKeys();
		const many = await Promise.all(Array.from({ length: 33 }, () => certify(pki.ca, 'Many', keys)));
		const middle = await certify(many[0], 'Middle', await newKeys());
		for (const [issuer, between] of [
			[many[0], []],
			[middle, [middle]],
		] as const) {
			const [end] = (await pki.issueClient({}, issuer)).certPem.split(/(?<=END CERTIFICATE-----\n)/);
			const verdict = (count: number) =>
				judge(presenting([end!, ...[...between, ...many.slice(0, count)].map(({ certPem }) => certPem)]), {});
			const most = 32 - between.length;
			assert.deepEqual([verdict(most), verdict(most + 1)], ['good', 'bad certificate']);
		}
	});

	test('may have a CA that has expired within the last minute, and none that is not valid yet', async () => {
		const ca = await certify(pki.ca, 'Hour', await newKeys(), { from: -1, to: 1 });
		const { notBefore, notAfter } = ca.certificate;
		const [end] = (await pki.issueClient({}, ca)).certPem.split(/(?<=END CERTIFICATE-----\n)/);
		const at = (seconds: number) => judge(presenting([end!, ca.certPem]), { seconds });
		const [from, to] = [notBefore, notAfter].map((date) => date.getTime() / 1000) as [number, number];
		assert.deepEqual([from - 1, from, to + 60, to + 61].map(at), ['unknown CA', 'good', 'good', 'unknown CA']);
	});

	test('is as long as a CA allows, not counting certificates that the CA has issued to itself', async () => {
		const top = await certify(undefined, 'Top', await newKeys(), { pathLength: 0 });
		const bundle = [certificateOf(top)];
		for (const [name, verdict] of [
			['Top', 'good'],
			['Other', 'unknown CA'],
		] as const) {
			const ca = await certify(top, name, await newKeys());
			const [end] = (await pki.issueClient({}, ca)).certPem.split(/(?<=END CERTIFICATE-----\n)/);
			assert.equal(judge(presenting([end!, ca.certPem]), { bundle }), verdict, name);
		}
	});

	test('is revoked by the serial number that DER has, negative or not, and by no other', async () => {
		const keys = await newKeys();
		const twentyOctets = `9C${'5A'.repeat(19)}`;
		const spellings: Record<string, readonly string[]> = {
			FF: ['FF', '-01', '-1'],
			'00FF': ['FF', '00FF', '00:ff'],
			[twentyOctets]: [twentyOctets, `-63${'A5'.repeat(18)}A6`],
			'01': ['01', '1', '0001'],
		};
		const certificates = await Promise.all(
			Object.keys(spellings).map((serial) => certify(pki.ca, 'x', keys, { serial, usage: 'client' })),
		);
		for (const [i, serials] of Object.values(spellings).entries()) {
			const one = certificateOf(certificates[i]!);
			for (const other of certificates.map(certificateOf)) {
				const expected = other.raw.equals(one.raw) ? 'revoked' : 'good';
				assert.equal(judge(other, { crls: [crlOf(root, [one])] }), expected, serials.join());
			}
			for (const serial of serials) {
				const list = { serials: [{ issuer: TEST_CA, serial: canonicalSerial(serial) }] };
				assert.equal(judge(one, { list }), 'revoked', serial);
			}
		}
		const list = { serials: [{ issuer: TEST_CA, serial: canonicalSerial('00FF') }] };
		assert.equal(judge(certificateOf(certificates[0]!), { list }), 'good', 'minus one is not 255');
	});

	test('may be a CA of the bundle itself', () => {
		const bundle = [root, certificateOf(upper)];
		assert.equal(judge(certificateOf(upper), { bundle }), 'good');
		assert.equal(judge(certificateOf(upper), { bundle, crls: [crlOf(root, [certificateOf(upper)])] }), 'revoked');
	});

	test('has a fresh CRL for each of its certificates, if that is required', async () => {
		const whole = await presentedChain(below);
		const [u, l] = [certificateOf(upper), certificateOf(lower)];
		const required = true;
		assert.equal(judge(leaf, { required }), 'no fresh CRL');
		assert.equal(judge(leaf, { required, crls: [crlOf(root, [])] }), 'good');
		assert.equal(judge(leaf, { required, crls: [crlOf(root, [], { nextUpdate: NOW })] }), 'no fresh CRL');
		assert.equal(judge(leaf, { required, crls: [crlOf(root, [], { thisUpdate: NOW + 1 })] }), 'no fresh CRL');
		assert.equal(judge(leaf, { crls: [crlOf(root, [leaf], { thisUpdate: NOW + 1 })] }), 'revoked');
		assert.equal(judge(leaf, { required, crls: [crlOf(root, [], { nextUpdate: NOW }), crlOf(root, [])] }), 'good');
		assert.equal(judge(leaf, { required, crls: [crlOf(root, [leaf], { nextUpdate: NOW })] }), 'revoked');
		const all = [crlOf(root, []), crlOf(u, []), crlOf(l, [])];
		assert.equal(judge(whole, { required, crls: all }), 'good');
		for (const missing of all) {
			assert.equal(judge(whole, { required, crls: all.filter((crl) => crl !== missing) }), 'no fresh CRL');
		}
		// Only of CAs, and only of other certificates.
		assert.equal(judge(leaf, { required, crls: [crlOf(root, [], { covers: 'authorities' })] }), 'no fresh CRL');
		assert.equal(judge(leaf, { required, crls: [crlOf(root, [], { covers: 'users' })] }), 'good');
		assert.equal(
			judge(whole, { required, crls: [crlOf(root, [], { covers: 'users' }), ...all.slice(1)] }),
			'no fresh CRL',
		);
	});

	test('has a fresh CRL only if one of several lists covers it', async () => {
		const keys = await newKeys();
		const crlPoint = 'http://ca.example/1.crl';
		const [first, none] = (
			await Promise.all([certify(pki.ca, 'x', keys, { usage: 'client', crlPoint }), certify(pki.ca, 'x', keys)])
		).map(certificateOf);
		const point = (url: string) => [Buffer.concat([Buffer.from([0x86, url.length]), Buffer.from(url)]).toString('hex')];
		const lists = [crlOf(root, [], { points: point('http://ca.example/2.crl') })];
		assert.equal(judge(first!, { required: true, crls: lists }), 'no fresh CRL');
		lists.push(crlOf(root, [none!], { points: point(crlPoint) }));
		assert.equal(judge(first!, { required: true, crls: lists }), 'good');
		assert.equal(judge(leaf, { required: true, crls: lists }), 'no fresh CRL');
		assert.equal(judge(none!, { crls: lists }), 'revoked', 'whom a list names is revoked');
	});

	test('keeps its CRLs when its CA is reissued with its name in another letter case', async () => {
		const keys = await newKeys();
		const [before, after] = [await certify(undefined, 'The  CA', keys), await certify(undefined, 'the ca', keys)];
		const client = certificateOf(await certify(after, 'x', keys, { usage: 'client', isCa: false }));
		assert.equal(
			judge(client, { bundle: [certificateOf(after)], crls: [crlOf(certificateOf(before), [client])] }),
			'revoked',
		);
	});

	test('keeps its CRLs when its CA is reissued with the same key in another encoding', async () => {
		const keys = await newKeys();
		const above = await certify(undefined, 'Above', await newKeys());
		const first = await certify(above, 'Twice', keys);
		const second = await certify(above, 'Twice', keys, { compressedKey: true });
		const end = await certify(first, 'client', await newKeys(), { isCa: false, usage: 'client' });
		const rules = { bundle: [certificateOf(above)], required: true, crls: [crlOf(certificateOf(above), [])] };
		for (const [issuer, other] of [
			[first, second],
			[second, first],
		] as const) {
			const presented = presenting([end.certPem, other.certPem]);
			const crls = (revoked: X509Certificate[]) => [...rules.crls, crlOf(certificateOf(issuer), revoked)];
			assert.equal(judge(presented, { ...rules, crls: crls([]) }), 'good');
			assert.equal(judge(presented, { ...rules, crls: crls([presented]) }), 'revoked');
		}
	});

	test('is revoked by the list, by thumbprint or by issuer and serial number', async () => {
		const thumbprint = (certificate: X509Certificate) => certificate.fingerprint256.replaceAll(':', '');
		assert.equal(judge(leaf, { list: { certificates: [thumbprint(leaf)] } }), 'revoked');
		assert.equal(judge(leaf, { list: { certificates: [thumbprint(root)] } }), 'revoked');
		const whole = await presentedChain(below);
		assert.equal(judge(whole, { list: { certificates: [thumbprint(certificateOf(upper))] } }), 'revoked');
		const serial = canonicalSerial(leaf.serialNumber);
		assert.equal(judge(leaf, { list: { serials: [{ issuer: TEST_CA, serial }] } }), 'revoked');
		assert.equal(judge(leaf, { list: { serials: [{ issuer: issuerKey('CN=Other')!, serial }] } }), 'good');
		assert.equal(judge(leaf, { list: { serials: [{ issuer: TEST_CA, serial: `${serial}0` }] } }), 'good');
	});

	test('may have an issuer without a name', () => {
		const nameless = new X509Certificate(NAMELESS);
		assert.equal(nameless.issuer, undefined);
		const serials = [{ issuer: TEST_CA, serial: '01' }];
		assert.equal(judge(nameless, { list: { serials } }), 'unknown CA');
	});
});

describe('names and numbers of certificates', () => {
	test('have one canonical spelling', () => {
		assert.deepEqual(['00:0a:B1', 'ab1', '0', '00FF', '0ff', 'FF', '-1', '-00:ff'].map(canonicalSerial), [
			'0AB1',
			'0AB1',
			'00',
			'00FF',
			'00FF',
			'FF',
			'-01',
			'-FF',
		]);
	});
});
