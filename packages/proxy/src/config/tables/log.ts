import { flagOr, oneOfOr, table } from './kinds.ts';

/** `[log]`: log records about requests, apart from the records that `RUST_LOG` chooses. */
export const log = table('[log]', {
	access: oneOfOr(['off', 'errors', 'all'], 'off').describe(
		'the access log: `"errors"` logs responses of 400 and above and broken responses, `"all"` logs every request; see docs/reference/logs.md',
	),
	request_id: flagOr(false).describe(
		"add `traceparent` and `x-request-id` to every request and to the access log: the client's own if they are well-formed, otherwise new ones",
	),
}).meta({ description: 'logging of requests, in addition to the lines that `RUST_LOG` selects', read: 'at startup' });
