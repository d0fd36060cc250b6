import { z } from 'zod';
import { expected, explained, table } from './kinds.ts';

/** `[log]`: what is said about requests, beside the records that `RUST_LOG` chooses. */
export const log = table('[log]', {
	access: z
		.enum(['off', 'errors', 'all'], { error: expected('"off", "errors" or "all"', 'leave it out for "off"') })
		.default('off')
		.describe(
			'the access log: none, of answers of 400 and above and of what broke off, or of every request; see docs/reference/logs.md',
		),
	request_id: z
		.boolean({ error: expected('true or false', 'leave it out for false') })
		.default(false)
		.describe(
			"every request has a `traceparent` and an `x-request-id` at the upstream and in the access log: the client's where they are well-formed, otherwise new ones",
		),
}).meta(explained('what is said about requests, beside the records that `RUST_LOG` chooses', { read: 'at start' }));
