/** Tenants that share a connection to an HTTP/2 upstream: none gets more of it for having more requests. */
import { deepEqual, equal, ok } from 'node:assert/strict';
import { describe, it } from 'node:test';
import * as collected from '../../../../packages/proxy/src/data/body/collected.ts';
import {
	FRAME,
	FrameReader,
	headersFrame,
	SETTING,
	settingsFrame,
	windowUpdateFrame,
} from '../../../fixtures/h2-frames.ts';
import { Edge } from '../fixtures/fake-edge.ts';
import { settle } from '../fixtures/fake-plane.ts';
import type { FakeSocket, FakeUpstream } from '../fixtures/fake-upstream.ts';

const PREFACE_BYTES = 24;
const MAX_FRAME = 16_384;

/** One address, one connection, with the tenant of each stream. */
class Shared {
	readonly edge: Edge;
	readonly #reader = new FrameReader();
	readonly #tenants = new Map<number, string>();
	#read = PREFACE_BYTES;

	constructor(maxConnections?: number) {
		const limits = { maxRequests: 1000, maxConnections, queue: 100, queueTimeoutMs: 20_000 };
		this.edge = new Edge(collected, 1, limits, 'h2');
	}

	get socket(): FakeSocket {
		const { sockets } = this.edge.upstreams[0]!;
		equal(sockets.length, 1);
		return sockets[0]!;
	}

	/** Tenants of heads, and of frames of bodies, that have been sent since this was asked last. */
	sent(): { heads: string[]; data: string[] } {
		const { sent } = this.socket;
		const heads: string[] = [];
		const data: string[] = [];
		for (const { type, streamId, payload } of this.#reader.push(Buffer.from(sent.slice(this.#read), 'latin1'))) {
			if (type === FRAME.HEADERS) {
				const tenant = /tenant-\w+/.exec(payload.toString('latin1'))![0];
				this.#tenants.set(streamId, tenant);
				heads.push(tenant);
			}
			if (type === FRAME.DATA) data.push(this.#tenants.get(streamId)!);
		}
		this.#read = sent.length;
		return { heads, data };
	}

	async answer(...frames: readonly Buffer[]): Promise<void> {
		for (const frame of frames) this.socket.answer(frame);
		await settle();
	}
}

describe('a connection to an HTTP/2 upstream that tenants share', () => {
	it('carries the body of one request in every second frame, next to sixty of another tenant', async () => {
		const shared = new Shared();
		const body = 'x'.repeat(4 * MAX_FRAME - 1);
		await shared.edge.ask('tenant-first', body);
		shared.socket.accept('h2');
		await shared.answer(settingsFrame());
		// That has used up the connection's window. From here on all bodies wait.
		shared.sent();
		for (let i = 0; i < 60; i++) await shared.edge.ask('tenant-many', body);
		await shared.edge.ask('tenant-one', body);
		const { heads, data } = shared.sent();
		equal(heads.length, 61);
		ok(data.length <= 1);
		await shared.answer(windowUpdateFrame(0, 8 * MAX_FRAME));
		const next = shared.sent().data.slice(0, 8);
		equal(next.filter((tenant) => tenant === 'tenant-one').length, 4, next.join());
	});

	it('gives the next free stream to the tenant whose turn it is, not to the one with more requests', async () => {
		const shared = new Shared(1);
		await shared.edge.ask('tenant-many');
		shared.socket.accept('h2');
		await shared.answer(settingsFrame([[SETTING.MAX_CONCURRENT_STREAMS, 2]]));
		for (let i = 0; i < 20; i++) await shared.edge.ask('tenant-many');
		const one = await shared.edge.ask('tenant-one');
		deepEqual(shared.sent().heads, ['tenant-many', 'tenant-many']);
		await shared.answer(headersFrame(1, [[':status', '200']]), headersFrame(3, [[':status', '200']]));
		deepEqual(shared.sent().heads.sort(), ['tenant-many', 'tenant-one']);
		await shared.answer(headersFrame(5, [[':status', '200']]), headersFrame(7, [[':status', '200']]));
		equal(one.status, 200);
		equal(shared.edge.upstreams[0]!.sockets.length, 1);
	});
});

describe('an address of an HTTP/2 upstream that has just come', () => {
	it('gets a part of its requests that grows (slow_start_secs), as over HTTP/1.1', async () => {
		const edge = new Edge(
			collected,
			2,
			{ maxRequests: 1000, maxConnections: undefined, queue: 0, queueTimeoutMs: 1 },
			'h2',
		);
		const [old, young] = edge.upstreams as [FakeUpstream, FakeUpstream];
		await edge.plane.pass(200_000);
		young.upstream.load.servesSince(edge.plane.clock.now());
		edge.use([old, young], { slowStartMs: 100_000, limits: undefined, pending: undefined });
		const met = async (requests: number) => {
			const before = young.upstream.stats.read().streams;
			for (let i = 0; i < requests; i++) await edge.ask();
			return young.upstream.stats.read().streams - before;
		};
		const first = await met(44);
		ok(first > 0 && first < 8, `${first} of 44, with a tenth of its weight`);
		await edge.plane.pass(100_000);
		const then = await met(44);
		ok(then > 20 && then < 24, `${then} of 44, with all of its weight`);
		deepEqual([old.sockets.length, young.sockets.length], [1, 1]);
	});
});
