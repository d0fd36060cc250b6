import { explained, flagOr, oneOfOr, table } from './kinds.ts';

/** `[log]`: what is said about requests, beside the records that `RUST_LOG` chooses. */
export const log = table('[log]', {
	access: oneOfOr(['off', 'errors', 'all'], 'off').describe(
		'the access log: none, of answers of 400 and above and of what broke off, or of every request; see docs/reference/logs.md',
	),
	request_id: flagOr(false).describe(
		"every request has a `traceparent` and an `x-request-id` at the upstream and in the access log: the client's where they are well-formed, otherwise new ones",
	),
}).meta(explained('what is said about requests, beside the records that `RUST_LOG` chooses', { read: 'at start' }));
