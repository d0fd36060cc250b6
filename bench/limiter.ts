/**
 * What a request pays for the limiter: in one process, and where the limit is leased from a store that all replicas share.
 *
 *   node bench/limiter.ts
 */
import { Rate } from '../src/gates/tenant-limit.ts';
import { FleetLimiter } from '../src/shared/fleet/fleet-limiter.ts';
import { createLeaseMemory, LeaseTable } from '../src/shared/fleet/leases.ts';
import { createLimiterMemory, TenantLimiter } from '../src/shared/limiter.ts';

const TENANTS = 1_000;
const REQUESTS = 2_000_000;
const ROUNDS = 7;
const RATE = new Rate(10_000_000, 10_000_000);

const memory = createLeaseMemory();
const leases = new LeaseTable(memory);
const limiters = {
	local: new TenantLimiter(createLimiterMemory(new Uint8Array(32)), 0),
	leased: new FleetLimiter(createLimiterMemory(new Uint8Array(32)), 0, memory),
};
const keys = Array.from({ length: TENANTS }, (_, i) => BigInt.asIntN(64, BigInt(i + 1) * 0x9e3779b97f4a7c15n));

/** Nanoseconds a request. */
function measure(limiter: TenantLimiter, startMs: number): number {
	const begin = process.hrtime.bigint();
	let admitted = 0;
	for (let i = 0; i < REQUESTS; i++) if (limiter.admit(keys[i % TENANTS]!, startMs + i / 1_000, RATE)) admitted++;
	const ns = Number(process.hrtime.bigint() - begin) / REQUESTS;
	if (admitted !== REQUESTS) throw new Error(`${admitted} of ${REQUESTS} admitted`);
	return ns;
}

for (const key of keys) limiters.leased.admit(key, 0, RATE);
const places: number[] = [];
for (let place = leases.wake(); place !== -1; place = leases.wake()) places.push(place);

const taken: Record<keyof typeof limiters, number[]> = { local: [], leased: [] };
for (let round = 0; round < ROUNDS; round++) {
	for (const place of places) leases.put(place, REQUESTS);
	for (const name of ['local', 'leased'] as const) taken[name].push(measure(limiters[name], 10_000 * (round + 1)));
}
const median = (all: number[]) => all.slice(1).sort((a, b) => a - b)[Math.floor((ROUNDS - 1) / 2)]!;
const [local, leased] = [median(taken.local), median(taken.leased)];
console.log(`local  ${local.toFixed(0)} ns a request`);
console.log(`leased ${leased.toFixed(0)} ns a request: ${(leased - local).toFixed(0)} ns more`);
