import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect as connectTcp, type Socket } from 'node:net';
import { after, before, describe, it } from 'node:test';
import type { DetailedPeerCertificate, TLSSocket } from 'node:tls';
import type { Authority } from '../../packages/proxy/src/cli/demo/pki.ts';
import {
	clientHello,
	connectTls,
	h1Connect,
	h1Raw,
	h2Connect,
	isAccepted,
	PROTOCOLS,
	request,
	type TlsOptions,
} from '../fixtures/clients.ts';
import { type ClientCert, type TestPki, testPki } from '../fixtures/pki.ts';
import { HAS_PROC } from '../fixtures/proc.ts';
import { type Stage, startStage } from '../fixtures/stage.ts';
import { until, within } from '../fixtures/wait.ts';

const VERSIONS = ['TLSv1.2', 'TLSv1.3'] as const;
type Version = (typeof VERSIONS)[number];

let pki: TestPki;
before(async () => {
	pki = await testPki();
});

function only(version: Version): TlsOptions['tls'] & object {
	return { minVersion: version, maxVersion: version };
}

/** A TCP connection on which no TLS has begun. */
async function connectPlain(stage: Stage): Promise<Socket> {
	const socket = connectTcp({ host: '127.0.0.1', port: stage.proxy.port });
	socket.on('error', () => {});
	await within(once(socket, 'connect'), 'the connection');
	return socket;
}

async function untilClosed(socket: Socket): Promise<void> {
	socket.resume();
	if (socket.closed) return;
	await within(new Promise((resolve) => socket.once('close', resolve)), 'the server to close the connection');
}

