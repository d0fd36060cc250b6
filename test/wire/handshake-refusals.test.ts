import assert from 'node:assert/strict';
import { X509Certificate } from 'node:crypto';
import { once } from 'node:events';
import { connect as connectTcp, createServer, type Socket } from 'node:net';
import { after, before, describe, it } from 'node:test';
import type { ConnectionOptions, TLSSocket } from 'node:tls';
import {
	clientHello,
	connectPlain,
	connectTls,
	isAccepted,
	request,
	type TlsOptions,
	untilClosed,
} from '../fixtures/clients.ts';
import { type ClientCert, type TestPki, testPki } from '../fixtures/pki.ts';
import type { LogLine } from '../fixtures/program.ts';
import { type Stage, startStage } from '../fixtures/stage.ts';
import { until, within } from '../fixtures/wait.ts';

const MAX_CONNECTIONS = 6;
const VERSIONS = ['TLSv1.2', 'TLSv1.3'] as const;
type Version = (typeof VERSIONS)[number];

let pki: TestPki;
let stage: Stage;
before(async () => {
	pki = await testPki();
	// One worker: each worker has its own limit of lines.
	stage = await startStage({
		workers: 1,
		limits: { max_connections: MAX_CONNECTIONS, tls_handshake_timeout_secs: 3 },
	});
});
after(() => stage.end());

function only(version: Version): ConnectionOptions {
	return { minVersion: version, maxVersion: version };
}

/** Sends bytes without TLS. Resolves with the proxy's bytes when it has closed. */
async function exchange(bytes: Buffer | string): Promise<Buffer> {
	const socket = await connectPlain(stage.proxy);
	const received: Buffer[] = [];
	socket.on('data', (chunk: Buffer) => received.push(chunk));
	socket.write(bytes);
	await untilClosed(socket);
	return Buffer.concat(received);
}

async function refusals(): Promise<Record<string, number>> {
	const samples = await stage.proxy.samples('proxy_tls_handshake_refusals_total');
	return Object.fromEntries(samples.map(({ labels, value }) => [labels.reason!, value]));
}

/**
 * What `attempt` does fails once, for this reason: so say the metrics, the labelled and the unlabelled, and the log.
 *
 * @returns the line of the log, `undefined` where there have been enough of its kind.
 */
async function refusedFor(reason: string, attempt: () => Promise<unknown>): Promise<LogLine | undefined> {
	const linesBefore = stage.proxy.logs.length;
	const before = await refusals();
	await stage.refused({ 'handshake failures': 1 }, attempt);
	const rises = Object.entries(await refusals()).filter(([name, count]) => count !== before[name]);
	assert.deepEqual(rises, [[reason, before[reason]! + 1]]);
	const isOurs = (line: LogLine) => line.target === 'proxy::tls' && line.reason === reason;
	const written = lines.get(reason) ?? 0;
	lines.set(reason, written + 1);
	// Five in ten seconds (rate-limited-log.ts).
	if (written >= 5) return undefined;
	if (reason === 'nothing sent') {
		// At `debug`, which is off here.
		assert.deepEqual(stage.proxy.logs.slice(linesBefore).filter(isOurs), []);
		return undefined;
	}
	const line = await stage.proxy.waitForLog(isOurs, undefined, linesBefore);
	assert.deepEqual([line.level, line.message, line.peer], ['info', 'handshake failed', '127.0.0.1']);
	return line;
}
const lines = new Map<string, number>();

/** Everything that the proxy sends in a handshake, beneath TLS. */
async function sentTo(options: TlsOptions): Promise<{ type: number; body: Buffer }[]> {
	const received: Buffer[] = [];
	const relay = createServer((client) => {
		const proxy = connectTcp({ host: '127.0.0.1', port: stage.proxy.port });
		proxy.on('data', (chunk: Buffer) => received.push(chunk));
		for (const socket of [client, proxy]) socket.on('error', () => {});
		client.pipe(proxy).pipe(client);
	}).listen(0, '127.0.0.1');
	await once(relay, 'listening');
	try {
		assert.equal(await isAccepted({ port: (relay.address() as { port: number }).port }, options), false);
	} finally {
		relay.close();
	}
	return recordsOf(Buffer.concat(received));
}

/** RFC 5246 section 6.2.1. */
function recordsOf(bytes: Buffer): { type: number; body: Buffer }[] {
	const records: { type: number; body: Buffer }[] = [];
	for (let at = 0; at < bytes.length; ) {
		const end = at + 5 + bytes.readUInt16BE(at + 3);
		records.push({ type: bytes[at]!, body: bytes.subarray(at + 5, end) });
		at = end;
	}
	return records;
}

const ALERT = 21;
/** RFC 8446 section 6, RFC 7301 section 3.2. */
const FATAL = { unexpectedMessage: 10, handshakeFailure: 40, protocolVersion: 70, noApplicationProtocol: 120 };

