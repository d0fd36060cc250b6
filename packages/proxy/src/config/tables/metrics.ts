import { z } from 'zod';
import { expected, table } from './kinds.ts';

/** Upper bounds of buckets in seconds: from a nearby upstream to the default time limit of a round trip. */
export const DEFAULT_BUCKETS: readonly number[] = [
	0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30,
];
/** The gates take about 10 µs, and 100 µs more to verify a token. */
export const DEFAULT_GATE_BUCKETS: readonly number[] = [
	0.00001, 0.000025, 0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 1,
];
/** Each bucket costs a series for each upstream, and some bytes for each upstream and worker. */
const MAX_BUCKETS = 40;
/** One hour: no realistic time limit of a request is longer. */
const MAX_BUCKET_SECONDS = 3600;

/** `[metrics]`: the buckets of histograms. */
export const metrics = table('[metrics]', {
	buckets: buckets(DEFAULT_BUCKETS).describe(
		'upper bounds of the buckets of `proxy_upstream_duration_seconds` and `proxy_tls_handshake_duration_seconds`, ascending, without +Inf',
	),
	gate_buckets: buckets(DEFAULT_GATE_BUCKETS).describe(
		'upper bounds of the buckets of `proxy_gate_duration_seconds`, ascending, without +Inf',
	),
}).meta({ description: 'bounds of the histograms', read: 'at startup' });

function buckets(fallback: readonly number[]) {
	const remedy = 'leave it out for the default';
	const list = expected(
		`a list of 1 to ${MAX_BUCKETS} numbers of seconds`,
		`list the upper bounds without +Inf, or ${remedy}`,
	);
	const bound = expected(`a number of seconds above 0, at most ${MAX_BUCKET_SECONDS}`, remedy);
	return z
		.array(z.number({ error: bound }).positive({ error: bound }).max(MAX_BUCKET_SECONDS, { error: bound }), {
			error: list,
		})
		.min(1, { error: list })
		.max(MAX_BUCKETS, { error: list })
		.refine((bounds) => bounds.every((one, i) => i === 0 || one > bounds[i - 1]!), {
			error: `must ascend, without duplicates; sort the list, or ${remedy}`,
		})
		.default([...fallback]);
}