describe('the TLS handshake', () => {
	let stage: Stage;
	before(async () => {
		stage = await startStage();
	});
	after(() => stage.end());

	/** handshake-refusals.test.ts has those that have expired, are not yet valid or for servers. */
	const refusedClients: Record<string, () => ClientCert | null> = {
		'no certificate': () => null,
		'a certificate of an authority that is not trusted': () => pki.clients.otherCa,
	};
	for (const [what, cert] of Object.entries(refusedClients)) {
		it(`refuses ${what}, in each version and with each ALPN`, async () => {
			for (const version of VERSIONS) {
				for (const alpn of [['http/1.1'], ['h2'], []]) {
					await stage.refused({ 'handshake failures': 1 }, async () => {
						assert.equal(await isAccepted(stage.proxy, { cert: cert(), alpn, tls: only(version) }), false);
					});
				}
			}
		});
	}

	it('serves a client below four intermediate authorities', async () => {
		for (const version of VERSIONS) {
			const cert = pki.clients.fourIntermediates;
			const { status } = await request('h1', stage.proxy, { cert, tls: only(version) });
			assert.equal(status, 200);
			await stage.counted({ '200 upstream': 1 });
		}
	});

	it('refuses a client whose intermediates are not sent along', async () => {
		const { certPem, keyPem } = pki.clients.fourIntermediates;
		const leaf = certPem.slice(0, certPem.indexOf('-----END CERTIFICATE-----') + 26);
		await stage.refused({ 'handshake failures': 1 }, async () => {
			assert.equal(await isAccepted(stage.proxy, { cert: { certPem: leaf, keyPem } }), false);
		});
	});

	it('refuses a client that does not have the key of its certificate', async () => {
		await stage.refused({ 'handshake failures': 1 }, async () => {
			const { valid, expired } = pki.clients;
			const cert = { certPem: valid.certPem, keyPem: expired.keyPem };
			await assert.rejects(connectTls(stage.proxy, { cert }), /mismatch/);
			// OpenSSL will not even begin with such a pair: what the proxy sees is a client that leaves.
			const socket = await connectPlain(stage);
			socket.end();
			await untilClosed(socket);
		});
	});

	it('shows the chain of the file, and nothing from the CA bundle', async () => {
		const issuing = await pki.issueAuthority('Issuing CA');
		const { certPath, keyPath } = await pki.issueServer('below', issuing);
		const bundle = pki.writeFile('both.crt', issuing.certPem + pki.ca.certPem);
		const shown = async (tls: TlsOptions['tls'] & object) => {
			// A client without a CA finds no issuer but those that are sent.
			const socket = await connectTls(stage.proxy, { tls: { ...tls, ca: [], rejectUnauthorized: false } });
			const subjects: string[] = [];
			let certificate: DetailedPeerCertificate | undefined = socket.getPeerCertificate(true);
			for (; certificate?.subject !== undefined; certificate = certificate.issuerCertificate) {
				subjects.push(`${certificate.subject.CN}`);
				if (certificate.issuerCertificate === certificate) break;
			}
			socket.destroy();
			await stage.noConnections();
			return subjects;
		};
		const own = { cert_path: pki.server.certPath, key_path: pki.server.keyPath, client_ca_path: pki.caPath };
		for (const [files, chain] of [
			[own, ['server']],
			[{ cert_path: certPath, key_path: keyPath, client_ca_path: bundle }, ['below', 'Issuing CA']],
			[own, ['server']],
		] as const) {
			stage.proxy.writeConfig({ tls: files });
			assert.equal((await stage.proxy.reload()).tls.message, 'mTLS config reloaded');
			for (const version of VERSIONS) {
				for (const servername of ['localhost', '']) {
					assert.deepEqual(await shown({ ...only(version), servername }), chain, `${version}, ${servername}`);
				}
			}
		}
		await stage.whateverCounted();
	});

	it('a handshake without ALPN selects HTTP/1.1', async () => {
		const connection = await h1Raw(stage.proxy, { alpn: [] });
		assert.equal(connection.socket.alpnProtocol, false);
		connection.send(`GET / HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${pki.token()}\r\n\r\n`);
		assert.equal((await connection.readResponse()).status, 200);
		connection.close();
		await stage.counted({ '200 upstream': 1 });
	});

	it('prefers h2 if a client offers both', async () => {
		for (const alpn of [
			['h2', 'http/1.1'],
			['http/1.1', 'h2'],
		]) {
			const socket = await connectTls(stage.proxy, { alpn });
			assert.equal(socket.alpnProtocol, 'h2');
			await until(async () => (await stage.openConnections()).h2 === 1, 'the server to see it so, too');
			socket.destroy();
			await stage.noConnections();
		}
	});

	it('refuses TLS 1.0 and 1.1', async () => {
		for (const version of ['TLSv1', 'TLSv1.1'] as const) {
			await stage.refused({ 'handshake failures': 1 }, async () => {
				const tls = { minVersion: version, maxVersion: version, ciphers: 'DEFAULT@SECLEVEL=0' };
				await assert.rejects(connectTls(stage.proxy, { tls }), /alert protocol version/i);
			});
		}
	});

	it('a successful handshake is timed, and no end of its connection counts as a failed handshake', async () => {
		const before = await stage.proxy.metric('proxy_tls_handshake_seconds_count');
		const endings: ((socket: TLSSocket, tcp: Socket) => void)[] = [
			(socket) => socket.end(),
			(socket) => socket.destroy(),
			(_, tcp) => tcp.resetAndDestroy(),
		];
		for (const end of endings) {
			for (const alpn of ['http/1.1', 'h2']) {
				const tcp = await connectPlain(stage);
				const socket = await connectTls(stage.proxy, { alpn: [alpn], tls: { socket: tcp } });
				const open = async () => (await stage.openConnections())[alpn as 'h2'] === 1;
				await until(open, 'the connection to be counted');
				end(socket, tcp);
				await untilClosed(socket);
				await stage.noConnections();
			}
		}
		assert.equal((await stage.proxy.metric('proxy_tls_handshake_seconds_count')) - before, 6);
		await stage.counted({});
	});

	it('renegotiated on an open connection ends the connection', async () => {
		for (const alpn of ['http/1.1', 'h2']) {
			const socket = await connectTls(stage.proxy, { alpn: [alpn], tls: only('TLSv1.2') });
			socket.on('error', () => {});
			let renegotiated = false;
			socket.renegotiate({}, (error) => {
				renegotiated = error === null;
			});
			await untilClosed(socket);
			assert.equal(renegotiated, false);
		}
		await stage.noConnections();
		await stage.counted({});
	});
});

