/** Whom revoked CAs refuse, over real TLS: a client chooses which certificates it sends, and Node shows no accepted chain. */
import { equal } from 'node:assert/strict';
import { constants, KeyObject, X509Certificate } from 'node:crypto';
import { once } from 'node:events';
import { createServer as createHttpServer, get } from 'node:http';
import { connect as connectHttp2, createSecureServer } from 'node:http2';
import { createServer as createHttpsServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { before, describe, it } from 'node:test';
import { connect, createSecureContext, type SecureVersion, type Server, type TlsOptions } from 'node:tls';
import { createGate, type RefreshingGate, type RevokedOptions } from '../../../packages/gate/src/embed/gate.ts';
import { guard } from '../../../packages/gate/src/embed/node.ts';
import { createMtlsServer } from '../../../packages/gate/src/embed/tls.ts';
import type { Authority } from '../../../packages/proxy/src/cli/demo/pki.ts';
import { PROTOCOLS, type Protocol } from '../../fixtures/clients.ts';
import { AUDIENCE, ISSUER, type TestPki, testPki } from '../../fixtures/pki.ts';
import { certify, type Keys, newKeys } from '../../fixtures/second-certificates.ts';

const VERSIONS: readonly SecureVersion[] = ['TLSv1.2', 'TLSv1.3'];
const REVOKED = 'revoked certificate';
const UNKNOWN = "chain of the client's certificate unknown; see revoked.leafOnly";
const NONE = 'no client certificate to check for revocation';

let pki: TestPki;
let pem: Record<string, string>;
let key: string;
before(async () => {
	pki = await testPki();
	const [rootKeys, otherKeys, intermediateKeys, leafKeys, fakeKeys] = (await Promise.all(
		Array.from({ length: 5 }, newKeys),
	)) as [Keys, Keys, Keys, Keys, Keys];
	const root = await certify(undefined, 'Root', rootKeys);
	const other = await certify(undefined, 'Other', otherKeys);
	const intermediate = await certify(root, 'Intermediate', intermediateKeys);
	const leaf = (issuer: Authority, issuerKey = true) =>
		certify(issuer, 'client', leafKeys, { isCa: false, usage: 'client', issuerKey });
	const all = {
		root,
		other,
		intermediate,
		/** Second certificates of the two CAs' keys. */
		rootByOther: await certify(other, 'Root', rootKeys),
		byOther: await certify(other, 'Intermediate', intermediateKeys),
		expiredByOther: await certify(other, 'Intermediate', intermediateKeys, { to: -1 }),
		/** Certificates of a client, with the names of the two CAs. */
		fakeRoot: await certify(undefined, 'Root', fakeKeys),
		fakeIntermediate: await certify(other, 'Intermediate', fakeKeys),
		below: await leaf(intermediate),
		belowRoot: await leaf(root),
		/** Names its issuer, but not the issuer's key. */
		anyBelow: await leaf(intermediate, false),
		anyBelowRoot: await leaf(root, false),
		unrelated: await certify(undefined, 'Unrelated', fakeKeys),
		selfSigned: await certify(undefined, 'client', leafKeys),
	};
	pem = Object.fromEntries(Object.entries(all).map(([name, { certPem }]) => [name, certPem]));
	const crowd = Array.from({ length: 33 }, () => certify(undefined, 'Intermediate', fakeKeys));
	pem.crowd = (await Promise.all(crowd)).map(({ certPem }) => certPem).join('');
	key = KeyObject.from(leafKeys.privateKey).export({ type: 'pkcs8', format: 'pem' }) as string;
});

const names = (list: string) => list.split(' ').map((name) => pem[name]!);
const thumbprints = (list: string) => names(list).map((one) => new X509Certificate(one).fingerprint256);

function gateWith(revoked: RevokedOptions = {}): RefreshingGate {
	return createGate({ jwtPublicKey: pki.tokenKey.publicKeyPem, issuer: ISSUER, audience: AUDIENCE, revoked });
}

interface Running extends AsyncDisposable {
	readonly port: number;
	readonly server: Server;
}

/** Answers with the reason of the refusal, or `ok`. */
async function serve(gate: RefreshingGate, newServer: (handler: never) => unknown): Promise<Running> {
	const guarded = guard(gate, {
		onRefused: ({ reason }, _req, res) => void (res as { end(text: string): void }).end(reason!),
	});
	const handler = (req: never, res: { end(text: string): void }) => guarded(req, res as never, () => res.end('ok'));
	const server = newServer(handler as never) as Server;
	server.listen(0, '127.0.0.1');
	await once(server, 'listening');
	const { port } = server.address() as AddressInfo;
	return {
		port,
		server,
		async [Symbol.asyncDispose]() {
			server.close();
			await once(server, 'close');
		},
	};
}

const plain = (protocol: Protocol, options: TlsOptions) => (handler: never) => {
	const { certPem, keyPem } = pki.server;
	const all = { cert: certPem, key: keyPem, requestCert: true, ...options };
	return protocol === 'h1' ? createHttpsServer(all, handler) : createSecureServer(all, handler);
};
const own = (protocol: Protocol, cas: string) => (handler: never) => {
	const { certPath, keyPath } = pki.server;
	const clientCaPath = pki.writeFile(`revoked-chain-${cas.replaceAll(' ', '-')}.crt`, names(cas).join(''));
	return createMtlsServer({ certPath, keyPath, clientCaPath, http2: protocol === 'h2', drainMs: 1000 }, handler);
};

interface Asked {
	readonly answer: string;
	readonly isResumed: boolean;
	readonly session: Buffer | undefined;
}

/** One request on a new connection, by a client that sends exactly these certificates. */
async function ask(
	{ port }: Running,
	protocol: Protocol,
	sent: string,
	version: SecureVersion = 'TLSv1.3',
	resumed?: Buffer,
): Promise<Asked> {
	const socket = connect({
		host: '127.0.0.1',
		port,
		servername: 'localhost',
		...(sent !== '' && { cert: names(sent).join(''), key }),
		rejectUnauthorized: false,
		ALPNProtocols: [protocol === 'h1' ? 'http/1.1' : 'h2'],
		minVersion: version,
		maxVersion: version,
		session: resumed,
	});
	let session: Buffer | undefined;
	socket.on('session', (latest) => {
		session = latest;
	});
	await once(socket, 'secureConnect');
	const isResumed = socket.isSessionReused();
	const closed = once(socket, 'close');
	const authorization = `Bearer ${pki.token('acme')}`;
	let answer: string;
	if (protocol === 'h1') {
		socket.write(`GET / HTTP/1.1\r\nhost: localhost\r\nauthorization: ${authorization}\r\nconnection: close\r\n\r\n`);
		answer = (await text(socket)).split('\r\n\r\n')[1]!;
	} else {
		const client = connectHttp2('https://localhost', { createConnection: () => socket });
		answer = await text(client.request({ ':path': '/', authorization }));
		client.close();
	}
	await closed;
	return { answer, isResumed, session };
}

/** Certificates that the client sends, the server's CAs, what is revoked, and the answer. */
const CASES: readonly (readonly [sent: string, cas: string, revoked: string, answer: string])[] = [
	['below intermediate', 'root', 'unrelated', 'ok'],
	['below intermediate', 'root', 'below', REVOKED],
	['below intermediate', 'root', 'intermediate', REVOKED],
	['below intermediate', 'root', 'root', REVOKED],
	['below intermediate root', 'root', 'unrelated', 'ok'],
	['below intermediate root', 'root', 'root', REVOKED],
	['below', 'root intermediate', 'unrelated', 'ok'],
	['below', 'root intermediate', 'intermediate', REVOKED],
	['below', 'root intermediate', 'root', REVOKED],
	['belowRoot', 'root', 'unrelated', 'ok'],
	['belowRoot', 'root', 'root', REVOKED],
	// Unrelated certificates make no difference.
	['below unrelated intermediate', 'root', 'unrelated', 'ok'],
	['below unrelated intermediate', 'root', 'root', REVOKED],
	// A certificate with the name of a CA hides it from Node's chain, but not from the gate.
	['anyBelowRoot fakeRoot', 'root', 'unrelated', 'ok'],
	['anyBelowRoot fakeRoot', 'root', 'root', REVOKED],
	['anyBelow intermediate fakeIntermediate', 'root other', 'root', REVOKED],
	['anyBelow intermediate crowd', 'root', 'unrelated', UNKNOWN],
	// So does a second certificate of the CA.
	['belowRoot rootByOther', 'root other', 'root', REVOKED],
	['below byOther intermediate', 'root other', 'root', REVOKED],
	['below intermediate byOther', 'root other', 'other', REVOKED],
	['below expiredByOther intermediate', 'root other', 'root', REVOKED],
	// Only this makes it another chain.
	['below byOther', 'root other', 'root intermediate', 'ok'],
];

for (const protocol of PROTOCOLS) {
	for (const version of VERSIONS) {
		describe(`revoked CAs over ${protocol} and ${version}`, () => {
			for (const [sent, cas, revoked, answer] of CASES) {
				it(`${sent} with the CAs ${cas} and revoked ${revoked}: ${answer}`, async () => {
					const gate = gateWith({ certificates: thumbprints(revoked) });
					for (const newServer of [plain(protocol, { ca: names(cas) }), own(protocol, cas)]) {
						await using running = await serve(gate, newServer);
						equal((await ask(running, protocol, sent, version)).answer, answer);
					}
				});
			}

			it('a resumed session, of which Node knows the leaf only, is refused if its issuer is not a CA of the server', async () => {
				const gate = gateWith({ certificates: thumbprints('unrelated') });
				await using running = await serve(gate, plain(protocol, { ca: names('root') }));
				const resumes = async (sent: string) => {
					const { session } = await ask(running, protocol, sent, version);
					return async () => {
						const { answer, isResumed } = await ask(running, protocol, sent, version, session);
						equal(isResumed, true);
						return answer;
					};
				};
				const again = await resumes('below intermediate');
				equal(await again(), UNKNOWN);
				const known = await resumes('belowRoot');
				equal(await known(), 'ok');
				gate.setRevoked({ certificates: thumbprints('root') });
				equal(await again(), UNKNOWN);
				equal(await known(), REVOKED);
				gate.setRevoked({ certificates: thumbprints('root'), leafOnly: true });
				equal(await again(), 'ok');
				gate.setRevoked({ certificates: thumbprints('below'), leafOnly: true });
				equal(await again(), REVOKED);
			});

			it('a server without tickets resumes nothing, so every chain is known', async () => {
				const gate = gateWith({ certificates: thumbprints('unrelated') });
				const options = { ca: names('root'), secureOptions: constants.SSL_OP_NO_TICKET };
				await using running = await serve(gate, plain(protocol, options));
				const { session } = await ask(running, protocol, 'below intermediate', version);
				const { answer, isResumed } = await ask(running, protocol, 'below intermediate', version, session);
				equal(isResumed, false);
				equal(answer, 'ok');
			});
		});
	}

	describe(`revocations over ${protocol}`, () => {
		it('an intermediate CA at which createMtlsServer lets chains end is the end of a known chain', async () => {
			const gate = gateWith({ certificates: thumbprints('root') });
			await using running = await serve(gate, own(protocol, 'intermediate'));
			equal((await ask(running, protocol, 'below')).answer, 'ok');
			gate.setRevoked({ certificates: thumbprints('intermediate') });
			equal((await ask(running, protocol, 'below')).answer, REVOKED);
		});

		describe('the CAs of a server are not known, so the gate cannot judge,', () => {
			// Node's own chain follows the expired certificate to `other`; OpenSSL accepts the one to `root`.
			const HIDING = 'below expiredByOther intermediate';
			const refuses = async (running: Running) => {
				for (const sent of [HIDING, 'below intermediate', 'anyBelowRoot fakeRoot']) {
					equal((await ask(running, protocol, sent)).answer, UNKNOWN);
				}
			};
			const gate = () => gateWith({ certificates: thumbprints('root') });

			for (const ca of ['other', 'other root']) {
				it(`if one of its names has other CAs than ${ca}`, async () => {
					const { certPem: cert, keyPem } = pki.server;
					await using running = await serve(gate(), plain(protocol, { ca: names(ca) }));
					running.server.addContext('localhost', { cert, key: keyPem, ca: names('root') });
					await refuses(running);
				});
			}

			it('if SNICallback chooses them', async () => {
				const { certPem: cert, keyPem } = pki.server;
				const context = createSecureContext({ cert, key: keyPem, ca: names('root') });
				const options: TlsOptions = { ca: names('other'), SNICallback: (_, done) => done(null, context) };
				await using running = await serve(gate(), plain(protocol, options));
				await refuses(running);
			});

			it('if a block of them has an old label', async () => {
				const old = pem.root!.replaceAll(' CERTIFICATE', ' X509 CERTIFICATE');
				await using running = await serve(gate(), plain(protocol, { ca: [...names('other'), old] }));
				await refuses(running);
			});

			it('if it got other CAs before the first request of a connection', async () => {
				const { certPem: cert, keyPem } = pki.server;
				await using running = await serve(gate(), plain(protocol, { ca: names('other root') }));
				const { server } = running;
				server.on('secureConnection', () => server.setSecureContext({ cert, key: keyPem, ca: names('other') }));
				equal((await ask(running, protocol, HIDING)).answer, UNKNOWN);
			});
		});

		it('a list of CAs to which one was added counts as a whole', async () => {
			const { certPem: cert, keyPem } = pki.server;
			const gate = gateWith({ certificates: thumbprints('root') });
			const ca = names('other');
			await using running = await serve(gate, plain(protocol, { ca }));
			equal((await ask(running, protocol, 'below byOther')).answer, 'ok');
			ca.push(pem.root!);
			running.server.setSecureContext({ cert, key: keyPem, ca });
			equal((await ask(running, protocol, 'below expiredByOther intermediate')).answer, REVOKED);
		});

		it('createMtlsServer knows the CAs of each connection, also after a reload', async () => {
			const gate = gateWith({ certificates: thumbprints('root') });
			await using running = await serve(gate, own(protocol, 'other root'));
			const server = running.server as Server & { reload(): number };
			server.on('secureConnection', () => server.reload());
			equal((await ask(running, protocol, 'below expiredByOther intermediate')).answer, REVOKED);
			equal((await ask(running, protocol, 'below byOther')).answer, 'ok');
		});

		it('a CA is found by its serial number, too', async () => {
			const { serialNumber: serial } = new X509Certificate(pem.root!);
			const gate = gateWith({ serials: [{ issuer: 'CN=Root', serial }] });
			await using running = await serve(gate, plain(protocol, { ca: names('root') }));
			equal((await ask(running, protocol, 'below intermediate')).answer, REVOKED);
		});

		it('leafOnly gives entries of CAs no effect', async () => {
			const gate = gateWith({ certificates: thumbprints('root intermediate'), leafOnly: true });
			await using running = await serve(gate, plain(protocol, { ca: names('root') }));
			equal((await ask(running, protocol, 'below intermediate')).answer, 'ok');
			gate.setRevoked({ certificates: thumbprints('below'), leafOnly: true });
			equal((await ask(running, protocol, 'below intermediate')).answer, REVOKED);
		});

		it('a client without a certificate is refused, and one whose certificate was not checked', async () => {
			const gate = gateWith({ certificates: thumbprints('root') });
			await using running = await serve(gate, plain(protocol, { ca: names('root'), rejectUnauthorized: false }));
			equal((await ask(running, protocol, '')).answer, NONE);
			equal((await ask(running, protocol, 'selfSigned')).answer, UNKNOWN);
			gate.setRevoked({ certificates: thumbprints('root'), leafOnly: true });
			equal((await ask(running, protocol, '')).answer, NONE);
			gate.setRevoked({ tokens: ['none'] });
			equal((await ask(running, protocol, '')).answer, 'ok');
		});
	});
}

it('a client without TLS is refused while certificates are revoked', async () => {
	const gate = gateWith({ certificates: thumbprints('root') });
	await using running = await serve(gate, (handler) => createHttpServer(handler));
	const headers = { authorization: `Bearer ${pki.token('acme')}` };
	const [response] = await once(get({ port: running.port, host: '127.0.0.1', headers, agent: false }), 'response');
	equal(await text(response), NONE);
});

it('the chain of a certificate that is not from certificateOf is unknown', () => {
	const gate = gateWith({ certificates: thumbprints('root') });
	const certificate = new X509Certificate(pem.belowRoot!);
	const reason = (given: X509Certificate | Uint8Array) => {
		const verdict = gate.check(`Bearer ${pki.token('acme')}`, { certificate: given });
		return verdict.ok ? 'ok' : verdict.refusal.reason;
	};
	for (const given of [certificate, certificate.raw]) {
		gate.setRevoked({ certificates: thumbprints('root') });
		equal(reason(given), UNKNOWN);
		gate.setRevoked({ certificates: thumbprints('root'), leafOnly: true });
		equal(reason(given), 'ok');
		gate.setRevoked({ certificates: thumbprints('belowRoot'), leafOnly: true });
		equal(reason(given), REVOKED);
	}
});
