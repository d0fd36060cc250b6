/** Time and bytes that a route gives its own requests, in place of `[limits]`. */
import { deepEqual, equal } from 'node:assert/strict';
import { describe, it } from 'node:test';
import * as collected from '../../../../packages/proxy/src/data/body/collected.ts';
import * as streaming from '../../../../packages/proxy/src/data/body/streaming.ts';
import { CLOSED, OPEN } from '../../../../packages/proxy/src/gates/breaker.ts';
import type { RequestLimitsSeed } from '../../../../packages/proxy/src/shared/limits.ts';
import { Client, Edge } from '../fixtures/fake-edge.ts';
import { type FakePlane, LIMITS, settle } from '../fixtures/fake-plane.ts';
import type { FakeUpstream } from '../fixtures/fake-upstream.ts';

const SHORT = 5_000;
const LONG = 2 * LIMITS.upstream;
const PART = 'HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\npart';

/** Sends no body although it is asked for one. */
class Idle extends Client {
	override readBody(): void {}
}

async function asked(mode: typeof collected | typeof streaming, upstreamTimeoutMs: number) {
	const edge = new Edge(mode, 1);
	edge.limitRequests({ upstreamTimeoutMs });
	const client = await edge.ask();
	const [upstream] = edge.upstreams;
	upstream!.sockets[0]!.accept();
	return { edge, client, upstream: upstream!, socket: upstream!.sockets[0]! };
}

/** Time in which nothing ends, then time in which it does. */
async function endsBetween(plane: FakePlane, before: number, after: number, isOver: () => boolean): Promise<void> {
	await plane.pass(before);
	equal(isOver(), false, `over within ${before} ms`);
	await plane.pass(after - before);
	equal(isOver(), true, `not over within ${after} ms`);
}

for (const mode of [collected, streaming]) {
	describe(`a route's own limits: ${mode.bodyMode}`, () => {
		for (const ms of [SHORT, LONG]) {
			it(`answers 504 after the upstream_timeout_secs of the route, ${ms / 1000} s, and the breaker counts a failure`, async () => {
				const { edge, client, upstream } = await asked(mode, ms);
				await endsBetween(edge.plane, ms - 1_000, ms + 2_000, () => client.status !== 0);
				deepEqual(client.verdict, [504, `no response within ${ms / 1000} s`]);
				equal(upstream.failures(), 1);
				edge.assertQuiet();
			});
		}

		it('counts timeouts for the breaker as [breaker] says: with failures = 3, tenants = 2 those of one tenant do not open it', async () => {
			const edge = new Edge(mode, 1);
			edge.use(edge.upstreams, { limits: undefined, pending: undefined });
			edge.changeRoute({ opening: { failures: 3, tenants: 2 } });
			edge.limitRequests({ upstreamTimeoutMs: SHORT });
			const [{ upstream, sockets }] = edge.upstreams as [FakeUpstream];
			const timesOut = async (tenant: string) => {
				const client = await edge.ask(tenant);
				sockets.at(-1)!.accept();
				await edge.plane.pass(SHORT + 2_000);
				equal(client.status, 504);
				return upstream.breaker.circuit;
			};
			for (const tenant of ['a', 'a', 'a', 'a']) equal(await timesOut(tenant), CLOSED);
			equal(await timesOut('b'), OPEN);
		});

		it('keeps the limits of a request that was routed before a reload, and gives new ones to the next', async () => {
			const { edge, client } = await asked(mode, LONG);
			edge.use(edge.upstreams, { limits: undefined, pending: undefined });
			edge.limitRequests({ upstreamTimeoutMs: SHORT });
			const next = await edge.ask();
			edge.upstreams[0]!.sockets[1]!.accept();
			await edge.plane.pass(SHORT + 2_000);
			deepEqual([client.status, next.status], [0, 504]);
			await edge.plane.pass(LONG);
			equal(client.status, 504);
		});

		it('answers 413 to a declared length above the max_body_bytes of the route', async () => {
			const edge = new Edge(mode, 1);
			edge.limitRequests({ maxBodyBytes: 4 });
			deepEqual((await edge.ask('tenant', 'whole')).status, 413);
			equal((await edge.ask('tenant', 'four')).status, 0);
			equal(edge.upstreams[0]!.sockets.length, 1);
		});
	});
}

it('a collected response has no end where upstream_timeout_secs is 0', async () => {
	const { edge, client, socket } = await asked(collected, 0);
	await edge.plane.pass(10 * LONG);
	equal(client.status, 0);
	socket.answer();
	await settle();
	equal(client.status, 200);
});

describe('the body_timeout_secs of a route, collected', () => {
	for (const bodyTimeoutMs of [SHORT, LONG]) {
		it(`answers 408 to a client that sends nothing for ${bodyTimeoutMs / 1000} s`, async () => {
			const edge = new Edge(collected, 1);
			edge.limitRequests({ bodyTimeoutMs });
			const client = new Idle(edge, 'tenant', 'whole');
			await endsBetween(edge.plane, bodyTimeoutMs - 1_000, bodyTimeoutMs + 2_000, () => client.status !== 0);
			equal(client.status, 408);
		});
	}
});

