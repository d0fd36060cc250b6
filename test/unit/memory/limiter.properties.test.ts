import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { TenantLimiter } from '../../../packages/gate/src/memory/limiter.ts';
import { ExactLimits, ms } from '../../models/exact-limits.ts';
import type { HammerTask } from './limiter.thread.ts';
import { runThreads } from './thread-pool.ts';

const THREADS = 3;
const SECRET = new Uint8Array(32).fill(7);
const HAMMER = new URL('./limiter.thread.ts', import.meta.url);

describe('the limiter over threads, for any rate, tenants and moments,', () => {
	it('admits exactly what exact arithmetic has room for, at each moment and to each tenant', async () => {
		const steps = fc.array(fc.oneof(fc.constant(0), fc.nat(300), fc.nat(3000)), { minLength: 1, maxLength: 40 });
		const tenants = fc.uniqueArray(
			fc.bigInt({ min: 1n, max: 2n ** 63n - 1n }).map((key) => key),
			{ minLength: 1, maxLength: 12 },
		);
		await fc.assert(
			fc.asyncProperty(
				fc.integer({ min: 1, max: 40 }),
				tenants,
				steps,
				fc.nat(2 ** 30),
				async (rps, keys, gaps, start) => {
					let grid = start;
					const grids = gaps.map((gap) => (grid += gap));
					const admitted = new SharedArrayBuffer(4 * grids.length * keys.length);
					// Together they ask for more than any bucket holds.
					const attempts = Math.ceil((rps + 1) / THREADS);
					const memory = TenantLimiter.allocate(SECRET, 64);
					await runThreads<HammerTask>(HAMMER, THREADS, {
						memory,
						rps,
						keys,
						moments: grids.map(ms),
						attempts,
						admitted,
					});
					const exact = new ExactLimits(rps);
					const counts = new Int32Array(admitted);
					for (const [step, moment] of grids.entries()) {
						for (const [tenant, key] of keys.entries()) {
							const room = exact.room(key, moment);
							assert.equal(counts[step * keys.length + tenant], room, `${rps} rps, tenant ${tenant}, moment ${step}`);
							exact.add(key, moment, room);
						}
					}
				},
			),
			{ numRuns: 15 },
		);
	});
});