describe('a CA bundle with only an issuing CA that another CA has signed', () => {
	let caPath: string;
	/** Each of them with its intermediates, and below one root. */
	let own: ClientCert;
	let below: ClientCert;
	let strangers: Record<string, ClientCert>;
	before(async () => {
		const issuing = await pki.issueAuthority('Issuing CA');
		caPath = pki.writeFile('issuing.crt', issuing.certPem);
		own = await pki.issueClient({}, issuing);
		below = await pki.issueClient({}, await pki.issueAuthority('Below the issuing CA', issuing));
		strangers = {
			'a client of the root': pki.clients.valid,
			'a client of a sister': await pki.issueClient({}, await pki.issueAuthority('Sister CA')),
			// Only its key tells the one from the other.
			'a client of a sister of the same name': await pki.issueClient({}, await pki.issueAuthority('Issuing CA')),
			'a client of another root': pki.clients.otherCa,
			'an expired client': await pki.issueClient({ notAfter: new Date(Date.now() - 60_000) }, issuing),
		};
	});

	/** Without the intermediates that it sends along otherwise. */
	function leafOf({ certPem, keyPem }: ClientCert): ClientCert {
		return { certPem: certPem.slice(0, certPem.indexOf('-----END CERTIFICATE-----') + 26), keyPem };
	}

	async function assertOwnAlone(stage: Stage): Promise<void> {
		for (const version of VERSIONS) {
			for (const protocol of PROTOCOLS) {
				for (const cert of [own, leafOf(own), below]) {
					assert.equal((await request(protocol, stage.proxy, { cert, tls: only(version) })).status, 200);
				}
				await stage.counted({ '200 upstream': 3 });
			}
			for (const [who, cert] of Object.entries(strangers)) {
				for (const alpn of [['http/1.1'], ['h2']]) {
					assert.equal(await isAccepted(stage.proxy, { cert, alpn, tls: only(version) }), false, `${who}, ${alpn}`);
				}
				await stage.counted({ 'handshake failures': 2 });
			}
		}
	}

	it('accepts clients of that CA and refuses all others', async () => {
		await using stage = await startStage({ tls: { client_ca_path: caPath } });
		await assertOwnAlone(stage);
	});

	it('does so from a reload on', async () => {
		await using stage = await startStage();
		for (const cert of [own, pki.clients.valid]) {
			for (const protocol of PROTOCOLS) assert.equal((await request(protocol, stage.proxy, { cert })).status, 200);
		}
		await stage.counted({ '200 upstream': 4 });
		stage.proxy.writeConfig({ tls: { client_ca_path: caPath } });
		assert.equal((await stage.proxy.reload()).tls.message, 'mTLS config reloaded');
		await assertOwnAlone(stage);
	});
});

