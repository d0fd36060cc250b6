import { METHOD_NOT_ALLOWED, type Rejection, UPGRADE_UNSUPPORTED } from '@mtls-edge-proxy/gate/gates/rejection.ts';
import { type CleanTarget, cleanTarget } from './path.ts';

/**
 * Refuses requests that would switch the connection to another protocol than HTTP. Also refuses TRACE, which would show the client
 * the request as the upstream got it, with the proxy's own headers (RFC 9110 section 9.3.8).
 *
 * @param wantsUpgrade the request has an `Upgrade` other than `h2c`.
 */
export function refuseProtocolChange(method: string, wantsUpgrade: boolean): Rejection | undefined {
	if (wantsUpgrade || method === 'CONNECT') return UPGRADE_UNSUPPORTED;
	if (method === 'TRACE') return METHOD_NOT_ALLOWED;
	return undefined;
}

/**
 * The target of a request. The target of a CONNECT is an authority, and is always refused.
 *
 * @param isExtended an extended CONNECT, which has a path (RFC 8441 section 4).
 */
export function admitTarget(method: string, target: string, isExtended = false): CleanTarget | Rejection {
	return method === 'CONNECT' && !isExtended ? UPGRADE_UNSUPPORTED : cleanTarget(target);
}
