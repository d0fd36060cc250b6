import type { VerifiedToken } from '@mtls-edge-proxy/gate/gates/token-cache.ts';
import type { Config, RouteConfig } from '../../config/config.ts';
import { placeOf, timeOf } from './places.ts';

/** Describes a route's rules for streaming responses and WebSockets: when they end, and what is forwarded. */

export interface StreamContext {
	readonly config: Config;
	readonly isGrpc: boolean;
	readonly bodyMode: string;
	readonly token: VerifiedToken | undefined;
}

/** Describes the keys that the route sets. */
export function responseWords(route: RouteConfig, { config, isGrpc, bodyMode, token }: StreamContext): string[] {
	const { trailers, requestLimits: { idleTimeoutMs, endsAtExpiry = false } = {} } = route;
	const place = placesOf(route, config);
	const streams = bodyMode === 'streaming';
	const words: string[] = [];
	if (!trailers) {
		const lost = isGrpc ? ', and a gRPC call without them has no status' : '';
		words.push(`${place('trailers')}: no trailers pass${lost}`);
	}
	if (idleTimeoutMs !== undefined) {
		const what = streams ? `the response ends after ${idleTimeoutMs / 1000} s without a byte` : NEEDS_STREAMING;
		words.push(`${place('idle_timeout_secs')}: ${what}`);
	}
	if (endsAtExpiry) {
		const what = streams ? `the response ends when the token expires${expiryOf(token)}` : NEEDS_STREAMING;
		words.push(`${place('end_streams_at_expiry')}: ${what}`);
	}
	return words;
}

const NEEDS_STREAMING = 'no effect in this build, which reads responses whole; streams need proxy-streaming';

/** Describes the rules of a route that accepts WebSockets, set or default. */
export function webSocketWords(route: RouteConfig, { config, token }: StreamContext): string[] {
	const { endsAtExpiry, messagesPerSec, idleMs } = route.webSocket!;
	const place = placesOf(route, config);
	const words = [
		`${place('idle_timeout_secs')}: it ends after ${idleMs / 1000} s without a byte`,
		`${place('websocket_end_at_expiry')}: ${endsAtExpiry ? `it ends when the token expires${expiryOf(token)}` : 'it may outlive its token'}`,
	];
	if (messagesPerSec !== undefined) {
		words.push(
			`${place('websocket_messages_per_sec')}: ${messagesPerSec} messages per second from the client; the proxy reads further ones later`,
		);
	}
	return words;
}

function placesOf(route: RouteConfig, config: Config): (key: string) => string {
	const nth = config.routes.indexOf(route);
	return (key) => placeOf(config, `routes[${nth}].${key}`);
}

function expiryOf(token: VerifiedToken | undefined): string {
	return token === undefined ? '' : `, ${timeOf(token.claims.exp + token.leewaySeconds)} with its leeway`;
}
