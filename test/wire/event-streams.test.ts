/** Responses without an end, such as Server-Sent Events. Collected mode gives a response whole, so these are for the other one. */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { connect, h1Connect, PROTOCOLS } from '../fixtures/clients.ts';
import { testPki } from '../fixtures/pki.ts';
import { HAS_PROC, tcpTimer } from '../fixtures/proc.ts';
import { BODY_MODE } from '../fixtures/proxy.ts';
import { type Lane, type Stage, startLanes } from '../fixtures/stage.ts';
import { until } from '../fixtures/wait.ts';

const SSE = [['Content-Type', 'text/event-stream']] as const;

describe('a stream of events', { skip: BODY_MODE === 'collected' && 'collected mode has no streams' }, () => {
	let edge: Stage;
	/** It has the same upstream as the route whose streams end. */
	let first: Lane;
	before(async () => {
		edge = await startLanes({
			lanes: 3,
			// Neither the round-trip limit nor the idle limit applies.
			limits: { upstream_timeout_secs: 60 },
			log: { access: 'all' },
			routes: [{ prefix: '/expiring', upstream_timeout_secs: 0, end_streams_at_expiry: true }],
		});
		first = edge.lane();
	});
	after(() => edge?.close());

	for (const protocol of PROTOCOLS) {
		it(`reaches the client event by event over ${protocol}: the next one comes once the last has been confirmed`, async () => {
			const lane = edge.lane();
			const confirmed: number[] = [];
			lane.upstream.script = async (exchange) => {
				if (exchange.request.target.endsWith('/confirm')) {
					confirmed.push(Number(String(exchange.request.body)));
					return exchange.respond();
				}
				exchange.startChunked({ headers: SSE });
				for (let event = 1; event <= 20; event++) {
					exchange.chunk(`data: ${event}\n\n`);
					await until(() => confirmed.includes(event), `event ${event} to be confirmed`);
				}
				exchange.lastChunk();
			};
			await using events = await connect(protocol, edge.proxy);
			await using confirmations = await connect(protocol, edge.proxy);
			const seen: number[] = [];
			const confirms: Promise<unknown>[] = [];
			const answer = await events.request({
				path: lane.path,
				onData: (text) => {
					for (const [, event] of text.matchAll(/data: (\d+)\n\n/g)) {
						seen.push(Number(event));
						const path = `${lane.path}/confirm`;
						confirms.push(confirmations.request({ method: 'POST', path, body: event! }));
					}
				},
			});
			await Promise.all(confirms);
			assert.equal(answer.ended, 'complete');
			assert.deepEqual(
				seen,
				Array.from({ length: 20 }, (_, i) => i + 1),
			);
		});
	}

	for (const protocol of PROTOCOLS) {
		it(`is cut when the token of its request expires, over ${protocol}, if the route says so`, async () => {
			first.upstream.script = (exchange) => {
				exchange.startChunked({ headers: SSE });
				exchange.chunk('data: 1\n\n');
			};
			const pki = await testPki();
			const from = edge.proxy.logs.length;
			// Tokens have a leeway of 60 s.
			const token = pki.token('tenant', { exp: Math.floor(Date.now() / 1000) - 57 });
			await using client = await connect(protocol, edge.proxy);
			const { status, text, ended, resetCode } = await client.request({ path: '/expiring', token });
			assert.deepEqual([status, text], [200, 'data: 1\n\n']);
			assert.notEqual(ended, 'complete');
			assert.equal(resetCode !== undefined, protocol === 'h2');
			const line = await edge.proxy.waitForLog(
				({ target, protocol: seen }) => target === 'proxy::access' && seen === (protocol === 'h1' ? 'http/1.1' : 'h2'),
				undefined,
				from,
			);
			assert.deepEqual(
				[line.status, line.ending, line.reason, line.path, line.bytes_out],
				[200, 'broken off', 'the token expired during the response', '/expiring', 'data: 1\n\n'.length],
			);
		});
	}

	it('has a client of HTTP/1.1 that vanishes found by TCP, if the route has no time limit', {
		skip: !HAS_PROC,
	}, async () => {
		const head = Promise.withResolvers<void>();
		first.upstream.script = (exchange) => {
			exchange.startChunked({ headers: SSE });
			exchange.chunk('data: 1\n\n');
		};
		await using client = await h1Connect(edge.proxy);
		const answer = client.request({ path: '/expiring', onData: () => head.resolve() }).catch(() => {});
		await head.promise;
		// First the kernel waits for the acknowledgement of the last bytes.
		await until(() => tcpTimer(edge.proxy.port, client.socket.localPort!) === 'keepalive', 'the timer');
		await client.close();
		await answer;
	});
});
