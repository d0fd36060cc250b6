import { createHmac } from 'node:crypto';

/**
 * The key under which a tenant is counted in memory that threads share: 64 bits of a keyed hash, never zero.
 *
 * @param secret of this process, so that no one outside can construct two tenants with the same key.
 */
export function tenantKey(secret: Uint8Array, tenant: string): bigint {
	return createHmac('sha256', secret).update(tenant).digest().readBigInt64LE() || 1n;
}
