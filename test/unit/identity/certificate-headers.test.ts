import assert from 'node:assert/strict';
import { X509Certificate } from 'node:crypto';
import { describe, it } from 'node:test';
import { createAuthority } from '../../../packages/proxy/src/cli/demo/pki.ts';
import { Caller } from '../../../packages/proxy/src/identity/caller.ts';
import {
	CertificateHeaders,
	type CertificateHeadersSeed,
} from '../../../packages/proxy/src/identity/certificate-headers.ts';
import { loadNameReader } from '../../../packages/proxy/src/identity/certificate-names.ts';
import { XFCC_MEMBERS } from '../../../packages/proxy/src/identity/forwarded-client-cert.ts';
import { dns, issueNamed, uri } from '../../fixtures/named-certificates.ts';

const read = await loadNameReader();

/** The certificates of RFC 9440 appendix A: client, intermediate, root. */
const EXAMPLE = [
	`MIIBqDCCAU6gAwIBAgIBBzAKBggqhkjOPQQDAjA6MRswGQYDVQQKDBJMZXQncyBB
	dXRoZW50aWNhdGUxGzAZBgNVBAMMEkxBIEludGVybWVkaWF0ZSBDQTAeFw0yMDAx
	MTQyMjU1MzNaFw0yMTAxMjMyMjU1MzNaMA0xCzAJBgNVBAMMAkJDMFkwEwYHKoZI
	zj0CAQYIKoZIzj0DAQcDQgAE8YnXXfaUgmnMtOXU/IncWalRhebrXmckC8vdgJ1p
	5Be5F/3YC8OthxM4+k1M6aEAEFcGzkJiNy6J84y7uzo9M6NyMHAwCQYDVR0TBAIw
	ADAfBgNVHSMEGDAWgBRm3WjLa38lbEYCuiCPct0ZaSED2DAOBgNVHQ8BAf8EBAMC
	BsAwEwYDVR0lBAwwCgYIKwYBBQUHAwIwHQYDVR0RAQH/BBMwEYEPYmRjQGV4YW1w
	bGUuY29tMAoGCCqGSM49BAMCA0gAMEUCIBHda/r1vaL6G3VliL4/Di6YK0Q6bMje
	SkC3dFCOOB8TAiEAx/kHSB4urmiZ0NX5r5XarmPk0wmuydBVoU4hBVZ1yhk=`,
	`MIIB5jCCAYugAwIBAgIBFjAKBggqhkjOPQQDAjBWMQswCQYDVQQGEwJVUzEbMBkG
	A1UECgwSTGV0J3MgQXV0aGVudGljYXRlMSowKAYDVQQDDCFMZXQncyBBdXRoZW50
	aWNhdGUgUm9vdCBBdXRob3JpdHkwHhcNMjAwMTE0MjEzMjMwWhcNMzAwMTExMjEz
	MjMwWjA6MRswGQYDVQQKDBJMZXQncyBBdXRoZW50aWNhdGUxGzAZBgNVBAMMEkxB
	IEludGVybWVkaWF0ZSBDQTBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABJf+aA54
	RC5pyLAR5yfXVYmNpgd+CGUTDp2KOGhc0gK91zxhHesEYkdXkpS2UN8Kati+yHtW
	CV3kkhCngGyv7RqjZjBkMB0GA1UdDgQWBBRm3WjLa38lbEYCuiCPct0ZaSED2DAf
	BgNVHSMEGDAWgBTEA2Q6eecKu9g9yb5glbkhhVINGDASBgNVHRMBAf8ECDAGAQH/
	AgEAMA4GA1UdDwEB/wQEAwIBhjAKBggqhkjOPQQDAgNJADBGAiEA5pLvaFwRRkxo
	mIAtDIwg9D7gC1xzxBl4r28EzmSO1pcCIQCJUShpSXO9HDIQMUgH69fNDEMHXD3R
	RX5gP7kuu2KGMg==`,
	`MIICBjCCAaygAwIBAgIJAKS0yiqKtlhoMAoGCCqGSM49BAMCMFYxCzAJBgNVBAYT
	AlVTMRswGQYDVQQKDBJMZXQncyBBdXRoZW50aWNhdGUxKjAoBgNVBAMMIUxldCdz
	IEF1dGhlbnRpY2F0ZSBSb290IEF1dGhvcml0eTAeFw0yMDAxMTQyMTI1NDVaFw00
	MDAxMDkyMTI1NDVaMFYxCzAJBgNVBAYTAlVTMRswGQYDVQQKDBJMZXQncyBBdXRo
	ZW50aWNhdGUxKjAoBgNVBAMMIUxldCdzIEF1dGhlbnRpY2F0ZSBSb290IEF1dGhv
	cml0eTBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABFoaHU+Z5bPKmGzlYXtCf+E6
	HYj62fORaHDOrt+yyh3H/rTcs7ynFfGn+gyFsrSP3Ez88rajv+U2NfD0o0uZ4Pmj
	YzBhMB0GA1UdDgQWBBTEA2Q6eecKu9g9yb5glbkhhVINGDAfBgNVHSMEGDAWgBTE
	A2Q6eecKu9g9yb5glbkhhVINGDAPBgNVHRMBAf8EBTADAQH/MA4GA1UdDwEB/wQE
	AwIBhjAKBggqhkjOPQQDAgNIADBFAiEAmAeg1ycKHriqHnaD4M/UDBpQRpkmdcRF
	YGMg1Qyrkx4CIB4ivz3wQcQkGhcsUZ1SOImd/lq1Q0FLf09rGfLQPWDc`,
].map((text) => text.replaceAll(/\s/g, ''));

