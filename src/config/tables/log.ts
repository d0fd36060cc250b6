import { z } from 'zod';
import { expected, table } from './kinds.ts';

/** `[log]`: what is said about requests, beside the records that `RUST_LOG` chooses. */
export const log = table('[log]', {
	access: z
		.enum(['off', 'errors', 'all'], { error: expected('"off", "errors" or "all"', 'leave it out for "off"') })
		.default('off'),
	request_id: z.boolean({ error: expected('true or false', 'leave it out for false') }).default(false),
});
