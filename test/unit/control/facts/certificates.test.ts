import assert from 'node:assert/strict';
import { X509Certificate } from 'node:crypto';
import { describe, test } from 'node:test';
import { NOTHING_REVOKED } from '../../../../packages/gate/src/identity/revocations.ts';
import { crlsDue, expiringOf, expiringOfUpstreams } from '../../../../packages/proxy/src/control/facts/certificates.ts';
import type { CrlSeed } from '../../../../packages/proxy/src/identity/client-chain.ts';
import { serialMemory } from '../../../fixtures/crl.ts';
import { testPki } from '../../../fixtures/pki.ts';

const pki = await testPki();
const expiryOf = (pem: string) => new X509Certificate(pem).validToDate.getTime() / 1000;

function material(ca: string, crls: readonly CrlSeed[] = []) {
	const rules = { crlRequired: false, revoked: NOTHING_REVOKED, endAtExpiry: true, endAtCaRemoval: false };
	return { cert: pki.server.certPem, key: '', ca, clients: { ...rules, crls } };
}

const CRL = {
	caId: 'a',
	issuer: 'CN=A\nO=X',
	covers: 'all',
	serials: serialMemory([]),
	thisUpdate: 0,
	nextUpdate: 50,
} as const;

describe('certificates and CRLs that expire', () => {
	test("are the server's certificate and each CA of the bundle, even if two share a name", () => {
		const found = expiringOf(material(pki.ca.certPem + pki.otherCa.certPem + pki.ca.certPem));
		const [server, ca, otherCa, ...others] = found;
		assert.deepEqual([server!.kind, server!.expiresSeconds], ['server', expiryOf(pki.server.certPem)]);
		assert.deepEqual([ca!.kind, ca!.expiresSeconds], ['client_ca', expiryOf(pki.ca.certPem)]);
		assert.equal(otherCa!.subject, ca!.subject);
		assert.notEqual(otherCa!.serial, ca!.serial);
		assert.deepEqual(others, [], 'one that stands there twice is one');
	});

	test('is the freshest CRL of each CA, and of CAs with one name the one that runs out first', () => {
		const crls = [CRL, { ...CRL, nextUpdate: 60 }, { ...CRL, caId: 'b', nextUpdate: 55 }];
		const found = expiringOf(material(pki.ca.certPem, crls)).filter(({ kind }) => kind === 'crl');
		assert.deepEqual(found, [{ kind: 'crl', subject: 'CN=A, O=X', serial: '', expiresSeconds: 55 }]);
	});

	test('is worked out once for the material in force', () => {
		const one = material(pki.ca.certPem);
		assert.equal(expiringOf(one), expiringOf(one));
	});

	test('are the certificates for upstreams and their CAs, each once', () => {
		const { certPem: cert, keyPem: key } = pki.clients.fourIntermediates;
		const tls = { cert, key, ca: pki.ca.certPem, serverName: undefined, minVersion: undefined, verify: true };
		const found = expiringOfUpstreams([tls, { ...tls, serverName: 'a' }, { ...tls, ca: undefined, cert: undefined }]);
		assert.deepEqual(
			found.map(({ kind }) => kind),
			[...Array(5).fill('upstream_client'), 'upstream_ca'],
		);
		assert.equal(found[5]!.expiresSeconds, expiryOf(pki.ca.certPem));
	});
});

function crl(caId: string, nextUpdate: number, covers: CrlSeed['covers'] = 'all', points?: string[]): CrlSeed {
	return { caId, issuer: 'CN=ca', thisUpdate: 0, nextUpdate, covers, points, serials: {} as CrlSeed['serials'] };
}

test('the freshest CRL of a CA counts, and does not hide an overdue one of another CA with that name', () => {
	assert.deepEqual([...crlsDue([crl('a', 100), crl('a', 300), crl('a', 200)])], [['CN=ca', 300]]);
	assert.deepEqual([...crlsDue([crl('a', 300), crl('b', -50)])], [['CN=ca', -50]]);
	assert.deepEqual([...crlsDue([crl('b', -50), crl('b', 400), crl('a', 300)])], [['CN=ca', 300]]);
});

test('a fresh CRL of authorities does not hide an overdue one of users', () => {
	assert.deepEqual([...crlsDue([crl('a', 300, 'authorities'), crl('a', -50, 'users')])], [['CN=ca', -50]]);
	assert.deepEqual([...crlsDue([crl('a', 300, 'all', ['one']), crl('a', -50, 'all', ['two'])])], [['CN=ca', -50]]);
});
