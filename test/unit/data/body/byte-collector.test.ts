import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { OVERLOADED } from '../../../../packages/gate/src/gates/rejection.ts';
import { BufferedBytes, Reservation } from '../../../../packages/proxy/src/data/body/buffered-bytes.ts';
import { ByteCollector } from '../../../../packages/proxy/src/data/body/byte-collector.ts';
import { UNDECLARED } from '../../../../packages/proxy/src/gates/body-limit.ts';
import { Budget, budgetInUse } from '../../../../packages/proxy/src/memory/budget.ts';
import { TenantShares, tenantHolds } from '../../../../packages/proxy/src/memory/tenant-shares.ts';

const KIB = 1024;
const [A, B] = [1n, (2n << 14n) + 2n];

function memory(allKib: number, shareKib: number) {
	const all = Budget.allocate(allKib * KIB, KIB, 1);
	const shares = TenantShares.allocate(shareKib * KIB, KIB, 1);
	const bytes = new BufferedBytes(new Budget(all, 0), new TenantShares(shares, 0));
	return {
		bytes,
		held: () => [budgetInUse(all), tenantHolds(shares, A), tenantHolds(shares, B)].map((held) => held / KIB),
	};
}

describe('what is kept of bodies', () => {
	it('has a separate limit, of which a tenant gets a quarter', () => {
		const { bytes, held } = memory(300, 128);
		const quarter = 512 * KIB;
		assert.equal(bytes.tryKeep(A, quarter), true);
		assert.equal(bytes.tryKeep(A, 1), false);
		for (const tenant of [B, 7n, 8n]) assert.equal(bytes.tryKeep(tenant, quarter), true);
		assert.equal(bytes.tryKeep(9n, 1), false, 'all of it is kept');
		bytes.unkeep(B, 1);
		assert.equal(bytes.tryKeep(9n, 1), true);
		bytes.unkeep(A, quarter);
		assert.equal(bytes.tryKeep(A, quarter), true);
		assert.deepEqual(held(), [0, 0, 0]);
	});
});

describe('what a body holds', () => {
	it('is never more than its share, and is given back whole, whatever sizes it has had', () => {
		fc.assert(
			fc.property(fc.array(fc.integer({ min: 1, max: 200 * KIB })), (sizes) => {
				const { bytes, held } = memory(300, 128);
				const body = new Reservation(bytes, A);
				for (const size of sizes) {
					const before = body.size;
					const fits = Math.ceil(before / KIB) + Math.ceil(size / KIB) <= 128;
					// Bytes that go out must not be refused: the old size stays.
					assert.equal(body.resize(size) !== undefined, !fits && size > before);
					assert.equal(body.size, fits ? size : before);
					assert.deepEqual(held().slice(0, 2), Array(2).fill(Math.ceil(body.size / KIB)));
				}
				body.release();
				assert.deepEqual(held(), [0, 0, 0]);
			}),
		);
	});
});

describe('a body that is put together in memory', () => {
	it('is refused beyond the share of its tenant, and says so; others have their own', () => {
		const { bytes, held } = memory(300, 128);
		const one = new ByteCollector(bytes, A);
		assert.equal(one.append(Buffer.alloc(100 * KIB), 100 * KIB), undefined);
		const refusal = new ByteCollector(bytes, A).append(Buffer.alloc(29 * KIB), 29 * KIB)!;
		assert.ok(refusal.is(OVERLOADED));
		assert.equal(refusal.reason, 'this tenant holds its share of max_buffered_bytes');
		assert.equal(new ByteCollector(bytes, B).append(Buffer.alloc(128 * KIB), 128 * KIB), undefined);
		assert.deepEqual(held(), [228, 100, 128]);
	});

	it('is refused beyond what the process has, and takes nothing of the share then', () => {
		const { bytes, held } = memory(200, 128);
		assert.equal(new ByteCollector(bytes, A).append(Buffer.alloc(128 * KIB), 128 * KIB), undefined);
		const refusal = new ByteCollector(bytes, B).append(Buffer.alloc(100 * KIB), 100 * KIB)!;
		assert.ok(refusal.is(OVERLOADED));
		assert.equal(refusal.reason, 'all of max_buffered_bytes is held');
		assert.deepEqual(held(), [128, 128, 0]);
	});

	it('has all of the budget where tenants have no shares', () => {
		const all = Budget.allocate(200 * KIB, KIB, 1);
		const bytes = new BufferedBytes(new Budget(all, 0), undefined);
		const body = new ByteCollector(bytes, A);
		assert.equal(body.append(Buffer.alloc(200 * KIB), 200 * KIB), undefined);
		body.release();
		assert.equal(budgetInUse(all), 0);
	});

	it('a collected body of declared length holds at most that, and at most four times the received bytes', () => {
		const { bytes, held } = memory(10_000, 10_000);
		const body = new ByteCollector(bytes, A);
		for (let length = 64; length <= 1984; length += 64) {
			assert.equal(body.append(Buffer.alloc(64 * KIB), 2000 * KIB), undefined);
			assert.ok(held()[0]! <= Math.min(2000, 4 * length), `${held()[0]} KiB for ${length}`);
		}
		assert.deepEqual(held(), [2000, 2000, 0]);
	});

	it('is reserved ahead, so that those which do not fit together are refused early, and not all of them half way', () => {
		const { bytes, held } = memory(4096, 4096);
		const bodies = Array.from({ length: 16 }, () => new ByteCollector(bytes, A));
		const chunk = Buffer.alloc(64 * KIB);
		const admitted = bodies.filter((body) => {
			for (let come = 0; come < 320; come += 64) if (body.append(chunk, 500 * KIB) !== undefined) return false;
			return true;
		});
		assert.ok(admitted.length < 16, 'all of them half way');
		assert.ok(held()[0]! >= 500 * admitted.length, `${held()[0]} KiB`);
		for (const body of bodies) if (!admitted.includes(body)) body.release();
		for (const body of admitted) assert.equal(body.append(Buffer.alloc(180 * KIB), 500 * KIB), undefined);
	});

	it('gives back exactly the claimed bytes, however they come and wherever they end, also when it is released twice', () => {
		const step = fc.record({ body: fc.nat(5), bytes: fc.nat(60_000), declared: fc.boolean(), ends: fc.nat(9) });
		fc.assert(
			fc.property(fc.array(step), (steps) => {
				const { bytes, held } = memory(400, 200);
				const bodies = Array.from({ length: 6 }, (_, i) => new ByteCollector(bytes, i % 2 === 0 ? A : B));
				for (const { body, bytes: length, declared, ends } of steps) {
					const collector = bodies[body]!;
					const before = collector.length;
					const refusal = collector.append(Buffer.alloc(length, 1), declared ? before + length : UNDECLARED);
					assert.equal(collector.length, refusal === undefined ? before + length : before);
					if (ends === 0) collector.release();
					const [all, a, b] = held() as [number, number, number];
					assert.ok(all <= 400 && a <= 200 && b <= 200 && all === a + b, `${held()}`);
				}
				for (const collector of bodies) collector.release();
				for (const collector of bodies) collector.release();
				assert.deepEqual(held(), [0, 0, 0]);
			}),
		);
	});
});
