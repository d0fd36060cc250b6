import { METHOD_NOT_ALLOWED, type Rejection, UPGRADE_UNSUPPORTED } from '@mtls-edge-proxy/gate/gates/rejection.ts';
import { type CleanTarget, cleanTarget } from './path.ts';

/**
 * Refuses what would turn the connection into something else than HTTP, and TRACE, which would show the upstream's view
 * of the request, headers set by the proxy included, to the client (RFC 9110 section 9.3.8).
 *
 * @param wantsUpgrade the request has an `Upgrade` other than `h2c`.
 */
export function refuseProtocolChange(method: string, wantsUpgrade: boolean): Rejection | undefined {
	if (wantsUpgrade || method === 'CONNECT') return UPGRADE_UNSUPPORTED;
	if (method === 'TRACE') return METHOD_NOT_ALLOWED;
	return undefined;
}

/**
 * The target of a request. The target of a CONNECT names an authority, and is always refused.
 *
 * @param isExtended it is one that has a path (RFC 8441 section 4).
 */
export function admitTarget(method: string, target: string, isExtended = false): CleanTarget | Rejection {
	return method === 'CONNECT' && !isExtended ? UPGRADE_UNSUPPORTED : cleanTarget(target);
}