describe('a leaf that lies in the CA bundle', () => {
	let issuing: Authority;
	let leaf: ClientCert;
	before(async () => {
		issuing = await pki.issueAuthority('Issuing CA');
		leaf = await pki.issueClient({}, issuing);
	});

	/** Asserts which clients are admitted, by protocol and version, with the leaf below this authority. */
	async function assertBeside(authority: Authority, expected: boolean): Promise<void> {
		const [certificate] = leaf.certPem.split(/(?<=-----END CERTIFICATE-----\n)/);
		const { keyPem } = leaf;
		const [first, second] = [authority.certPem + certificate, certificate + authority.certPem].map((bundle, i) =>
			pki.writeFile(`with-leaf-${i}.crt`, bundle),
		);
		await using stage = await startStage({ tls: { client_ca_path: first! } });
		const look = async () => {
			for (const version of VERSIONS) {
				for (const alpn of [['http/1.1'], ['h2']]) {
					for (const certPem of [certificate!, leaf.certPem]) {
						const accepted = await isAccepted(stage.proxy, { cert: { certPem, keyPem }, alpn, tls: only(version) });
						assert.equal(accepted, expected, `${version}, ${alpn}`);
					}
				}
			}
		};
		await look();
		stage.proxy.writeConfig({ tls: { client_ca_path: second! } });
		assert.equal((await stage.proxy.reload()).tls.message, 'mTLS config reloaded');
		await look();
	}

	it('refuses its holder if no CA of the bundle has issued it', () => assertBeside(pki.otherCa, false));

	it('accepts its holder if a CA of the bundle has issued it', () => assertBeside(issuing, true));
});

describe('a TLS session', () => {
	let stage: Stage;
	before(async () => {
		stage = await startStage();
	});
	after(() => stage[Symbol.asyncDispose]());

	/** Everything that a client could offer for resumption after a connection on which it has been served. */
	async function sessionsOf(cert: ClientCert, version: Version): Promise<Buffer[]> {
		const connection = await h1Raw(stage.proxy, { cert, tls: only(version) });
		const sessions: Buffer[] = [];
		connection.socket.on('session', (session: Buffer) => sessions.push(session));
		connection.send(`GET / HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${pki.token()}\r\n\r\n`);
		// Tickets of TLS 1.3 come with the first data at the latest.
		assert.equal((await connection.readResponse()).status, 200);
		await stage.counted({ '200 upstream': 1 });
		const own = connection.socket.getSession();
		if (own !== undefined) sessions.push(own);
		connection.close();
		return sessions;
	}

	it('is never resumed: each connection is a full handshake, with its certificate looked at', async () => {
		for (const version of VERSIONS) {
			const sessions = await sessionsOf(pki.clients.valid, version);
			assert.notEqual(sessions.length, 0);
			for (const session of sessions) {
				const socket = await connectTls(stage.proxy, { tls: { ...only(version), session } });
				assert.equal(socket.isSessionReused(), false);
				const accepted = async () => (await stage.openConnections())['http/1.1'] === 1;
				await until(accepted, 'the server to be through, too');
				socket.destroy();
				await stage.noConnections();
				// A resumption would need no certificate.
				await stage.refused({ 'handshake failures': 1 }, async () => {
					assert.equal(await isAccepted(stage.proxy, { cert: null, tls: { ...only(version), session } }), false);
				});
			}
		}
	});

	it('does not outlive the trust in its authority; connections that are up do', async () => {
		const sessions = new Map<Version, Buffer[]>();
		for (const version of VERSIONS) sessions.set(version, await sessionsOf(pki.clients.valid, version));
		await using up = await h1Connect(stage.proxy);
		await using upToo = await h2Connect(stage.proxy);
		const rotated = async (caPath: string) => {
			stage.proxy.writeConfig({ tls: { client_ca_path: caPath } });
			assert.equal((await stage.proxy.reload()).tls.message, 'mTLS config reloaded');
		};
		await rotated(pki.otherCaPath);
		for (const [version, all] of sessions) {
			for (const session of all) {
				assert.equal(await isAccepted(stage.proxy, { tls: { ...only(version), session } }), false);
				await stage.counted({ 'handshake failures': 1 });
			}
		}
		for (const connection of [up, upToo]) assert.equal((await connection.request()).status, 200);
		for (const protocol of ['h1', 'h2'] as const) {
			assert.equal((await request(protocol, stage.proxy, { cert: pki.clients.otherCa })).status, 200);
		}
		await stage.counted({ '200 upstream': 4 });
		await rotated(pki.caPath);
	});
});

