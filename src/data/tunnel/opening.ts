import { BAD_GATEWAY, BAD_REQUEST, type Rejection } from '../../gates/rejection.ts';
import { hasExtensions, problemOfAnswer } from '../../gates/web-socket.ts';
import { AnswerFields } from '../client/answer-fields.ts';
import type { TunnelRequest } from '../request/contract.ts';
import { Tunnel } from './tunnel.ts';

/** Becomes a tunnel. */
interface Opening extends TunnelRequest {
	becomes(tunnel: Tunnel, fields: AnswerFields): void;
}

export const EARLY = BAD_REQUEST.because('bytes before the answer to the WebSocket handshake');

/**
 * The upstream has taken a handshake.
 *
 * @param accept that it has to have sent; `undefined`: its protocol has none.
 * @returns why there is no tunnel.
 */
export function openTunnel(request: Opening, fields: AnswerFields, accept: string | undefined): Rejection | undefined {
	const { client, handshake, identity, plane, route } = request.context;
	const problem = problemOfAnswer(handshake!, fields.list, accept);
	if (problem !== undefined) return BAD_GATEWAY.because(problem);
	if (client.isAhead) return EARLY;
	const { webSocket } = route!;
	const tunnel = new Tunnel(request, webSocket!, hasExtensions(fields.list));
	request.becomes(tunnel, new AnswerFields(withoutAccept(fields.list)));
	plane.tunnels.add(tunnel);
	// Since the gates its token may have been revoked, and its connection may have begun to end.
	const end = client.connection.addTunnel(tunnel);
	if (plane.authenticator.isRevoked(identity!)) tunnel.close('revoked');
	else if (end !== undefined) tunnel.close(end);
	return undefined;
}

/** Its request is over. */
export function leaveTunnel(tunnel: Tunnel): void {
	const { client, plane, record } = tunnel.request.context;
	tunnel.release();
	plane.tunnels.delete(tunnel);
	client.connection.deleteTunnel(tunnel);
	record?.tunnelEnds(tunnel.why);
}

function withoutAccept(fields: readonly string[]): string[] {
	return fields.filter((_, i) => fields[i - (i % 2)] !== 'sec-websocket-accept');
}