function alertOf(bytes: Buffer): number | undefined {
	const last = recordsOf(bytes).at(-1);
	if (last?.type !== ALERT) return undefined;
	assert.deepEqual([last.body.length, last.body[0]], [2, 2]);
	return last.body[1];
}

describe('a client whose certificate is refused', () => {
	const refused: [reason: string, cert: () => ClientCert, error: RegExp][] = [
		// Which of the two depends on whether the client has sent its root along.
		['unknown CA', () => pki.clients.otherCa, /^(UNABLE_TO_GET_ISSUER_CERT_LOCALLY|SELF_SIGNED_CERT_IN_CHAIN)$/],
		['expired', () => pki.clients.expired, /^CERT_HAS_EXPIRED$/],
		['not yet valid', () => pki.clients.notYetValid, /^CERT_NOT_YET_VALID$/],
		['wrong purpose', () => pki.clients.serverAuthOnly, /^INVALID_PURPOSE$/],
	];
	for (const [reason, certOf, error] of refused) {
		it(`is reported as "${reason}", and by its certificate`, async () => {
			const cert = certOf();
			for (const version of VERSIONS) {
				const line = await refusedFor(reason, async () => {
					assert.equal(await isAccepted(stage.proxy, { cert, alpn: ['h2'], tls: only(version) }), false);
				});
				const { serialNumber } = new X509Certificate(cert.certPem);
				assert.deepEqual([line!.subject, line!.issuer, line!.serial], ['CN=client', 'CN=Test CA', serialNumber]);
				assert.match(line!.error as string, error);
			}
		});
	}

	it('a certificate refused by Node gets no alert over TLS 1.2, where OpenSSL has finished (docs/reference/runtime.md)', async () => {
		await refusedFor('expired', async () => {
			const records = await sentTo({ cert: pki.clients.expired, tls: only('TLSv1.2') });
			assert.deepEqual(
				records.filter(({ type }) => type === ALERT),
				[],
			);
		});
	});

	it('cannot break the line with its name, which is bounded to a few KiB', async () => {
		const commonName = `a\u202e\x1b[31m${'x'.repeat(20_000)}`;
		const authority = await pki.issueAuthority(commonName, pki.otherCa);
		const line = await refusedFor('unknown CA', async () => {
			assert.equal(await isAccepted(stage.proxy, { cert: await pki.issueClient({}, authority) }), false);
		});
		assert.equal((line!.issuer as string).length, 4097);
		assert.ok(JSON.stringify(line).length < 5000);
		assert.deepEqual(stage.proxy.strayLines, []);
	});

	it('a client without a certificate gets the alert of its TLS version', async () => {
		for (const [version, code] of [
			['TLSv1.2', 'ERR_SSL_SSL/TLS_ALERT_HANDSHAKE_FAILURE'],
			['TLSv1.3', 'ERR_SSL_TLSV13_ALERT_CERTIFICATE_REQUIRED'],
		] as const) {
			const line = await refusedFor('no certificate', async () => {
				assert.equal(await alertAtClient({ cert: null, tls: only(version) }), code);
			});
			assert.deepEqual([line!.subject, line!.serial], [undefined, undefined]);
		}
		await refusedFor('no certificate', async () => {
			const records = await sentTo({ cert: null, tls: only('TLSv1.2') });
			const { type, body } = records.at(-1)!;
			assert.deepEqual([type, [...body]], [ALERT, [2, FATAL.handshakeFailure]]);
		});
	});

	/** The code of the error that the client ends with, which sends a request as soon as it believes to be through. */
	async function alertAtClient(options: TlsOptions): Promise<string | undefined> {
		let socket: TLSSocket;
		try {
			socket = await connectTls(stage.proxy, options);
		} catch (error) {
			return (error as NodeJS.ErrnoException).code;
		}
		const failed = once(socket, 'error');
		socket.write('GET / HTTP/1.1\r\nHost: localhost\r\n\r\n');
		const [error] = await within(failed as Promise<[NodeJS.ErrnoException]>, 'the alert');
		return error.code;
	}
});

