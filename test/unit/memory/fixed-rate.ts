import { Rate } from '../../../packages/gate/src/gates/tenant-limit.ts';
import { type LimiterMemory, TenantLimiter } from '../../../packages/gate/src/memory/limiter.ts';

/** The limiter where all tenants have one rate. */
export class FixedRateLimiter extends TenantLimiter {
	readonly #rate: Rate;

	constructor(memory: LimiterMemory, rps: number, worker: number) {
		super(memory, worker);
		this.#rate = new Rate(rps);
	}

	override admit(key: bigint, nowMs: number): boolean {
		return super.admit(key, nowMs, this.#rate);
	}
}
