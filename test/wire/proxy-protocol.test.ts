/** `[listener] proxy_protocol_from`: whose address a connection has behind a load balancer, and who may say so. */
import assert from 'node:assert/strict';
import type { Socket } from 'node:net';
import { after, before, describe, it } from 'node:test';
import { connect, connectPlain, isAccepted, PROTOCOLS, type TlsOptions, untilClosed } from '../fixtures/clients.ts';
import { headerValues } from '../fixtures/http1-message.ts';
import { type TestPki, testPki } from '../fixtures/pki.ts';
import { HAS_PROC } from '../fixtures/proc.ts';
import type { LogLine } from '../fixtures/program.ts';
import { LOCAL, routeOf, version1, version2 } from '../fixtures/proxy-header.ts';
import { type Stage, startStage } from '../fixtures/stage.ts';
import { until } from '../fixtures/wait.ts';

const BALANCER = '127.0.0.2';
const MAX_CONNECTIONS = 6;

let pki: TestPki;
let stage: Stage;

/** A TCP connection from this address, on which these bytes have been sent. */
async function open(bytes: Buffer | string, localAddress = BALANCER): Promise<Socket> {
	const socket = await connectPlain(stage.proxy, localAddress);
	if (bytes.length > 0) socket.write(bytes);
	return socket;
}

/** For a TLS connection through the balancer, which sends this header. */
async function behind(header: Buffer, options: TlsOptions = {}): Promise<TlsOptions> {
	return { ...options, tls: { ...options.tls, socket: await open(header) } };
}

async function refusals(): Promise<Record<string, number>> {
	const samples = await stage.proxy.samples('proxy_tls_handshake_refusals_total');
	return Object.fromEntries(samples.map(({ labels, value }) => [labels.reason!, value]));
}

/** What `attempt` does fails as often as is said here, for these reasons. */
async function refusedAs(reasons: Readonly<Record<string, number>>, attempt: () => Promise<unknown>): Promise<void> {
	const before = await refusals();
	const times = Object.values(reasons).reduce((sum, count) => sum + count, 0);
	await stage.refused({ 'handshake failures': times }, attempt);
	const rises = Object.entries(await refusals()).filter(([name, count]) => count !== before[name]);
	const expected = Object.entries(reasons).map(([reason, count]) => [reason, before[reason]! + count]);
	assert.deepEqual(rises.sort(), expected.sort());
}

/** The same of one failure. @returns the line of the log about it. */
async function refusedFor(reason: string, attempt: () => Promise<unknown>): Promise<LogLine> {
	const from = stage.proxy.logs.length;
	await refusedAs({ [reason]: 1 }, attempt);
	return failureLine(reason, from);
}

function failureLine(reason: string, from: number): Promise<LogLine> {
	const isOurs = (line: LogLine) => line.target === 'proxy::tls' && line.reason === reason;
	return stage.proxy.waitForLog(isOurs, undefined, from);
}