describe('the time limit of the handshake', () => {
	const LIMIT_MS = 2000;
	let stage: Stage;
	before(async () => {
		stage = await startStage({ limits: { tls_handshake_timeout_secs: LIMIT_MS / 1000 } });
	});
	after(() => stage.end());

	/** How long the server keeps the connection, ms. */
	async function kept(socket: Socket, from: number): Promise<number> {
		await untilClosed(socket);
		return performance.now() - from;
	}

	/** What a client does of its handshake, on a connection that is up. Resolves with what it does until the end. */
	const unfinished: Record<string, (socket: Socket, hello: Buffer) => Promise<Disposable | undefined>> = {
		'without a ClientHello': async () => undefined,
		'with half a ClientHello': async (socket, hello) => {
			socket.write(hello.subarray(0, hello.length / 2));
			return undefined;
		},
		'whose ClientHello comes a byte at a time, however steadily': async (socket, hello) => {
			let sent = 0;
			const drip = setInterval(() => {
				if (!socket.destroyed) socket.write(hello.subarray(sent, ++sent));
			}, 20);
			return {
				[Symbol.dispose]: () => {
					clearInterval(drip);
					assert.ok(sent < hello.length, 'the whole ClientHello was sent');
				},
			};
		},
		'whose handshake has begun and goes on no more': async (socket, hello) => {
			socket.write(hello);
			await within(once(socket, 'data'), 'the ServerHello');
			return undefined;
		},
	};
	const cases = Object.entries(unfinished);
	it(`ends a connection ${cases.map(([what]) => what).join(', or ')}`, async () => {
		const hello = await clientHello();
		await stage.refused({ 'handshake failures': cases.length }, () =>
			Promise.all(
				cases.map(async ([what, begin]) => {
					const from = performance.now();
					const socket = await connectPlain(stage);
					using _ = await begin(socket, hello);
					const ms = await kept(socket, from);
					assert.ok(ms >= LIMIT_MS - 10, `${what}: closed after ${ms} ms`);
					assert.ok(ms < LIMIT_MS + 6000, `${what}: closed only after ${ms} ms`);
				}),
			),
		);
	});

	it('is over with the handshake', async () => {
		await using connection = await h1Connect(stage.proxy);
		const late = performance.now() + 2 * LIMIT_MS;
		await until(() => performance.now() > late, 'the limit to pass');
		assert.equal((await connection.request()).status, 200);
		await stage.counted({ '200 upstream': 1 });
	});
});

describe('connections that share a port of their client', () => {
	const LIMIT_MS = 2000;
	let stage: Stage;
	before(async () => {
		// One worker, or each of them might have one of the connections.
		stage = await startStage({
			workers: 1,
			args: ['--bind', '0.0.0.0:0'],
			limits: { tls_handshake_timeout_secs: LIMIT_MS / 1000 },
		});
	});
	after(() => stage[Symbol.asyncDispose]());

	/** A TCP connection from this port; 0 is any that is free. */
	async function connectFrom(localPort: number, host = '127.0.0.1'): Promise<Socket> {
		const { port } = stage.proxy;
		// With an address of its own the port may be used again at once, and for another address at the same time.
		const socket = connectTcp({ host, port, localAddress: '127.0.0.1', localPort });
		socket.on('error', () => {});
		await within(once(socket, 'connect'), `the connection from port ${localPort} to ${host}`);
		return socket;
	}

	for (const [which, order] of [
		['first', ['127.0.0.1', '127.0.0.2']],
		['last', ['127.0.0.2', '127.0.0.1']],
	] as const) {
		it(`connections from one port to two addresses of the proxy have a handshake each: the ${which} one is served, the silent one ends`, async (t) => {
			if (!HAS_PROC) return t.skip('127.0.0.2');
			const sockets = new Map<string, Socket>();
			let localPort = 0;
			for (const host of order) {
				const socket = await connectFrom(localPort, host);
				localPort = socket.localPort!;
				sockets.set(host, socket);
			}
			const silent = sockets.get('127.0.0.2')!;
			using raw = await h1Raw(stage.proxy, { tls: { socket: sockets.get('127.0.0.1')! } });
			assert.equal(silent.destroyed, false);
			await untilClosed(silent);
			await until(async () => (await stage.openConnections()).handshake === 0, 'no handshake to be left');
			const late = performance.now() + LIMIT_MS;
			await until(() => performance.now() > late, 'the limit to pass for the other one, too');
			assert.deepEqual(await stage.openConnections(), { handshake: 0, 'http/1.1': 1, h2: 0 });
			raw.send(`GET / HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${pki.token()}\r\n\r\n`);
			assert.equal((await raw.readResponse()).status, 200);
			await stage.counted({ '200 upstream': 1, 'handshake failures': 1 });
			raw.close();
			await stage.noConnections();
		});
	}

	it('one after the other, each of them reset as soon as it was up, leave nothing behind', async (t) => {
		if (!HAS_PROC) return t.skip('a port is used again at once');
		await Promise.all(
			Array.from({ length: 4 }, async () => {
				let localPort = 0;
				for (let i = 0; i < 500; i++) {
					const socket = await connectFrom(localPort);
					localPort = socket.localPort!;
					socket.resetAndDestroy();
					await untilClosed(socket);
				}
			}),
		);
		await stage.noConnections();
		await stage.whateverCounted();
		using raw = await h1Raw(stage.proxy);
		raw.send(`GET / HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${pki.token()}\r\n\r\n`);
		assert.equal((await raw.readResponse()).status, 200);
		await stage.counted({ '200 upstream': 1 });
	});
});

