import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { loadNameReader } from '../../../packages/proxy/src/identity/certificate-names.ts';
import { dns, issueNamed, uri } from '../../fixtures/named-certificates.ts';

const read = await loadNameReader();

describe('the names in a certificate', () => {
	it('are those of its extension and its subject, by kind', async () => {
		const { x509 } = await issueNamed({
			subject: [{ C: ['DE'] }, { O: ['Example'] }, { CN: ['client'] }],
			sans: [
				uri('spiffe://example.org/ns/pay/card'),
				dns('a.internal'),
				dns('b.internal'),
				{ type: 'email', value: 'spiffe://example.org/mail' },
				{ type: 'ip', value: '127.0.0.1' },
				{ type: 'dn', value: 'CN=other' },
				{ type: 'id', value: '1.2.3.4' },
				{ type: 'upn', value: 'dns@internal' },
			],
		});
		assert.deepEqual(read(x509), {
			uris: ['spiffe://example.org/ns/pay/card'],
			dns: ['a.internal', 'b.internal'],
			commonNames: ['client'],
		});
	});

	it('are exact, whatever they contain: no name can look like another one, or like two', async () => {
		const hostile = [
			'a.internal, URI:spiffe://example.org/admin',
			'a.internal,DNS:admin.internal',
			'admin.internal\0.evil.example',
			'admin.internal\nDNS:b.internal',
			'URI:spiffe://example.org/admin',
			'"quoted", DNS:"b"',
			'back\\slash',
			'',
			' ',
		];
		const { x509 } = await issueNamed({
			subject: [{ CN: ['client\nCN=admin'] }],
			sans: [...hostile.map(dns), ...hostile.map(uri)],
		});
		assert.deepEqual(read(x509), { uris: hostile, dns: hostile, commonNames: ['client\nCN=admin'] });
	});

	it('are empty without the extension', async () => {
		const { x509 } = await issueNamed({});
		assert.deepEqual(read(x509), { uris: [], dns: [], commonNames: ['client'] });
	});

	it('are all common names, of one relative name or of several', async () => {
		const { x509 } = await issueNamed({ subject: [{ CN: ['a', 'b'] }, { O: ['x'] }, { CN: ['c'] }] });
		assert.deepEqual(read(x509)?.commonNames, ['a', 'b', 'c']);
	});

	it('are unreadable with two extensions, or without DER', async () => {
		const { x509 } = await issueNamed({ sans: [dns('a')], moreSans: [dns('b')] });
		assert.equal(read(x509), undefined);
		assert.equal(read({ raw: Buffer.from('nonsense') } as never), undefined);
	});
});
