import assert from 'node:assert/strict';
import { once } from 'node:events';
import type { Socket } from 'node:net';
import { after, before, describe, it } from 'node:test';
import type { TLSSocket } from 'node:tls';
import {
	clientHello,
	connectPlain,
	connectTls,
	h1Raw,
	isAccepted,
	PROTOCOLS,
	request,
	type TlsOptions,
	untilClosed,
} from '../fixtures/clients.ts';
import { type ClientCert, type TestPki, testPki } from '../fixtures/pki.ts';
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

describe('the TLS handshake', () => {
	let stage: Stage;
	before(async () => {
		stage = await startStage();
	});
	after(() => stage.end());

	/** handshake-refusals.test.ts has the other certificates, the counts and the log lines. */
	it('refuses a client without a certificate, or with one of another authority, in each version and with each ALPN', async () => {
		for (const cert of [null, pki.clients.otherCa]) {
			for (const [version, alpn] of [
				['TLSv1.2', ['http/1.1']],
				['TLSv1.2', ['h2']],
				['TLSv1.3', ['h2']],
				['TLSv1.3', []],
			] as const) {
				await stage.refused({ 'handshake failures': 1 }, async () => {
					assert.equal(await isAccepted(stage.proxy, { cert, alpn: [...alpn], tls: only(version) }), false);
				});
			}
		}
	});

	it('serves a client below four intermediate authorities', async () => {
		for (const version of VERSIONS) {
			const cert = pki.clients.fourIntermediates;
			const { status } = await request('h1', stage.proxy, { cert, tls: only(version) });
			assert.equal(status, 200);
			await stage.counted({ '200 upstream': 1 });
		}
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
			// Only its key tells the one from the other.
			'a client of a sister of the same name': await pki.issueClient({}, await pki.issueAuthority('Issuing CA')),
		};
	});

	async function assertOwnAlone(stage: Stage): Promise<void> {
		for (const [version, protocol, alpn] of [
			['TLSv1.2', 'h2', ['h2']],
			['TLSv1.3', 'h1', ['http/1.1']],
		] as const) {
			for (const cert of [own, below]) {
				assert.equal((await request(protocol, stage.proxy, { cert, tls: only(version) })).status, 200);
			}
			await stage.counted({ '200 upstream': 2 });
			for (const [who, cert] of Object.entries(strangers)) {
				assert.equal(await isAccepted(stage.proxy, { cert, alpn: [...alpn], tls: only(version) }), false, who);
				await stage.counted({ 'handshake failures': 1 });
			}
		}
	}

	it('accepts clients of that CA and refuses all others, from a reload on', async () => {
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

describe('a leaf certificate in the CA bundle', () => {
	it('admits its holder only if a CA of the bundle has issued it', async () => {
		const issuing = await pki.issueAuthority('Issuing CA');
		const { certPem: chain, keyPem } = await pki.issueClient({}, issuing);
		const [certificate] = chain.split(/(?<=-----END CERTIFICATE-----\n)/) as [string];
		await using stage = await startStage();
		for (const [bundle, expected] of [
			[pki.otherCa.certPem + certificate, false],
			[certificate + pki.otherCa.certPem, false],
			[certificate + issuing.certPem, true],
		] as const) {
			stage.proxy.writeConfig({ tls: { client_ca_path: pki.writeFile('with-leaf.crt', bundle) } });
			assert.equal((await stage.proxy.reload()).tls.message, 'mTLS config reloaded');
			for (const version of VERSIONS) {
				for (const certPem of [certificate, chain]) {
					const accepted = await isAccepted(stage.proxy, { cert: { certPem, keyPem }, tls: only(version) });
					assert.equal(accepted, expected, version);
				}
			}
		}
	});
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

	/** A part of a client's handshake, on a TCP connection that is up. Resolves with an activity that goes on until it is disposed, if there is one. */
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
					const socket = await connectPlain(stage.proxy);
					using _ = await begin(socket, hello);
					const ms = await kept(socket, from);
					assert.ok(ms >= LIMIT_MS - 10, `${what}: closed after ${ms} ms`);
					assert.ok(ms < LIMIT_MS + 6000, `${what}: closed only after ${ms} ms`);
				}),
			),
		);
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
			for (let i = 0; i < 3; i++) await untilClosed(await connectPlain(stage.proxy));
			assert.equal((await stage.openConnections())['http/1.1'], count);
			for (const socket of open) assert.equal(socket.destroyed, false);
		} finally {
			for (const socket of open) socket.destroy();
		}
		await stage.noConnections();
	}

	it('gets back what handshakes took that failed, in whichever way', async () => {
		const { clients } = pki;
		const failing: (() => Promise<unknown>)[] = [
			...[null, clients.otherCa, clients.expired, clients.serverAuthOnly].flatMap((cert) =>
				VERSIONS.map((version) => () => isAccepted(stage.proxy, { cert, tls: only(version) })),
			),
			() => isAccepted(stage.proxy, { alpn: ['h3'] }),
			async () => (await connectPlain(stage.proxy)).end(),
			async () => {
				const socket = await connectPlain(stage.proxy);
				// Who is gone before that has not been accepted, and has cost nothing.
				await until(async () => (await stage.openConnections()).handshake === 1, 'the proxy to accept');
				socket.resetAndDestroy();
			},
			async () => (await connectPlain(stage.proxy)).write('no TLS'),
			// For the time limit.
			async () => untilClosed(await connectPlain(stage.proxy)),
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