const fromBase64 = (text: string) => new X509Certificate(Buffer.from(text, 'base64'));

/** A certificate as a socket gives it: with the further certificates that the client has sent. */
function presented(leaf: X509Certificate, ...behind: X509Certificate[]): X509Certificate {
	let last = leaf;
	for (const next of behind) {
		Object.defineProperty(last, 'issuerCertificate', { value: next });
		last = next;
	}
	return leaf;
}

function lines(seed: Partial<CertificateHeadersSeed>, certificate: X509Certificate, own?: X509Certificate): string[] {
	const headers = new CertificateHeaders({ clientCert: 'none', xfcc: undefined, ...seed }, read);
	const text = new Caller(certificate, () => own).lines(headers);
	// Each line is whole, and nothing in a value ends it.
	assert.match(text, /^(?:[a-z-]+: [\x20-\x7e]+\r\n)*$/);
	return text.split('\r\n').slice(0, -1);
}

const xfcc = (certificate: X509Certificate, members: CertificateHeadersSeed['xfcc'], own?: X509Certificate) =>
	lines({ xfcc: members }, certificate, own).map((line) => line.replace('x-forwarded-client-cert: ', ''))[0]!;

describe('Client-Cert and Client-Cert-Chain', () => {
	const [leaf, intermediate, root] = EXAMPLE as [string, string, string];
	const chain = () => presented(fromBase64(leaf), fromBase64(intermediate), fromBase64(root));

	it('match the example of RFC 9440', () => {
		assert.deepEqual(lines({ clientCert: 'chain' }, chain()), [
			`client-cert: :${leaf}:`,
			`client-cert-chain: :${intermediate}:, :${root}:`,
		]);
	});

	it('have only the leaf if the route asks for it, or if there is no chain', () => {
		assert.deepEqual(lines({ clientCert: 'leaf' }, chain()), [`client-cert: :${leaf}:`]);
		assert.deepEqual(lines({ clientCert: 'chain' }, fromBase64(leaf)), [`client-cert: :${leaf}:`]);
	});

	it('contain only those certificates of the client that signed the one before', async () => {
		const forged = await createAuthority({
			commonName: 'LA Intermediate CA',
			notBefore: new Date(0),
			notAfter: new Date(2e12),
		});
		const other = new X509Certificate(forged.certPem);
		assert.deepEqual(lines({ clientCert: 'chain' }, presented(fromBase64(leaf), other)), [`client-cert: :${leaf}:`]);
		assert.deepEqual(lines({ clientCert: 'chain' }, presented(fromBase64(leaf), fromBase64(intermediate), other)), [
			`client-cert: :${leaf}:`,
			`client-cert-chain: :${intermediate}:`,
		]);
	});

	it('contain at most eight issuers and 16 KiB of them, whatever the client sends', async () => {
		// A root has signed itself, so it can be its own issuer any number of times.
		const issuersOf = (from: () => X509Certificate) =>
			lines({ clientCert: 'chain' }, presented(from(), ...Array.from({ length: 12 }, from)))[1]!.split(', ').length;
		assert.equal(
			issuersOf(() => fromBase64(root)),
			8,
		);
		const large = await createAuthority({
			commonName: 'x'.repeat(3000),
			notBefore: new Date(0),
			notAfter: new Date(2e12),
		});
		const { length } = new X509Certificate(large.certPem).raw;
		assert.ok(2 * length < 16_384 && 3 * length > 16_384);
		assert.equal(
			issuersOf(() => new X509Certificate(large.certPem)),
			2,
		);
	});

	it('are computed once for a connection', () => {
		let asked = 0;
		const certificate = {
			get raw() {
				asked++;
				return Buffer.from('der');
			},
		} as unknown as X509Certificate;
		const caller = new Caller(certificate, () => undefined);
		for (let i = 0; i < 3; i++) {
			// Each routing table has its own.
			const headers = new CertificateHeaders({ clientCert: 'leaf', xfcc: undefined }, undefined);
			assert.equal(caller.lines(headers), 'client-cert: :ZGVy:\r\n');
		}
		assert.equal(asked, 1);
	});
});

