import { z } from 'zod';
import { expected, flagOr, fromZeroTo, table, text, wholeNumberOr } from './kinds.ts';

/** One process hardly needs more host names: a longer list is a mistake. */
const MAX_HOSTS = 32;

/** `[status]`: the status page of the metrics listener. */
export const status = table('[status]', {
	tenants: flagOr(false).describe('show tenants by name on the status page'),
	hosts: z
		.array(hostName(), {
			error: expected('a list of host names', 'leave it out if clients use an IP address'),
		})
		.max(MAX_HOSTS, { error: () => `has more than ${MAX_HOSTS} names; name those that people and scrapers use` })
		.default([])
		.describe(
			'host names that `/metrics`, `/process` and the page accept, in addition to addresses and private names. This check stops DNS rebinding: a malicious page that resolves its own host name to the address of this listener',
		),
	problem_401_share: share(0.2, '401 responses, out of all responses in the last minute,'),
	problem_429_share: share(0.2, '429 responses, out of all responses in the last minute,'),
	problem_5xx_share: share(0.05, 'responses of 500 and above, from the proxy or from upstreams,'),
	problem_grpc_share: share(
		0.05,
		'gRPC calls that fail at upstreams (UNKNOWN, DEADLINE_EXCEEDED, UNIMPLEMENTED, INTERNAL, UNAVAILABLE, DATA_LOSS)',
	),
	problem_handshake_share: share(0.2, 'failed TLS handshakes'),
	problem_least: wholeNumberOr(20, 1, 1_000_000, 'of responses').describe(
		'with fewer responses, calls or handshakes than this in the last minute, the page does not report the share as a problem',
	),
}).meta({ description: 'the status page of the metrics listener', read: 'at startup' });

function share(fallback: number, of: string) {
	return fromZeroTo(1, fallback).describe(`share of ${of} at which the page reports a problem; 0: never`);
}

function hostName() {
	const pattern = /^(?=.{1,253}$)[a-z\d_]([a-z\d_.-]*[a-z\d])?$/i;
	return text('a host name without port', 'write for example "edge-1.example.com"', pattern);
}
