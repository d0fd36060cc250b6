import { flagOr, optional, wholeNumber } from './kinds.ts';

/** More could not be told from no limit. */
const MAX_MESSAGES = 1_000_000;

/** Of a route: whether it takes WebSockets, and what bounds them. */
export const routeWebSocketKeys = {
	websocket: flagOr(false).describe(
		'take WebSockets: `Upgrade: websocket` (RFC 6455), over HTTP/2 the extended CONNECT (RFC 8441), on each side by the protocol that it speaks. Without it they get 501',
	),
	websocket_end_at_expiry: flagOr(true).describe(
		'end a WebSocket when its token expires, leeway included. `false`: it may outlive its token',
	),
	websocket_messages_per_sec: optional(
		wholeNumber(1, MAX_MESSAGES, 'no limit', 'of messages'),
		'messages of one client in a second, over one WebSocket. A client that sends more is read later; its WebSocket stays',
		'no limit',
	),
};
