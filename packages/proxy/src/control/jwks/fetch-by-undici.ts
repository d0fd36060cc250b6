import { FETCH_LIMIT_MS } from '@mtls-edge-proxy/gate/identity/key-refresh.ts';
import { type FetchedKeys, fetchKeys } from '@mtls-edge-proxy/gate/jwks/fetch-keys.ts';
import type { RemoteIssuer } from '@mtls-edge-proxy/gate/jwks/remote-issuer.ts';

/**
 * `fetchKeys` with undici, which takes the CAs of `jwks_ca_path` and verifies the issuer's certificate whatever the environment
 * variables say. Fetches are rare, so each opens its own connections and closes them.
 *
 * @throws {FetchError} when there is no set that can be used.
 */
export async function fetchByUndici(
	issuer: RemoteIssuer,
	abandoned: AbortSignal,
	last?: FetchedKeys,
): Promise<FetchedKeys> {
	// Loaded only if there is such an issuer.
	const { Agent, fetch } = await import('undici');
	const { ca } = issuer;
	const connect = { ...(ca !== undefined && { ca }), rejectUnauthorized: true, timeout: FETCH_LIMIT_MS };
	const agent = new Agent({ connect, allowH2: false, pipelining: 1 });
	try {
		return await fetchKeys(issuer, (address, init) => fetch(address, { ...init, dispatcher: agent }), abandoned, last);
	} finally {
		void agent.destroy();
	}
}
