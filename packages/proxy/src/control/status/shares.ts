import type { Config } from '../../config/config.ts';
import { TLS_VERSIONS, type WorkerCounts } from '../../memory/worker-stats.ts';
import { sum, total } from '../metrics/adding-up.ts';
import { POINT_MS, POINTS } from './points.ts';
import type { ShareStatus } from './schema.ts';

/**
 * How much of the last minute went wrong: requests without a valid token, over a limit or failed, gRPC calls that failed, and handshakes. Few failures are
 * everyday life, so a share is a problem from a bound on, and only of enough requests.
 */

const SHARE_KINDS = ['401', '429', '5xx', 'grpc', 'handshakes'] as const satisfies readonly ShareKind[];
export type ShareKind = keyof ShareBounds['share'];

/** What counts as a problem. */
export type ShareBounds = Config['status']['shareBounds'];

/** Counts of the same span of time. */
export type ShareCounts = Readonly<Record<ShareKind | Total, number>>;

/** The totals behind the shares: answers, gRPC calls with a status of an upstream, and handshakes that have ended. */
type Total = 'answers' | 'calls' | 'attempts';

const TOTALS = {
	'401': 'answers',
	'429': 'answers',
	'5xx': 'answers',
	grpc: 'calls',
	handshakes: 'attempts',
} as const satisfies Record<ShareKind, Total>;

/** The counts that come from upstreams. */
export const UPSTREAM_COUNTS = ['answers', '5xx', 'calls', 'grpc'] as const;
export type UpstreamCounts = Readonly<Record<(typeof UPSTREAM_COUNTS)[number], number>>;
/** The proxy itself. */
export type OwnCounts = Omit<ShareCounts, 'calls' | 'grpc'>;

/** The counts without an upstream, since the start. */
export function ownShareCounts(counts: WorkerCounts): OwnCounts {
	const { responses, handshakeRefusals } = counts;
	const failed = sum(handshakeRefusals.values());
	return {
		answers: sum(responses.values()),
		'401': responses.get(401) ?? 0,
		'429': responses.get(429) ?? 0,
		'5xx': sum([...responses].map(([status, count]) => (status >= 500 ? count : 0))),
		attempts: total(TLS_VERSIONS, (version) => sum(counts[version].values())) + failed,
		handshakes: failed,
	};
}

/** The counts since `before`, including those from upstreams. */
export function countsSince(before: OwnCounts, now: OwnCounts, upstreams: UpstreamCounts): ShareCounts {
	return {
		answers: now.answers - before.answers + upstreams.answers,
		'401': now['401'] - before['401'],
		'429': now['429'] - before['429'],
		'5xx': now['5xx'] - before['5xx'] + upstreams['5xx'],
		calls: upstreams.calls,
		grpc: upstreams.grpc,
		attempts: now.attempts - before.attempts,
		handshakes: now.handshakes - before.handshakes,
	};
}

/** Points of a minute. */
const MINUTE = 60_000 / POINT_MS;

/** Ten minutes in steps of ten seconds. */
export class ShareHistory {
	/** Oldest first; each has the counts since the point before. */
	readonly #points: { readonly atMs: number; readonly counts: ShareCounts }[] = [];

	add(counts: ShareCounts, atMs: number): void {
		this.#points.push({ atMs, counts });
		if (this.#points.length > POINTS) this.#points.shift();
	}

	/**
	 * Of the minute that ends with the last point.
	 *
	 * @param timeOf in words, a moment on the scale of `add`.
	 */
	judge({ share: bounds, least }: ShareBounds, timeOf: (ms: number) => string): ShareStatus[] {
		const now = this.#points.length;
		return SHARE_KINDS.map((kind) => {
			const bound = bounds[kind];
			const isOver = (end: number) => {
				const { count, total } = this.#until(kind, end, MINUTE);
				return bound > 0 && total >= least && count / total >= bound;
			};
			let since: number | undefined;
			for (let end = now; end > 0 && isOver(end); end--) since = end - 1;
			return {
				kind,
				...this.#until(kind, now, MINUTE),
				last_ten_minutes: this.#until(kind, now, POINTS),
				bound,
				over_since: since === undefined ? null : timeOf(this.#points[since]!.atMs),
			};
		});
	}

	/** @param end index after the last of the points. */
	#until(kind: ShareKind, end: number, points: number): ShareStatus['last_ten_minutes'] {
		let [count, total] = [0, 0];
		for (const { counts } of this.#points.slice(Math.max(0, end - points), end)) {
			count += counts[kind];
			total += counts[TOTALS[kind]];
		}
		return { count, total };
	}
}
