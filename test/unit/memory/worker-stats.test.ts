import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { RATE_LIMIT_REASONS } from '../../../packages/gate/src/gates/quota.ts';
import { HANDSHAKE_REFUSALS } from '../../../packages/proxy/src/identity/handshake-refusals.ts';
import { Summary } from '../../../packages/proxy/src/memory/histogram.ts';
import { CLIENT_PROTOCOLS } from '../../../packages/proxy/src/memory/route-stats.ts';
import {
	CONNECTION_ENDS,
	CONNECTION_REFUSALS,
	FORBIDDEN_REASONS,
	HTTP2_ERROR_REASONS,
	HTTP2_STREAM_ERROR_REASONS,
	TLS_GROUPS,
	TUNNEL_ENDS,
	WorkerStats,
} from '../../../packages/proxy/src/memory/worker-stats.ts';

/** Every status that an answer can have. */
const STATUSES = Array.from({ length: 500 }, (_, i) => 100 + i);

describe("a worker's stats", () => {
	const LISTS = {
		auth: ['missing', 'invalid'],
		rateLimited: RATE_LIMIT_REASONS,
		forbidden: FORBIDDEN_REASONS,
		handshakeRefusals: HANDSHAKE_REFUSALS,
		connectionRefusals: CONNECTION_REFUSALS,
		connectionEnds: CONNECTION_ENDS,
		tunnelEnds: TUNNEL_ENDS,
		http2Errors: HTTP2_ERROR_REASONS,
		http2StreamErrors: HTTP2_STREAM_ERROR_REASONS,
		'TLSv1.2': TLS_GROUPS,
		'TLSv1.3': TLS_GROUPS,
		readsDelayed: CLIENT_PROTOCOLS,
		tokenCache: ['hit', 'miss'],
		dropped: ['access lines', 'spans'],
		connections: ['handshake', 'http/1.1', 'h2'],
		tunnels: CLIENT_PROTOCOLS,
	} as const;
	const zeros = (labels: readonly string[]) => new Map(labels.map((label) => [label, 0]));
	const ZERO = {
		...Object.fromEntries(Object.entries(LISTS).map(([name, labels]) => [name, zeros(labels)])),
		responses: new Map(),
		loop: { sampledAt: 0, utilization: 0, activeMs: 0, idleMs: 0, delayP50: 0, delayP99: 0, delayMax: 0 },
	};

	for (const [name, labels] of Object.entries(LISTS) as [keyof typeof LISTS, readonly never[]][]) {
		it(`count each label of ${name} separately`, () => {
			const stats = new WorkerStats(WorkerStats.allocate());
			for (const [i, label] of labels.entries()) for (let n = 0; n <= i; n++) stats.count(name, label);
			assert.deepEqual(stats.read(), { ...ZERO, [name]: new Map(labels.map((label, i) => [label, i + 1])) });
			assert.equal(summary(stats.handshakes).count, 0);
		});
	}

	it('count each status separately', () => {
		const stats = new WorkerStats(WorkerStats.allocate());
		for (const status of STATUSES) for (let i = 0; i < status; i++) stats.responded(status);
		assert.deepEqual(stats.read(), { ...ZERO, responses: new Map(STATUSES.map((status) => [status, status])) });
		assert.equal(summary(stats.handshakes).count, 0);
	});

	it('count connections up and down', () => {
		const stats = new WorkerStats(WorkerStats.allocate());
		for (const change of [1, 1, -1, 1, -1]) stats.connections('h2', change);
		assert.equal(stats.read().connections.get('h2'), 1);
	});

	it('continue in the region of a worker that died, without its connections', () => {
		const memory = WorkerStats.allocate();
		const dead = new WorkerStats(memory);
		dead.count('auth', 'missing');
		dead.responded(429);
		dead.handshakes.record(5, 0);
		for (const protocol of ['handshake', 'http/1.1', 'h2'] as const) dead.connections(protocol, 3);
		for (const protocol of CLIENT_PROTOCOLS) dead.tunnels(protocol, 2);
		const successor = new WorkerStats(memory);
		successor.clearGauges();
		successor.responded(429);
		successor.handshakes.record(7, 0);
		assert.deepEqual(successor.read(), {
			...ZERO,
			auth: new Map([
				['missing', 1],
				['invalid', 0],
			]),
			responses: new Map([[429, 2]]),
		});
		const { count, sumMs } = summary(successor.handshakes);
		assert.deepEqual([count, sumMs], [2, 12]);
	});

	it('do not mix with the handshake times', () => {
		const stats = new WorkerStats(WorkerStats.allocate());
		for (let now = 0; now < 80_000; now += 10_000) stats.handshakes.record(1e9, now);
		assert.deepEqual(stats.read(), ZERO);
	});
});

describe("a worker's event loop in its stats", () => {
	const SAMPLE = { sampledAt: 5, utilization: 0.5, activeMs: 10, idleMs: 20, delayP50: 1, delayP99: 2, delayMax: 3 };

	it('is the last sample, with the sum of its active and idle time', () => {
		const stats = new WorkerStats(WorkerStats.allocate());
		stats.loopSampled(SAMPLE);
		stats.loopSampled({ ...SAMPLE, sampledAt: 6, utilization: 0.25 });
		assert.deepEqual(stats.read().loop, { ...SAMPLE, sampledAt: 6, utilization: 0.25, activeMs: 20, idleMs: 40 });
	});

	it('is gone with its thread, except the active and idle time', () => {
		const stats = new WorkerStats(WorkerStats.allocate());
		stats.loopSampled(SAMPLE);
		stats.clearGauges();
		const none = { sampledAt: 0, utilization: 0, delayP50: 0, delayP99: 0, delayMax: 0 };
		assert.deepEqual(stats.read().loop, { ...none, activeMs: 10, idleMs: 20 });
	});
});

function summary(histogram: WorkerStats['handshakes']): Summary {
	const all = new Summary();
	histogram.addTo(all, 0);
	return all;
}