describe('[listener] proxy_protocol_from', { skip: !HAS_PROC && BALANCER }, () => {
	before(async () => {
		pki = await testPki();
		stage = await startStage({
			// One worker: each worker has its own limit of lines.
			workers: 1,
			listener: { proxy_protocol_from: ['127.0.0.2/31', 'fd00::/8'], proxy_protocol_timeout_secs: 2 },
			limits: { max_connections: MAX_CONNECTIONS, tls_handshake_timeout_secs: 2 },
			log: { access: 'all' },
		});
	});
	after(() => stage?.[Symbol.asyncDispose]());

	for (const protocol of PROTOCOLS) {
		describe(`over ${protocol}`, () => {
			for (const [what, header, client] of [
				['version 1 names', version1(routeOf('192.0.2.1')), '192.0.2.1'],
				[
					'version 2 names, by IPv6 and with a checksum',
					version2(routeOf('2001:db8::2'), { checksum: true }),
					'2001:db8::2',
				],
				['version 2 says is the balancer itself', LOCAL, BALANCER],
			] as const) {
				it(`the client is the one ${what}`, async () => {
					// Lines come after responses: each request here has a different path.
					const path = `/${protocol}/${encodeURIComponent(what)}`;
					await using connection = await connect(protocol, stage.proxy, await behind(header));
					// Each request of the connection, whatever it says of itself.
					for (const forwarded of ['198.51.100.7', '127.0.0.1']) {
						const headers: [string, string][] = [
							['authorization', `Bearer ${pki.token()}`],
							['x-forwarded-for', forwarded],
						];
						assert.equal((await connection.request({ path, headers })).status, 200);
						assert.deepEqual(headerValues(stage.upstream.requests.at(-1)!.headers, 'x-forwarded-for'), [client]);
					}
					const isOurs = (line: LogLine) => line.target === 'proxy::access' && line.path === path;
					assert.equal((await stage.proxy.waitForLog(isOurs)).client, client);
					await stage.counted({ '200 upstream': 2 });
				});
			}

			it('a refused token is reported with the address of its client', async () => {
				const from = stage.proxy.logs.length;
				await using connection = await connect(protocol, stage.proxy, await behind(version2(routeOf('192.0.2.3'))));
				assert.equal((await connection.request({ headers: [['authorization', 'Bearer x']] })).status, 401);
				const line = await stage.proxy.waitForLog(({ target }) => target === 'proxy::auth', undefined, from);
				assert.equal(line.client, '192.0.2.3');
				await stage.counted({ '401': 1, invalid: 1 });
			});
		});
	}

	it('is refused from any other address, as bytes that are no TLS', async () => {
		for (const header of [version1(routeOf('192.0.2.1')), version2(routeOf('192.0.2.1'))]) {
			const line = await refusedFor('not TLS', async () => untilClosed(await open(header, '127.0.0.1')));
			assert.deepEqual([line.peer, line.balancer], ['127.0.0.1', undefined]);
		}
	});

	it('has to send a header, and a good one, whatever follows', async () => {
		const line = await refusedFor('no PROXY header', async () => {
			assert.equal(await isAccepted(stage.proxy, await behind(Buffer.alloc(0))), false);
		});
		assert.deepEqual([line.level, line.peer, line.balancer], ['info', BALANCER, undefined]);
		const bad = ['PROXY TCP4 192.0.2.1 192.0.2.9 1 65536\r\n', version2(routeOf('192.0.2.1'), { checksum: 2 })];
		for (const bytes of bad) {
			const line = await refusedFor('bad PROXY header', async () => untilClosed(await open(bytes)));
			assert.deepEqual([line.level, line.peer, line.balancer], ['info', BALANCER, undefined]);
		}
	});

	it('has its own time for it, however much of it drips in; the time of TLS begins behind it', async () => {
		const from = stage.proxy.logs.length;
		const header = version1(routeOf('192.0.2.1'));
		await refusedAs({ 'PROXY header timeout': 3, timeout: 1 }, async () => {
			const dripping = await open('');
			let at = 0;
			const drip = setInterval(() => {
				if (at < header.length - 1) dripping.write(header.subarray(at, ++at));
			}, 100);
			const others = [await open(''), await open(header.subarray(0, -1)), await open(header)];
			await Promise.all([dripping, ...others].map(untilClosed)).finally(() => clearInterval(drip));
		});
		const late = await failureLine('PROXY header timeout', from);
		assert.deepEqual([late.peer, late.balancer], [BALANCER, undefined]);
		const silent = await failureLine('timeout', from);
		assert.deepEqual([silent.peer, silent.balancer], ['192.0.2.1', BALANCER]);
	});

	it('is named with its client if the handshake fails after the header', async () => {
		const line = await refusedFor('expired', async () => {
			const options = await behind(version1(routeOf('192.0.2.66')), { cert: pki.clients.expired });
			assert.equal(await isAccepted(stage.proxy, options), false);
		});
		assert.deepEqual([line.peer, line.balancer, line.subject], ['192.0.2.66', BALANCER, 'CN=client']);
	});

	it('does not hold up a drain: who is silent is dropped, who has begun has its time', async () => {
		const silent = await open('');
		const healthCheck = await open(LOCAL);
		const begun = await open('PROXY ');
		await until(async () => (await stage.openConnections()).handshake === 3, 'the three of them');
		const ended: string[] = [];
		for (const [name, socket] of Object.entries({ silent, healthCheck, begun })) {
			socket.resume().once('close', () => ended.push(name));
		}
		assert.equal(await stage.proxy.stop(), 0);
		assert.deepEqual([ended.slice(0, 2).sort(), ended[2]], [['healthCheck', 'silent'], 'begun']);
	});
});
