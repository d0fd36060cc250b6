import assert from 'node:assert/strict';
import { test } from 'node:test';
import { crlsDue } from '../../../../packages/proxy/src/control/facts/certificates.ts';
import type { CrlSeed } from '../../../../packages/proxy/src/identity/client-chain.ts';

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
