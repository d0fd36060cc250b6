/** Where log records come from, for `RUST_LOG`; a test compares the list with the source. */
export const LOG_TARGETS: readonly string[] = [
	'proxy',
	'proxy::access',
	'proxy::auth',
	'proxy::breaker',
	'proxy::embed',
	'proxy::exchange',
	'proxy::health',
	'proxy::http2',
	'proxy::jwks',
	'proxy::listener',
	'proxy::log',
	'proxy::metrics',
	'proxy::reload',
	'proxy::request',
	'proxy::tls',
	'proxy::worker',
];
