import { MAX_GRPC_STATUS } from '@mtls-edge-proxy/gate/gates/grpc.ts';
import { z } from 'zod';
import { MAX_FAILURES, MAX_TENANTS } from '../../gates/breaker.ts';
import { expected, optional, table, wholeNumber, wholeNumberOr } from './kinds.ts';

/** `[breaker]`: defaults for routes that do not set when their breaker opens. */
export const breaker = table('[breaker]', {
	failures: wholeNumberOr(1, 1, MAX_FAILURES, 'of failures in a row').describe('failures in a row that open a breaker'),
	// Each upstream remembers the tenants that saw failures, in memory of a fixed size.
	tenants: wholeNumberOr(1, 1, MAX_TENANTS, 'of tenants').describe(
		'how many tenants must see a failure (502, 503, 504, a timeout or a broken response) before the breaker opens',
	),
	grpc_statuses: grpcStatuses(),
}).describe('rules for the circuit breakers of routes without their own');

/** OK is not a failure. */
function grpcStatuses() {
	const error = expected('a list of gRPC status codes, such as [14]', 'leave it out for none');
	return z
		.array(wholeNumber(1, MAX_GRPC_STATUS, 'none', 'of a gRPC status'), { error })
		.refine((codes) => new Set(codes).size === codes.length, { error: 'names a status twice; remove one' })
		.default([])
		.describe(
			"also count these gRPC status codes as failures of the upstream, on all routes; `14` is `UNAVAILABLE`. The proxy's own refusals do not count",
		);
}

/** Keys of a route: when it opens the breaker of its upstream. */
export const routeBreakerKeys = {
	failures: optional(
		wholeNumber(1, MAX_FAILURES, 'that of [breaker]', 'of failures in a row'),
		'failures in a row on this route that open the breaker',
		'that of `[breaker]`',
	),
	tenants: wholeNumber(1, MAX_TENANTS, 'that of [breaker]', 'of tenants').optional(),
};
