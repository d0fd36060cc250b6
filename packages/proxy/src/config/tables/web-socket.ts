import { flagOr, optional, wholeNumber } from './kinds.ts';

/** A limit above this has no effect. */
const MAX_MESSAGES = 1_000_000;

/** Keys of a route: whether it accepts WebSockets, and their limits. */
export const routeWebSocketKeys = {
	websocket: flagOr(false).describe(
		'accept WebSockets: `Upgrade: websocket` (RFC 6455), or over HTTP/2 the extended CONNECT (RFC 8441). The client and the upstream may use different protocols. Unless `websocket` is `true`, a handshake gets 501',
	),
	websocket_end_at_expiry: flagOr(true).describe(
		'end a WebSocket when its token expires, leeway included. `false`: it may outlive its token',
	),
	websocket_messages_per_sec: optional(
		wholeNumber(1, MAX_MESSAGES, 'no limit', 'of messages'),
		'messages per second from the client of one WebSocket. The proxy slows a faster client down, and keeps its WebSocket open',
		'no limit',
	),
};
