import type { Rate } from '../../gates/tenant-limit.ts';
import { type LimiterMemory, TenantLimiter } from '../limiter.ts';
import { type LeaseMemory, LeaseSpender } from './leases.ts';
import { LOCAL, REFUSING } from './standing-word.ts';

/**
 * The limiter of a process that is one of several: a request spends a token of what the process has leased, and is then counted by the
 * limiter in this process's memory, as it would be without the others. So one replica by itself never admits more than the limit says,
 * exactly, and all together no more than they have leased.
 */
export class FleetLimiter extends TenantLimiter {
	readonly #leases: LeaseSpender;

	/** @param worker index of this thread, unique in the process. */
	constructor(memory: LimiterMemory, worker: number, leases: LeaseMemory) {
		super(memory, worker);
		this.#leases = new LeaseSpender(leases, worker);
	}

	override admit(key: bigint, nowMs: number, rate: Rate): boolean {
		const leases = this.#leases;
		const { mode } = leases.standing;
		if (mode === LOCAL) return super.admit(key, nowMs, rate);
		if (mode === REFUSING || !leases.spend(key, rate)) {
			// Nothing is left: who asks in vain is to come again when there may be a token.
			this.bucket.debt = rate.depth;
			return false;
		}
		if (!super.admit(key, nowMs, rate)) {
			leases.unspend();
			return false;
		}
		return true;
	}

	/** What is left for a tenant is the lesser of its bucket here and what the fleet has left for it. */
	override tellLeft(rate: Rate): void {
		if (this.#leases.standing.mode === LOCAL) return;
		const left = this.#leases.left * rate.stepsPerRequest;
		this.bucket.debt = Math.max(this.bucket.debt, rate.depth - left);
	}
}
