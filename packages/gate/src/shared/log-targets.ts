/** Where log records come from, for `RUST_LOG`, and what they say; a test compares the list with the source. */
export const LOG_TARGET_MEANINGS: Readonly<Record<string, string>> = {
	proxy: 'start, readiness, drain, warnings about the configuration and the machine',
	'proxy::access': 'the access log, below',
	'proxy::auth':
		'requests without a valid token, with the failed check; requests that may not use their route, with the reason',
	'proxy::breaker': 'every transition of a circuit breaker, with its cause',
	'proxy::dns':
		'addresses of upstreams with `dns`: changes at `info`; failed lookups, and names with more than 1,000 addresses, at `warn`',
	'proxy::embed': 'the example service of `proxy embed-demo`',
	'proxy::exchange':
		'requests that failed after the gates (502, 504, 503 `overloaded`, broken responses), each with its reason; internal errors, at `error`',
	'proxy::health':
		'upstreams that became healthy or unhealthy, or are now unhealthy for a different reason, with `cause` and `remedy`',
	'proxy::http2': 'HTTP/2 connections and streams that ended because of a client error, with the reason',
	'proxy::jwks':
		"fetches of issuers' keys: changed keys at `info`, unchanged keys at `debug`, failures at `warn`, keys dropped for their age at `error`",
	'proxy::limiter':
		'shared limits: outages of the store and its recovery; revocations in the store, and unreadable entries',
	'proxy::listener': 'refused connections',
	'proxy::log': 'missing lines: the reader fell behind, or a write failed',
	'proxy::metrics': 'errors of the metrics listener',
	'proxy::reload': 'reloads: the trigger and the outcome',
	'proxy::request':
		'requests refused with 400, 404, 405, 408, 413, 429, 431 or 501, each with its reason; each response, at `debug`',
	'proxy::tls':
		"failed handshakes, with the client's address and certificate; connections that the proxy ends, at `info` and not rate-limited; stale CRLs",
	'proxy::trace': 'a collector that accepts no spans, at most once a minute, and its recovery',
	'proxy::worker': 'threads that died and were replaced',
};

export const LOG_TARGETS: readonly string[] = Object.keys(LOG_TARGET_MEANINGS);