describe('a long response, streaming', () => {
	it('is broken off after a silence of the upstream as long as the upstream_timeout_secs of the route', async () => {
		for (const ms of [SHORT, LONG]) {
			const { edge, client, upstream, socket } = await asked(streaming, ms);
			socket.answer(PART);
			await endsBetween(edge.plane, ms - 1_000, ms + 2_000, () => client.isReset);
			equal(upstream.failures(), 1);
		}
	});

	const CHUNKED = 'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n';

	async function begun(own: RequestLimitsSeed) {
		const edge = new Edge(streaming, 1);
		edge.limitRequests(own);
		const client = await edge.ask();
		const [{ sockets, failures }] = edge.upstreams as [FakeUpstream];
		sockets[0]!.accept();
		return { edge, client, failures, socket: sockets[0]! };
	}

	it('is broken off after a silence of idle_timeout_secs, if the route sets it; its head has upstream_timeout_secs', async () => {
		const { edge, client, failures, socket } = await begun({ idleTimeoutMs: LONG });
		await edge.plane.pass(LIMITS.upstream - 1_000);
		socket.answer(CHUNKED);
		await endsBetween(edge.plane, LONG - 1_000, LONG + 2_000, () => client.isReset);
		equal(failures(), 1);
		const late = await begun({ idleTimeoutMs: LONG });
		await endsBetween(
			late.edge.plane,
			LIMITS.upstream - 1_000,
			LIMITS.upstream + 2_000,
			() => late.client.status === 504,
		);
	});

	it('ends after upstream_timeout_secs in all if the route also sets idle_timeout_secs, without a failure of the upstream', async () => {
		const { edge, client, failures, socket } = await begun({ idleTimeoutMs: SHORT, upstreamTimeoutMs: LONG });
		socket.answer(CHUNKED);
		const moves = async () => {
			await edge.plane.pass(SHORT - 1_000);
			socket.answer('1\r\na\r\n');
		};
		for (let ms = 0; ms < LONG - 2 * SHORT; ms += SHORT - 1_000) await moves();
		equal(client.isReset, false);
		for (let i = 0; i < 4 && !client.isReset; i++) await moves();
		deepEqual([client.isReset, failures()], [true, 0]);
	});

	it('has no end where upstream_timeout_secs is 0', async () => {
		const { edge, client, socket } = await begun({ upstreamTimeoutMs: 0 });
		await edge.plane.pass(10 * LONG);
		equal(client.status, 0);
		socket.answer(CHUNKED);
		await edge.plane.pass(10 * LONG);
		equal(client.isReset, false);
	});

	it('ends when its token expires, if the route says so; the upstream is not to blame', async () => {
		for (const endsAtExpiry of [true, undefined]) {
			const { edge, client, failures, socket } = await begun({ upstreamTimeoutMs: 0, endsAtExpiry });
			const { clock } = edge.plane;
			const start = clock.wallSeconds();
			clock.wallSeconds = () => start + clock.now() / 1000;
			const { context } = client.exchange;
			const claims = { ...context.principal!.claims, exp: start + 100 };
			context.principal = { ...context.principal!, claims, leewaySeconds: 60 };
			socket.answer(CHUNKED);
			if (endsAtExpiry === undefined) {
				await edge.plane.pass(1_000_000);
				equal(client.isReset, false);
				continue;
			}
			await endsBetween(edge.plane, 158_000, 163_000, () => client.isReset);
			equal(failures(), 0);
			edge.assertQuiet();
		}
	});

	it('a streamed response that ends before its token expires is not broken off', async () => {
		const { edge, client, socket } = await begun({ endsAtExpiry: true });
		const { context } = client.exchange;
		const claims = { ...context.principal!.claims, exp: 0 };
		context.principal = { ...context.principal!, claims, leewaySeconds: 0 };
		client.end = () => {};
		socket.answer(`${CHUNKED}0\r\n\r\n`);
		await edge.plane.pass(10_000);
		equal(client.isReset, false);
	});

	it('waits for a client as long as [limits] says, whatever the route gives its upstream', async () => {
		for (const ms of [SHORT, LONG]) {
			const { edge, client, upstream, socket } = await asked(streaming, ms);
			client.write = () => false;
			socket.answer(PART);
			await endsBetween(edge.plane, LIMITS.upstream - 1_000, LIMITS.upstream + 2_000, () => client.isReset);
			equal(upstream.failures(), 0);
		}
	});

	it('waits as long for a client that has yet to take the last part', async () => {
		const { edge, client, socket } = await asked(streaming, LONG);
		client.end = () => {};
		socket.answer('HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok');
		await endsBetween(edge.plane, LIMITS.upstream - 1_000, LIMITS.upstream + 2_000, () => client.isReset);
	});
});

it('a collected response waits for its client as long as [limits] says, whatever the route gives its upstream', async () => {
	for (const ms of [SHORT, LONG]) {
		const { edge, client, socket } = await asked(collected, ms);
		client.respond = () => {};
		socket.answer();
		await settle();
		await endsBetween(edge.plane, LIMITS.upstream - 1_000, LIMITS.upstream + 2_000, () => client.isReset);
	}
});
