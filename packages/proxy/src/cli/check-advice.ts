import type { Config, RouteConfig } from '../config/config.ts';
import { type ConfigProblem, problemAt } from '../config/error.ts';
import type { Address } from './options.ts';
import type { RunValues } from './run-options.ts';

/**
 * Advice that only `proxy check` gives, not a start: it concerns the operation of the proxy, and the people who can act on it do
 * not read the log of a start.
 */

/** @param keyMode permissions of the file `tls.key_path`, as stat(2) has them; `undefined` if unknown. @param bodyMode of this build. */
export function checkAdvice(
	{ routes, tls, lines }: Config,
	listeners: Pick<RunValues, 'bind' | 'metricsBind'>,
	keyMode: number | undefined,
	bodyMode: string,
): ConfigProblem[] {
	const advice: ConfigProblem[] = [];
	const advise = (key: string, message: string, file?: string) => {
		advice.push(problemAt(lines, key, message, file));
	};
	const careless = routes.find(({ opening }) => opening.tenants === 1 && opening.failures === 1);
	if (careless !== undefined) {
		advise(
			'breaker.tenants',
			`is 1, as is breaker.failures: one failed request of one tenant closes ${JSON.stringify(careless.prefix)} to all of them; ` +
				'write tenants = 2 under [breaker]',
		);
	}
	for (const [i, route] of routes.entries()) {
		const { prefix, upstream, trailers } = route;
		// HTTP/2 without TLS hardly has another use; with TLS, plain HTTP is just as likely.
		const isGrpc =
			upstream.health?.grpcService !== undefined || (upstream.protocol === 'h2' && upstream.tls === undefined);
		if (bodyMode === 'collected' && isGrpc) {
			advise(
				`routes[${i}].upstream`,
				`${JSON.stringify(prefix)} seems to lead to gRPC: this build passes unary calls, and streams need proxy-streaming`,
			);
		}
		if (isGrpc && !trailers) {
			advise(`routes[${i}].trailers`, 'is false, but a gRPC call without trailers has no status; remove it');
		}
		for (const key of bodyMode === 'collected' ? keysOfStreams(route) : []) {
			advise(
				`routes[${i}].${key}`,
				'has no effect in this build, which reads responses whole; streams need proxy-streaming',
			);
		}
		for (const address of upstream.addresses) {
			const own = Object.entries(listeners).find(([, listener]) => isSame(address, listener));
			if (own === undefined) continue;
			const flag = own[0] === 'bind' ? '--bind' : '--metrics-bind';
			advise(`routes[${i}].upstream`, `${address.authority} is the proxy itself (${flag}); name the service`);
		}
	}
	if (keyMode !== undefined && (keyMode & 0o004) !== 0) {
		advise('tls.key_path', 'can be read by every user of this machine; chmod 600', tls.keyPath);
	}
	return advice;
}

/** The stream keys that the route sets. */
function keysOfStreams({ requestLimits, webSocket }: RouteConfig): string[] {
	const { idleTimeoutMs, endsAtExpiry } = requestLimits ?? {};
	const isIdleOfStreams = idleTimeoutMs !== undefined && webSocket === undefined;
	return [...(isIdleOfStreams ? ['idle_timeout_secs'] : []), ...(endsAtExpiry ? ['end_streams_at_expiry'] : [])];
}

function isSame(upstream: Address, listener: Address): boolean {
	if (upstream.port !== listener.port) return false;
	return upstream.host === listener.host || (isOwnHost(upstream.host) && isOwnHost(listener.host));
}

/** Loopback, and "all addresses of this machine". */
function isOwnHost(host: string): boolean {
	return /^(?:localhost|127(?:\.\d+){3}|::1|0\.0\.0\.0|::)$/.test(host);
}
