import { z } from 'zod';
import { expected, explained, flagOr, fromZeroTo, table, text, wholeNumberOr } from './kinds.ts';

/** More names than this of one process are a mistake. */
const MAX_HOSTS = 32;

/** `[status]`: the status page of the metrics listener. */
export const status = table('[status]', {
	tenants: flagOr(false).describe('show tenants by name on the status page'),
	hosts: z
		.array(hostName(), {
			error: expected('a list of host names', 'leave it out where the page is asked for by address'),
		})
		.max(MAX_HOSTS, { error: () => `has more than ${MAX_HOSTS} names; name those that people and scrapers use` })
		.default([])
		.describe(
			'more host names of `/metrics`, `/process` and the page, in addition to addresses and private names. A foreign page could otherwise lead a browser here by its own name',
		),
	problem_401_share: fromZeroTo(1, 0.2).describe(
		'share of all answers of the last minute from which 401 is a problem on the page; 0: never',
	),
	problem_429_share: fromZeroTo(1, 0.2).describe('the same for answers of 429'),
	problem_5xx_share: fromZeroTo(1, 0.05).describe(
		"the same for answers of 500 and above, the proxy's own and those of upstreams",
	),
	problem_grpc_share: fromZeroTo(1, 0.05).describe(
		'the same for gRPC calls that upstreams fail, of all that they answer: statuses UNKNOWN, DEADLINE_EXCEEDED, UNIMPLEMENTED, INTERNAL, UNAVAILABLE, DATA_LOSS',
	),
	problem_handshake_share: fromZeroTo(1, 0.2).describe('the same for failed TLS handshakes, of all that have ended'),
	problem_least: wholeNumberOr(20, 1, 1_000_000, 'of answers').describe(
		'minimum number of answers, calls, or handshakes, in the last minute for a share to be a problem',
	),
}).meta(explained('the status page of the metrics listener', { read: 'at start' }));

function hostName() {
	const pattern = /^(?=.{1,253}$)[a-z\d_]([a-z\d_.-]*[a-z\d])?$/i;
	return text('a host name without port', 'write for example "edge-1.example.com"', pattern);
}
