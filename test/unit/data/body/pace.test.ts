/** When a response that is taken slowly is cut off, by the clock, in both body modes. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Principal } from '../../../../packages/gate/src/gates/token-cache.ts';
import { Bodies as Collected } from '../../../../packages/proxy/src/data/body/collected.ts';
import { Bodies as Streaming } from '../../../../packages/proxy/src/data/body/streaming.ts';
import type { ClientRequest } from '../../../../packages/proxy/src/data/client/client-request.ts';
import { ResponseFields } from '../../../../packages/proxy/src/data/client/response-fields.ts';
import type { BodyModeClass } from '../../../../packages/proxy/src/data/request/contract.ts';
import type { Delivery } from '../../../../packages/proxy/src/data/request/delivery.ts';
import { Exchange } from '../../../../packages/proxy/src/data/request/exchange.ts';
import { STATE } from '../../../../packages/proxy/src/data/request/state.ts';
import type { UpstreamConnection } from '../../../../packages/proxy/src/data/upstream/connection.ts';
import { FakePlane, LIMITS } from '../fixtures/fake-plane.ts';

const PIECE = 65_536;

/** A client of which the test says when it takes something. */
class FakeClient {
	cut = false;
	readonly method = 'GET';
	readonly target = '/a';
	readonly connection = { ip: '192.0.2.1' };
	takesTrailers(): boolean {
		return false;
	}
	respond(): void {}
	begin(): void {}
	write(): boolean {
		return false;
	}
	end(): void {}
	reset(): void {
		this.cut = true;
	}
}

interface Taking {
	readonly plane: FakePlane;
	readonly client: FakeClient;
	/** Lets time go by, in which the client takes a piece. */
	take(ms: number): Promise<void>;
}

/** A request that is at an upstream. */
function sent(client: FakeClient, plane: FakePlane, Mode: BodyModeClass, connection?: UpstreamConnection): Exchange {
	const exchange = new Exchange(client as unknown as ClientRequest, plane, Mode);
	exchange.context.principal = { tenantKey: 1n } as Principal;
	const attempt = { connection, measure() {}, settle() {}, settleProbe() {} };
	exchange.delivery = { attempt, end: () => connection?.destroy() } as unknown as Delivery;
	exchange.enter(STATE.queued);
	exchange.enter(STATE.sent);
	return exchange;
}

/** A response in `pieces`, all of which have come. */
function collected(pieces: number, leastRate?: number): Taking {
	const plane = planeWith(leastRate);
	const client = new FakeClient();
	const exchange = sent(client, plane, Collected);
	let left = pieces * PIECE;
	exchange.body.onHead(200, new ResponseFields(['content-length', `${left}`]), left, true);
	exchange.body.onBody(Buffer.alloc(left));
	exchange.body.onEnd();
	// The first one was given with the head.
	left -= PIECE;
	return {
		plane,
		client,
		take: async (ms) => {
			await plane.pass(ms);
			exchange.onClientDrained(left);
			// The next one is given.
			left -= PIECE;
		},
	};
}

/** A response of which the upstream has the next piece as soon as the client has taken the one before. */
function streamed(leastRate?: number, upstreamMs = 0): Taking & { upstreamDropped: boolean } {
	const plane = planeWith(leastRate);
	const client = new FakeClient();
	const state = { upstreamDropped: false };
	const connection = {
		pause() {},
		resume() {},
		destroy() {
			state.upstreamDropped = true;
		},
	} as unknown as UpstreamConnection;
	const exchange = sent(client, plane, Streaming, connection);
	exchange.body.onHead(200, new ResponseFields([]), -1, true);
	return Object.assign(state, {
		plane,
		client,
		take: async (ms: number) => {
			await plane.pass(upstreamMs);
			exchange.body.onBody(Buffer.alloc(PIECE));
			await plane.pass(ms);
			exchange.onClientDrained(0);
		},
	});
}

function planeWith(minAnswerBytesPerSec: number | undefined): FakePlane {
	const plane = new FakePlane();
	Object.assign(plane.limits, { minAnswerBytesPerSec });
	return plane;
}

/** @returns after how many pieces the client was cut off, if that was before `most`. */
async function cutAfter({ client, take }: Taking, ms: number, most: number): Promise<number | undefined> {
	for (let pieces = 1; pieces <= most; pieces++) {
		await take(ms);
		if (client.cut) return pieces;
	}
	return undefined;
}

const msPerPiece = (bytesPerSec: number) => (PIECE / bytesPerSec) * 1000;

describe('a client that takes a collected response', () => {
	it('is cut off when a window is over, below 4 KiB/s if nothing else is configured', async () => {
		assert.equal(await cutAfter(collected(100), msPerPiece(4000), 90), Math.ceil(LIMITS.upstream / msPerPiece(4000)));
	});

	it('gets all of it at 4 KiB/s and above', async () => {
		assert.equal(await cutAfter(collected(100), msPerPiece(4096), 90), undefined);
	});

	it('is held to the rate that is configured, or to none', async () => {
		assert.equal(await cutAfter(collected(100, 1000), msPerPiece(1100), 90), undefined);
		assert.equal(
			await cutAfter(collected(100, 10_000), msPerPiece(9000), 90),
			Math.ceil(LIMITS.upstream / msPerPiece(9000)),
		);
		assert.equal(await cutAfter(collected(100, 0), msPerPiece(400), 90), undefined);
	});

	it('is not cut off once it has taken everything, however long that took', async () => {
		const { client, take } = collected(1);
		await take(LIMITS.upstream);
		assert.equal(client.cut, false);
	});
});

describe('a client that takes a streamed response', () => {
	it('may take its time if no rate is configured', async () => {
		assert.equal(await cutAfter(streamed(), msPerPiece(400), 50), undefined);
		assert.equal(await cutAfter(streamed(0), msPerPiece(400), 50), undefined);
	});

	it('is cut off when a window is over, below the rate that is configured, and the upstream is let go', async () => {
		const slow = streamed(10_000);
		assert.equal(await cutAfter(slow, msPerPiece(9000), 90), Math.ceil(LIMITS.upstream / msPerPiece(9000)));
		assert.ok(slow.upstreamDropped);
		assert.equal(await cutAfter(streamed(10_000), msPerPiece(10_100), 90), undefined);
	});

	it('does not answer for a slow upstream', async () => {
		assert.equal(await cutAfter(streamed(10_000, 60_000), msPerPiece(20_000), 90), undefined);
	});
});