describe('x-forwarded-client-cert', async () => {
	const subject = [{ C: ['US'] }, { O: ['Example, Inc.'] }, { CN: ['client'] }];
	const { x509 } = await issueNamed({
		subject,
		sans: [uri('spiffe://example.org/ns/pay/card'), dns('a.internal'), dns('b.internal')],
	});
	const hash = `Hash=${x509.fingerprint256.replaceAll(':', '').toLowerCase()}`;

	it('has Hash, and on request Subject, URI and DNS, in the order of Envoy', () => {
		assert.equal(xfcc(x509, []), hash);
		assert.equal(
			xfcc(x509, ['dns', 'uri', 'subject']),
			`${hash};Subject="CN=client,O=Example\\, Inc.,C=US";URI=spiffe://example.org/ns/pay/card;DNS=a.internal;DNS=b.internal`,
		);
	});

	it('has By if the certificate of the proxy has a URI', async () => {
		const own = await issueNamed({ sans: [uri('spiffe://example.org/edge'), dns('edge')] });
		assert.equal(xfcc(x509, [], own.x509), `By=spiffe://example.org/edge;${hash}`);
	});

	it('has the certificate, and the chain with it, as PEM in the encoding of URLs', () => {
		const members = new Map(
			xfcc(presented(fromBase64(EXAMPLE[0]!), fromBase64(EXAMPLE[1]!)), ['cert', 'chain'])
				.split(';')
				.map((one) => /^([A-Za-z]+)="?([^"]*)"?$/.exec(one)!.slice(1) as [string, string]),
		);
		const pem = (text: string) => new X509Certificate(Buffer.from(text, 'base64')).toString();
		assert.equal(decodeURIComponent(members.get('Cert')!), pem(EXAMPLE[0]!));
		assert.equal(decodeURIComponent(members.get('Chain')!), pem(EXAMPLE[0]!) + pem(EXAMPLE[1]!));
		assert.match(members.get('Cert')!, /^-----BEGIN%20CERTIFICATE-----%0A[A-Za-z0-9%]+-----END%20CERTIFICATE-----%0A$/);
	});

	it('is parsed correctly by others, whatever the names contain', async () => {
		const hostile = [
			'", By=x',
			'\\',
			'\\"',
			'x";URI=spiffe://example.org/admin',
			'a,b;c=d',
			'a\r\nx-evil: 1',
			'ä ß',
			'\0',
			'+ = +',
		];
		for (const text of hostile) {
			const twisted = await issueNamed({
				subject: [{ CN: [text] }, { O: [text] }],
				sans: [uri(text), uri('https://a/b,c;d=e'), dns(text), dns('plain')],
			});
			const value = xfcc(twisted.x509, [...XFCC_MEMBERS]);
			for (const escapes of [true, false]) {
				const members = parseXfcc(value, escapes);
				assert.deepEqual(
					members.map(([key]) => key).filter((key) => key !== 'URI' && key !== 'DNS'),
					['Hash', 'Cert', 'Chain', 'Subject'],
					value,
				);
				const urls = members.filter(([key]) => key === 'URI').map(([, one]) => one);
				assert.ok(urls.includes('https://a/b,c;d=e'));
				for (const url of urls) assert.ok([text, 'https://a/b,c;d=e'].includes(url!), url);
			}
		}
	});

	it('has no names if they cannot be read', async () => {
		const { x509: twice } = await issueNamed({ sans: [dns('a')], moreSans: [dns('b')] });
		assert.match(xfcc(twice, ['uri', 'dns', 'subject']), /^Hash=[0-9a-f]{64};Subject="CN=client"$/);
	});
});

/** Two readers: one takes `\"` for a quote within the value, the other knows no such thing. */
function parseXfcc(value: string, escapes: boolean): [key: string, value: string][] {
	const pairs: [string, string][] = [];
	const pair = escapes
		? /([A-Za-z]+)=(?:"((?:\\"|[^"])*)"|([^;,"]*))(?:;|$)/y
		: /([A-Za-z]+)=(?:"([^"]*)"|([^;,"]*))(?:;|$)/y;
	while (pair.lastIndex < value.length) {
		const [, key, quoted, plain] = pair.exec(value) ?? assert.fail(`cannot be read: ${value}`);
		pairs.push([key!, quoted ?? plain!]);
	}
	return pairs;
}
