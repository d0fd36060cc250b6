import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Summary } from '../../../packages/proxy/src/memory/histogram.ts';
import { TransitionCounts } from '../../../packages/proxy/src/memory/transition-counts.ts';
import { UpstreamStats } from '../../../packages/proxy/src/memory/upstream-stats.ts';

/** Every status that a response can have. */
const STATUSES = Array.from({ length: 500 }, (_, i) => 100 + i);

describe("an upstream's stats", () => {
	const NO_RETRIES = new Map([
		['unreachable', 0],
		['stale', 0],
		['refused', 0],
		['unanswered', 0],
		['broken', 0],
	]);
	const ZERO = {
		...{ idle: 0, active: 0, streams: 0, choice: undefined, retries: NO_RETRIES, retriesDenied: 0 },
		...{ grpc: new Map(), responses: new Map() },
	};

	it('count each status separately, and apart from the gauges', () => {
		const stats = new UpstreamStats(UpstreamStats.allocate());
		for (const status of STATUSES) for (let i = 0; i < status; i++) stats.responded(status);
		assert.deepEqual(stats.read(), { ...ZERO, responses: new Map(STATUSES.map((status) => [status, status])) });
		assert.equal(summary(stats.roundTrips).count, 0);
	});

	it('count idle and active connections separately, and forget them with their worker', () => {
		const stats = new UpstreamStats(UpstreamStats.allocate());
		stats.connections('idle', 1);
		stats.connections('active', 1);
		stats.connections('active', 1);
		stats.responded(200);
		assert.deepEqual(stats.read(), { ...ZERO, idle: 1, active: 2, responses: new Map([[200, 1]]) });
		stats.clearGauges();
		assert.deepEqual(stats.read(), { ...ZERO, responses: new Map([[200, 1]]) });
	});

	it('keep the last choice of a protocol until their worker ends', () => {
		const stats = new UpstreamStats(UpstreamStats.allocate());
		for (const protocol of ['h2', 'http/1.1', 'h2'] as const) {
			stats.chose(protocol);
			assert.deepEqual(stats.read(), { ...ZERO, choice: protocol });
		}
		stats.clearGauges();
		assert.deepEqual(stats.read(), ZERO);
	});

	it('count retries by their reason, and those that the budget did not allow', () => {
		const stats = new UpstreamStats(UpstreamStats.allocate());
		stats.count('retries', 'unreachable');
		for (let i = 0; i < 2; i++) stats.count('retries', 'stale');
		for (let i = 0; i < 3; i++) stats.count('retriesDenied', 'budget');
		const retries = new Map([
			['unreachable', 1],
			['stale', 2],
			['refused', 0],
			['unanswered', 0],
			['broken', 0],
		]);
		assert.deepEqual(stats.read(), { ...ZERO, retries, retriesDenied: 3 });
	});

	it('count responses to gRPC calls by grpc-status', () => {
		const stats = new UpstreamStats(UpstreamStats.allocate());
		for (const code of ['0', '14', '14', '16'] as const) stats.count('grpc', code);
		const grpc = new Map([
			['0', 1],
			['14', 2],
			['16', 1],
		]);
		assert.deepEqual(stats.read(), { ...ZERO, grpc });
	});

	it('do not mix with the round-trip times', () => {
		const stats = new UpstreamStats(UpstreamStats.allocate());
		for (let now = 0; now < 80_000; now += 10_000) stats.roundTrips.record(1e9, now);
		assert.deepEqual(stats.read(), ZERO);
		assert.equal(summary(stats.roundTrips).count, 8);
	});

	it('count beyond 32 bits', () => {
		const stats = new UpstreamStats(UpstreamStats.allocate());
		stats.connections('idle', 2 ** 40);
		stats.connections('idle', 1);
		assert.equal(stats.read().idle, 2 ** 40 + 1);
	});
});

describe('the last transition of a circuit', () => {
	it('is kept with its time and its cause', () => {
		const counts = new TransitionCounts();
		assert.equal(counts.last, undefined);
		counts.count('open', 'status', 'status 503', 7, 1_800_000_000);
		counts.count('half-open', 'probe', 'the cooldown is over', 8, 1_800_000_001);
		assert.deepEqual(counts.last, {
			to: 'half-open',
			reason: 'probe',
			cause: 'the cooldown is over',
			at: 8,
			wallSeconds: 1_800_000_001,
		});
	});

	it('is shared with other threads, its words cut off at a whole character', () => {
		const memory = UpstreamStats.allocate();
		new UpstreamStats(memory).transitions.count('open', 'connect', 'ü'.repeat(100), 1, 2);
		assert.equal(new UpstreamStats(memory).transitions.last!.cause, 'ü'.repeat(48));
		assert.deepEqual(new UpstreamStats(memory).read().responses, new Map());
	});
});

function summary(histogram: UpstreamStats['roundTrips']): Summary {
	const all = new Summary();
	histogram.addTo(all, 0);
	return all;
}
