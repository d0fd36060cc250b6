import assert from 'node:assert/strict';
import { KeyObject, webcrypto, X509Certificate } from 'node:crypto';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { after, before, describe, it } from 'node:test';
import { type ConnectionOptions, connect, createServer, getCiphers, type Server } from 'node:tls';
import { listenerOptions, secureContextOptions, useSecureContext } from '../../../packages/gate/src/tls/tls-options.ts';
import { loadX509 } from '../../../packages/proxy/src/identity/x509.ts';
import type { TlsMaterial } from '../../../packages/proxy/src/shared/messages.ts';
import { type ClientCert, type TestPki, testPki } from '../../fixtures/pki.ts';

/** Forward secrecy and authenticated encryption, and nothing that RFC 9113 appendix A prohibits for HTTP/2. */
const SUITES = {
	'TLSv1.3': ['TLS_AES_256_GCM_SHA384', 'TLS_CHACHA20_POLY1305_SHA256', 'TLS_AES_128_GCM_SHA256'],
	ecdsa: ['ECDHE-ECDSA-AES128-GCM-SHA256', 'ECDHE-ECDSA-AES256-GCM-SHA384', 'ECDHE-ECDSA-CHACHA20-POLY1305'],
	rsa: ['ECDHE-RSA-AES128-GCM-SHA256', 'ECDHE-RSA-AES256-GCM-SHA384', 'ECDHE-RSA-CHACHA20-POLY1305'],
};

let pki: TestPki;
let material: TlsMaterial;
before(async () => {
	pki = await testPki();
	material = { cert: pki.server.certPem, key: pki.server.keyPem, ca: pki.ca.certPem };
});

/** Self-signed, which these tests do not check. The other tests use ECDSA. */
async function rsaIdentity(): Promise<Pick<TlsMaterial, 'cert' | 'key'>> {
	const { X509CertificateGenerator } = await loadX509();
	const algorithm = { name: 'RSASSA-PKCS1-v1_5', hash: 'SHA-256' };
	const keys = await webcrypto.subtle.generateKey(
		{ ...algorithm, modulusLength: 2048, publicExponent: new Uint8Array([1, 0, 1]) },
		true,
		['sign', 'verify'],
	);
	const certificate = await X509CertificateGenerator.createSelfSigned(
		{ name: 'CN=localhost', keys, signingAlgorithm: algorithm, notAfter: new Date(Date.now() + 3_600_000) },
		webcrypto as Crypto,
	);
	const key = KeyObject.from(keys.privateKey).export({ type: 'pkcs8', format: 'pem' }) as string;
	return { cert: certificate.toString('pem'), key };
}

/** As the embedded listener is made; the proxy's differs in nothing that a client could see. */
async function listen(material: TlsMaterial): Promise<Server> {
	const server = createServer({ ...listenerOptions, ...secureContextOptions(material) }, (socket) =>
		socket.end('let in'),
	);
	useSecureContext(server, material);
	server.listen(0, '127.0.0.1');
	await once(server, 'listening');
	return server;
}

/** The suite that a client ends up with which offers this; `undefined` where it is not let in. */
async function negotiated(server: Server, offer: ConnectionOptions): Promise<string | undefined> {
	const { certPem, keyPem } = pki.clients.valid;
	const { port } = server.address() as AddressInfo;
	const socket = connect({ host: '127.0.0.1', port, rejectUnauthorized: false, cert: certPem, key: keyPem, ...offer });
	socket.on('error', () => {});
	let suite: string | undefined;
	socket.on('data', () => {
		suite = socket.getCipher().name;
	});
	await new Promise((resolve) => socket.once('close', resolve));
	return suite;
}

describe('the cipher suites of TLS 1.2', () => {
	for (const kind of ['ecdsa', 'rsa'] as const) {
		describe(`with a certificate of ${kind.toUpperCase()}`, () => {
			let server: Server;
			before(async () => {
				server = await listen(kind === 'ecdsa' ? material : { ...material, ...(await rsaIdentity()) });
			});
			after(() => server.close());

			it('are those with forward secrecy and authenticated encryption, and no other that OpenSSL has', async () => {
				const others = getCiphers()
					.map((name) => name.toUpperCase())
					.filter((name) => !name.startsWith('TLS_'));
				assert.ok(others.includes('AES128-SHA') && others.includes('ECDHE-RSA-AES128-SHA256'));
				for (const name of new Set([...others, ...SUITES[kind]])) {
					// Weak ones exist only at the lowest level; each is offered on its own.
					const offer = { maxVersion: 'TLSv1.2', ciphers: `${name}:@SECLEVEL=0` } as const;
					const expected = (SUITES[kind] as string[]).includes(name) ? name : undefined;
					assert.equal(await negotiated(server, offer), expected, name);
				}
			});

			it('come with the three of TLS 1.3', async () => {
				for (const name of SUITES['TLSv1.3']) {
					assert.equal(await negotiated(server, { minVersion: 'TLSv1.3', ciphers: name }), name);
				}
				const other = { minVersion: 'TLSv1.3', ciphers: 'TLS_AES_128_CCM_SHA256' } as const;
				assert.equal(await negotiated(server, other), undefined);
			});
		});
	}
});

describe('the chain of an embedded server', () => {
	/** The certificates that a client receives, DER, in their order. */
	async function sent(material: TlsMaterial, { certPem, keyPem }: ClientCert = pki.clients.valid): Promise<Buffer[]> {
		const server = await listen(material);
		const { port } = server.address() as AddressInfo;
		const socket = connect({ host: '127.0.0.1', port, rejectUnauthorized: false, cert: certPem, key: keyPem });
		await once(socket, 'secureConnect');
		const chain: Buffer[] = [];
		for (let one = socket.getPeerX509Certificate(); one; one = one.issuerCertificate) chain.push(one.raw);
		socket.destroy();
		server.close();
		return chain;
	}

	function der(...pems: string[]): Buffer[] {
		return pems.map((pem) => new X509Certificate(pem).raw);
	}

	it('is that of the file if it has more than the leaf, or if the leaf has no issuer in the CA bundle', async () => {
		const issuing = await pki.issueAuthority('Issuing CA');
		const { certPem, keyPem } = await pki.issueServer('below', issuing);
		const ca = issuing.certPem + pki.ca.certPem;
		assert.deepEqual(await sent({ cert: certPem, key: keyPem, ca }), der(certPem, issuing.certPem));
		assert.deepEqual(await sent({ ...material, ca: pki.otherCa.certPem }, pki.clients.otherCa), der(material.cert));
	});

	// A `tls.Server` cannot be told otherwise (docs/reference/runtime.md). If this fails, it can.
	it('of only the leaf is completed with its issuer, if that is in the CA bundle', async () => {
		assert.deepEqual(await sent(material), der(material.cert, material.ca));
	});
});

describe('the least version', () => {
	it('is 1.2 by default, or 1.3', async () => {
		for (const [minVersion, with12] of [
			[undefined, SUITES.ecdsa[0]],
			['1.2', SUITES.ecdsa[0]],
			['1.3', undefined],
		] as const) {
			const server = await listen({ ...material, minVersion });
			assert.equal(await negotiated(server, { maxVersion: 'TLSv1.2' }), with12);
			assert.equal(await negotiated(server, { minVersion: 'TLSv1.3' }), SUITES['TLSv1.3'][0]);
			server.close();
		}
	});
});
