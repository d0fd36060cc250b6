import { Quotas, type TenantSeed } from '../identity/quotas.ts';
import { ConcurrencyCounts } from '../memory/concurrency.ts';
import { GateError } from './error.ts';
import { checkOptions, type Kinds, NAME, NARROWING, narrowing, required } from './options.ts';

/** The limits of one tenant, in place of the limits for all. */
export interface TenantOptions {
	/** The tenant's name: its issuer's prefix, then the name in its tokens. */
	readonly name: string;
	/** Requests per second, 0 to 1,000,000; 0 means no limit. Default: the rate claim of its token, or `tenantRps`. */
	readonly rps?: number;
	/** The burst after a pause, in requests. Default `rps`. Needs `rps`. */
	readonly burst?: number;
	/** Requests in flight at once, 1 to 1,000,000. Default: no limit. A request ends with its response, or when its `slot` is released. */
	readonly concurrency?: number;
}

/**
 * One request a microsecond. The limiter's arithmetic is exact far beyond this rate.
 *
 * @internal
 */
export const MAX_TENANT_RPS = 1_000_000;

const COUNT = 'must be a whole number from 1 to 1,000,000';
const KINDS: Kinds<TenantOptions> = {
	name: required(NAME),
	rps: narrowing('must be a whole number from 0 (no limit) to 1,000,000', (value) => value === 0 || isRps(value)),
	burst: NARROWING,
	concurrency: narrowing(COUNT, isRps),
};

/**
 * @param keyOf the key under which a tenant is counted.
 * @throws {GateError} `ERR_GATE_TENANT_RPS` or `ERR_GATE_TENANTS`.
 *
 * @internal
 */
export function readQuotas(
	tenantRps = 0,
	tenants: readonly TenantOptions[] = [],
	keyOf: (tenant: string) => bigint,
): Quotas {
	if (tenantRps !== 0 && !isRps(tenantRps)) {
		const message = 'tenantRps must be a whole number from 0 (no limit) to 1,000,000, or be left out (no limit)';
		throw new GateError('ERR_GATE_TENANT_RPS', message);
	}
	if (!Array.isArray(tenants)) throw new GateError('ERR_GATE_TENANTS', 'tenants must be a list of tenants');
	const names = new Set<unknown>();
	const seeds = tenants.map((given: TenantOptions, i): TenantSeed => {
		const options = checkOptions<TenantOptions>('ERR_GATE_TENANTS', `tenants[${i}]`, given, KINDS);
		const { name, rps, burst = rps, concurrency } = options;
		const demand = (key: keyof TenantOptions, holds: boolean, wanted: string) => {
			if (!holds) throw new GateError('ERR_GATE_TENANTS', `tenants[${i}].${key} ${wanted}`);
		};
		demand('name', !names.has(name), 'is duplicated');
		demand('burst', burst === rps || isRps(burst), COUNT);
		demand('burst', rps !== undefined || burst === undefined, 'needs rps, too');
		names.add(name);
		return { name, rate: rateOf(rps, burst), concurrency };
	});
	const limited = seeds.filter(({ concurrency }) => concurrency !== undefined).length;
	const counts = new ConcurrencyCounts(ConcurrencyCounts.allocate(1, Math.max(1, limited)), 0);
	return new Quotas({ tenants: seeds }, tenantRps, (tenant, limit) => counts.slots(keyOf(tenant), limit));
}

function rateOf(rps: number | undefined, burst: number | undefined): TenantSeed['rate'] {
	if (rps === undefined) return undefined;
	return rps === 0 ? null : { rps, burst: burst! };
}

/** @internal */
export function isRps(rps: unknown): rps is number {
	return Number.isInteger(rps) && (rps as number) >= 1 && (rps as number) <= MAX_TENANT_RPS;
}
