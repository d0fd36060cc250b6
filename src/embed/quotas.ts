import { Quotas, type TenantSeed } from '../identity/quotas.ts';
import { GateError } from './error.ts';

/** What one tenant may ask for, in place of what holds for all. */
export interface TenantOptions {
	/** The tenant: as its tokens name it, behind its issuer's prefix. */
	readonly name: string;
	/** Requests per second, 0 to 1,000,000; 0: no limit. */
	readonly rps: number;
	/** So many at once after a pause. Default `rps`. */
	readonly burst?: number;
}

/**
 * One request a microsecond; far below the rate at which the limiter's arithmetic would stop being exact.
 *
 * @internal
 */
export const MAX_TENANT_RPS = 1_000_000;

/**
 * @throws {GateError} `ERR_GATE_TENANT_RPS` or `ERR_GATE_TENANTS`.
 *
 * @internal
 */
export function readQuotas(tenantRps: number, tenants: readonly TenantOptions[] = []): Quotas {
	if (tenantRps !== 0 && !isRps(tenantRps)) {
		throw new GateError('ERR_GATE_TENANT_RPS', 'tenantRps must be a whole number from 0 (no limit) to 1,000,000');
	}
	const names = new Set<unknown>();
	const seeds = tenants.map(({ name, rps, burst = rps }, i): TenantSeed => {
		const demand = (key: keyof TenantOptions, holds: boolean, wanted: string) => {
			if (!holds) throw new GateError('ERR_GATE_TENANTS', `tenants[${i}].${key} ${wanted}`);
		};
		demand('name', typeof name === 'string' && name !== '', 'must be a non-empty string');
		demand('name', !names.has(name), 'is there twice');
		demand('rps', rps === 0 || isRps(rps), 'must be a whole number from 0 (no limit) to 1,000,000');
		demand('burst', burst === rps || isRps(burst), 'must be a whole number from 1 to 1,000,000');
		names.add(name);
		return { name, rate: rps === 0 ? null : { rps, burst }, concurrency: undefined };
	});
	return new Quotas({ tenants: seeds }, tenantRps, () => {
		throw new Error('no tenant of a gate has a limit on its requests under way');
	});
}

/** @internal */
export function isRps(rps: number): boolean {
	return Number.isInteger(rps) && rps >= 1 && rps <= MAX_TENANT_RPS;
}