describe('a handshake that fails before any certificate', () => {
	it('has a reason that separates TLS from other bytes, and gets an alert only if it was TLS', async () => {
		const only12 = { tls: only('TLSv1.2') };
		const old = { minVersion: 'TLSv1.1', maxVersion: 'TLSv1.1', ciphers: 'DEFAULT@SECLEVEL=0' } as const;
		const cases: [reason: string, bytes: Buffer | string, alert: number | undefined][] = [
			['plain HTTP', 'GET / HTTP/1.1\r\nHost: localhost\r\n\r\n', undefined],
			['not TLS', '\0'.repeat(100), undefined],
			['protocol version', await clientHello({ tls: old }), FATAL.protocolVersion],
			['no shared protocol', await clientHello({ ...only12, alpn: ['h3'] }), FATAL.noApplicationProtocol],
			[
				'no shared cipher',
				await clientHello({ tls: { maxVersion: 'TLSv1.2', ciphers: 'AES128-SHA' } }),
				FATAL.handshakeFailure,
			],
			['other', Buffer.from('1703030005aaaaaaaaaa', 'hex'), FATAL.unexpectedMessage],
		];
		for (const [reason, bytes, alert] of cases) {
			await refusedFor(reason, async () => assert.equal(alertOf(await exchange(bytes)), alert, reason));
		}
	});

	it('is refused by the client if it sends an alert', async () => {
		const hello = await clientHello({ tls: only('TLSv1.2') });
		const line = await refusedFor('refused by client', async () => {
			const socket = await connectPlain(stage.proxy);
			socket.write(hello);
			await within(once(socket, 'data'), 'the ServerHello');
			// unknown_ca (48): it does not know the CA of the server's certificate.
			socket.write(Buffer.from('15030300020230', 'hex'));
			await untilClosed(socket);
		});
		assert.match(line!.error as string, /ALERT_UNKNOWN_CA/);
	});

	it('times out, is silent, or is left by the client', async () => {
		const hello = await clientHello();
		await refusedFor('timeout', async () => untilClosed(await connectPlain(stage.proxy)));
		const cases: [reason: string, bytes: Buffer | undefined, leave: (socket: Socket) => void][] = [
			['nothing sent', undefined, (socket) => socket.end()],
			['nothing sent', undefined, (socket) => socket.resetAndDestroy()],
			['aborted', hello.subarray(0, 10), (socket) => socket.end()],
		];
		for (const [reason, bytes, leave] of cases) {
			await refusedFor(reason, async () => {
				const socket = await connectPlain(stage.proxy);
				await until(async () => (await stage.openConnections()).handshake === 1, 'the proxy to accept');
				if (bytes !== undefined) await new Promise((resolve) => socket.write(bytes, resolve));
				leave(socket);
				await untilClosed(socket);
			});
		}
	});
});

describe('a connection that is reset before it is accepted', () => {
	it('counts as one on which nothing was sent', async () => {
		await refusedFor('nothing sent', async () => {
			process.kill(stage.proxy.pid, 'SIGSTOP');
			try {
				const socket = await connectPlain(stage.proxy);
				socket.resetAndDestroy();
				await untilClosed(socket);
			} finally {
				process.kill(stage.proxy.pid, 'SIGCONT');
			}
		});
	});
});

describe('tls.min_version', () => {
	it('min_version = "1.3" refuses TLS 1.2 after a reload, and "1.2" accepts it again', async () => {
		for (const [minVersion, with12] of [
			['1.3', false],
			['1.2', true],
		] as const) {
			stage.proxy.writeConfig({ tls: { min_version: minVersion } });
			assert.equal((await stage.proxy.reload()).tls.message, 'mTLS config reloaded');
			assert.equal((await request('h2', stage.proxy, { tls: only('TLSv1.3') })).status, 200);
			await stage.counted({ '200 upstream': 1 });
			if (with12) {
				assert.equal((await request('h1', stage.proxy, { tls: only('TLSv1.2') })).status, 200);
				await stage.counted({ '200 upstream': 1 });
			} else {
				const hello = await clientHello({ tls: only('TLSv1.2') });
				await refusedFor('protocol version', async () => {
					assert.equal(alertOf(await exchange(hello)), FATAL.protocolVersion);
				});
			}
		}
	});
});

describe('connections beyond max_connections', () => {
	it('are counted, and warned of', async () => {
		const refused = () => stage.proxy.metric('proxy_connections_refused_total', { reason: 'max_connections' });
		const before = await refused();
		// Those of earlier tests may still be counted.
		await stage.noConnections();
		const room = MAX_CONNECTIONS - (await stage.proxy.metric('proxy_connections'));
		const open = await Promise.all(Array.from({ length: room }, () => connectTls(stage.proxy)));
		for (let i = 0; i < 10; i++) await untilClosed(await connectPlain(stage.proxy));
		await until(async () => (await refused()) === before + 10, 'all to be counted');
		const isOurs = ({ target, reason }: LogLine) => target === 'proxy::listener' && reason === 'max_connections';
		const { level, message, peer } = await stage.proxy.waitForLog(isOurs);
		assert.deepEqual(
			[level, message, peer],
			['warn', 'connection refused: limits.max_connections are open', '127.0.0.1'],
		);
		assert.ok(stage.proxy.logs.filter(isOurs).length <= 10);
		for (const socket of open) socket.destroy();
		await stage.counted({});
	});
});
