import assert from 'node:assert/strict';
import { X509Certificate } from 'node:crypto';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { before, describe, it } from 'node:test';
import tls from 'node:tls';
import {
	type Authority,
	createAuthority,
	type Issued,
	issue,
	type Validity,
} from '../../../packages/proxy/src/cli/demo/pki.ts';

const HOUR = 3_600_000;
const now = Date.now();
const valid: Validity = { notBefore: new Date(now - HOUR), notAfter: new Date(now + HOUR) };

describe('development certificates', () => {
	let root: Authority;
	let server: Issued;

	before(async () => {
		root = await createAuthority({ commonName: 'Test root', ...valid });
		server = await issue(root, {
			commonName: 'proxy',
			sans: ['localhost', '127.0.0.1', '::1'],
			usages: 'server',
			...valid,
		});
	});

	/** One handshake; what the server thought of the client's certificate. */
	async function handshake({ keyPem, certPem }: Issued, clientCa = root.certPem): Promise<string> {
		const listener = tls.createServer({
			key: server.keyPem,
			cert: server.certPem,
			ca: clientCa,
			requestCert: true,
			rejectUnauthorized: false,
		});
		listener.listen(0, '127.0.0.1');
		await once(listener, 'listening');
		const secured = once(listener, 'secureConnection');
		const socket = tls.connect({
			port: (listener.address() as AddressInfo).port,
			host: '127.0.0.1',
			servername: 'localhost',
			ca: root.certPem,
			key: keyPem,
			cert: certPem,
		});
		socket.on('error', () => {});
		try {
			const [peer] = (await secured) as [tls.TLSSocket];
			if (peer.authorized) return 'authorized';
			// The types say `Error`; what Node puts there is the code of X509_verify_cert_error_string.
			return String(peer.authorizationError);
		} finally {
			socket.destroy();
			listener.close();
		}
	}

	const client = { commonName: 'client', usages: 'client' } as const;

	it('makes a root that signs itself and may issue', () => {
		const certificate = new X509Certificate(root.certPem);
		assert.equal(certificate.ca, true);
		assert.equal(certificate.subject, 'CN=Test root');
		assert.equal(certificate.issuer, 'CN=Test root');
		assert.ok(certificate.verify(certificate.publicKey));
		assert.equal(root.chainPem, '');
	});

	it('makes a leaf whose key, names, validity, usage and serial number are what was asked for', () => {
		const certificate = new X509Certificate(server.certPem);
		assert.ok(certificate.verify(new X509Certificate(root.certPem).publicKey));
		assert.ok(certificate.checkIssued(new X509Certificate(root.certPem)));
		assert.equal(certificate.ca, false);
		assert.equal(certificate.subjectAltName, 'DNS:localhost, IP Address:127.0.0.1, IP Address:0:0:0:0:0:0:0:1');
		assert.deepEqual(certificate.keyUsage, ['1.3.6.1.5.5.7.3.1']);
		assert.equal(certificate.serialNumber, server.serialNumber);
		assert.equal(Math.floor(certificate.validFromDate.getTime() / 1000), Math.floor(valid.notBefore.getTime() / 1000));
		assert.equal(Math.floor(certificate.validToDate.getTime() / 1000), Math.floor(valid.notAfter.getTime() / 1000));
		assert.ok(tls.createSecureContext({ key: server.keyPem, cert: server.certPem }));
	});

	it('passes a common name on literally, also one that looks like a distinguished name', async () => {
		const issued = await issue(root, { ...client, commonName: 'a, CN=admin+O=x', ...valid });
		assert.equal(new X509Certificate(issued.certPem).toLegacyObject().subject.CN, 'a, CN=admin+O=x');
	});

	it('shows a client with four intermediates as trusted, and as untrusted without them', async () => {
		let issuer = root;
		for (let depth = 1; depth <= 4; depth++) {
			issuer = await createAuthority({ commonName: `Intermediate ${depth}`, issuer, ...valid });
		}
		const issued = await issue(issuer, { ...client, ...valid });
		assert.equal(issued.certPem.match(/BEGIN CERTIFICATE/g)?.length, 5);
		assert.equal(await handshake(issued), 'authorized');
		const leafAlone = issued.certPem.slice(
			0,
			issued.certPem.indexOf('-----END') + '-----END CERTIFICATE-----\n'.length,
		);
		assert.notEqual(await handshake({ ...issued, certPem: leafAlone }), 'authorized');
	});

	it('trusts both authorities in a rotation bundle, with the same name', async () => {
		const rotated = await createAuthority({ commonName: 'Test root', ...valid });
		const bundle = root.certPem + rotated.certPem;
		assert.equal(await handshake(await issue(rotated, { ...client, ...valid }), bundle), 'authorized');
		assert.equal(await handshake(await issue(root, { ...client, ...valid }), bundle), 'authorized');
	});
});
