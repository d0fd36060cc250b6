import { BAD_GATEWAY, BAD_REQUEST, type Rejection } from '@mtls-edge-proxy/gate/gates/rejection.ts';
import { hasExtensions, problemOfResponse } from '../../gates/web-socket.ts';
import { ResponseFields } from '../client/response-fields.ts';
import type { Exchange } from '../request/exchange.ts';
import { Tunnel } from './tunnel.ts';

export const EARLY = BAD_REQUEST.because('bytes before the response to the WebSocket handshake');

/**
 * Opens a tunnel after the upstream has taken the handshake.
 *
 * @param accept the value that it must have sent; `undefined`: its protocol has none.
 * @returns why there is no tunnel.
 */
export function openTunnel(
	request: Exchange,
	fields: ResponseFields,
	accept: string | undefined,
): Rejection | undefined {
	const { client, handshake, principal, plane, route } = request.context;
	const problem = problemOfResponse(handshake!, fields.list, accept);
	if (problem !== undefined) return BAD_GATEWAY.because(problem);
	if (client.isAhead) return EARLY;
	const { webSocket } = route!;
	const tunnel = new Tunnel(request, webSocket!, hasExtensions(fields.list));
	request.becomes(tunnel, new ResponseFields(passedOn(fields.list)));
	plane.tunnels.add(tunnel);
	// Since the gates, the token may have been revoked, and the connection may have begun to end.
	const end = client.connection.addTunnel(tunnel);
	if (plane.authenticator.isRevoked(principal!)) tunnel.close('revoked');
	else if (end !== undefined) tunnel.close(end);
	return undefined;
}

/** Cleans up after the tunnel's request is over. */
export function leaveTunnel(tunnel: Tunnel): void {
	const { client, plane, record } = tunnel.request.context;
	tunnel.release();
	plane.tunnels.delete(tunnel);
	client.connection.deleteTunnel(tunnel);
	record?.tunnelEnds(tunnel.why);
}

function passedOn(fields: readonly string[]): string[] {
	return fields.filter((_, i) => !NOT_PASSED_ON.has(fields[i - (i % 2)]!));
}

/** The accept concerns only the upstream and us, and a length means nothing (RFC 9110 section 9.3.6). */
const NOT_PASSED_ON = new Set(['sec-websocket-accept', 'content-length']);