describe('the limit of connections', () => {
	const MAX = 4;
	let stage: Stage;
	before(async () => {
		stage = await startStage({ limits: { max_connections: MAX, tls_handshake_timeout_secs: 3 } });
	});
	after(() => stage[Symbol.asyncDispose]());

	/** The limit's number of connections is served; one more is closed at once, and does not count as a failed handshake. */
	async function assertRoomFor(count: number): Promise<void> {
		const open: TLSSocket[] = [];
		try {
			for (let i = 0; i < count; i++) {
				const socket = await connectTls(stage.proxy);
				socket.on('error', () => {});
				open.push(socket);
			}
			// A client of TLS 1.3 has its connection before the proxy has read the last flight of the handshake.
			await until(async () => (await stage.openConnections())['http/1.1'] === count, `${count} connections to be open`);
			for (let i = 0; i < 3; i++) await untilClosed(await connectPlain(stage));
			assert.equal((await stage.openConnections())['http/1.1'], count);
			for (const socket of open) assert.equal(socket.destroyed, false);
		} finally {
			for (const socket of open) socket.destroy();
		}
		await stage.noConnections();
	}

	it('closes what is beyond it, and has room again when connections end', async () => {
		await assertRoomFor(MAX);
		await assertRoomFor(MAX);
		await stage.counted({});
	});

	it('gets back what handshakes took that failed, in whichever way', async () => {
		const { clients } = pki;
		const failing: (() => Promise<unknown>)[] = [
			...[null, clients.otherCa, clients.expired, clients.serverAuthOnly].flatMap((cert) =>
				VERSIONS.map((version) => () => isAccepted(stage.proxy, { cert, tls: only(version) })),
			),
			() => isAccepted(stage.proxy, { alpn: ['h3'] }),
			async () => (await connectPlain(stage)).end(),
			async () => {
				const socket = await connectPlain(stage);
				// Who is gone before that has not been accepted, and has cost nothing.
				await until(async () => (await stage.openConnections()).handshake === 1, 'the proxy to accept');
				socket.resetAndDestroy();
			},
			async () => (await connectPlain(stage)).write('no TLS'),
			// For the time limit.
			async () => untilClosed(await connectPlain(stage)),
		];
		for (const fail of failing) {
			await fail();
			// The proxy may accept a connection later than its client has left.
			await stage.counted({ 'handshake failures': 1 });
			await stage.noConnections();
		}
		await assertRoomFor(MAX);
	});
});
