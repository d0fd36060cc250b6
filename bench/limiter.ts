/**
 * The limiter's cost per request: in one process, and with a limit that replicas share through a store.
 *
 *   node bench/limiter.ts
 */
import { Rate } from '../packages/gate/src/gates/tenant-limit.ts';
import { StoreHealth } from '../packages/gate/src/memory/fleet/store-health.ts';
import { TenantLimiter } from '../packages/gate/src/memory/limiter.ts';
import { FleetLimiter } from '../packages/proxy/src/memory/fleet/fleet-limiter.ts';
import { SpendingCounts } from '../packages/proxy/src/memory/fleet/spending.ts';

const TENANTS = 1_000;
const REQUESTS = 2_000_000;
const ROUNDS = 7;
const RATE = new Rate(10_000_000, 10_000_000);

const memory = TenantLimiter.allocate(new Uint8Array(32));
const limiters = {
	local: new TenantLimiter(TenantLimiter.allocate(new Uint8Array(32)), 0),
	shared: new FleetLimiter(memory, 0, {
		spending: SpendingCounts.allocate(memory),
		storeHealth: StoreHealth.allocate(),
	}),
};
const keys = Array.from({ length: TENANTS }, (_, i) => BigInt.asIntN(64, BigInt(i + 1) * 0x9e3779b97f4a7c15n));

/** CPU time of this thread per request, ns: other processes affect it less than elapsed time. */
function measure(limiter: TenantLimiter, startMs: number): number {
	const begin = process.threadCpuUsage();
	let admitted = 0;
	for (let i = 0; i < REQUESTS; i++) if (limiter.admit(keys[i % TENANTS]!, startMs + i / 1_000, RATE)) admitted++;
	const { user, system } = process.threadCpuUsage(begin);
	const ns = ((user + system) * 1000) / REQUESTS;
	if (admitted !== REQUESTS) throw new Error(`${admitted} of ${REQUESTS} admitted`);
	return ns;
}

const taken: Record<keyof typeof limiters, number[]> = { local: [], shared: [] };
for (let round = 0; round < ROUNDS; round++) {
	for (const name of ['local', 'shared'] as const) taken[name].push(measure(limiters[name], 10_000 * (round + 1)));
}
const median = (all: number[]) => all.slice(1).sort((a, b) => a - b)[Math.floor((ROUNDS - 1) / 2)]!;
const [local, shared] = [median(taken.local), median(taken.shared)];
console.log(`local  ${local.toFixed(0)} ns a request`);
console.log(`shared ${shared.toFixed(0)} ns a request: ${(shared - local).toFixed(0)} ns more`);
