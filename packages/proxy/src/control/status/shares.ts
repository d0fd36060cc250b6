import type { Config } from '../../config/config.ts';
import { TLS_VERSIONS, type WorkerCounts } from '../../memory/worker-stats.ts';
import { sum } from '../metrics/adding-up.ts';
import { POINT_MS, POINTS } from './ring.ts';

/**
 * How much of the last minute went wrong: requests without a valid token, over a limit or failed, gRPC calls that failed, and handshakes. Few failures are
 * everyday life, so a share is a problem from a bound on, and only of enough requests.
 */

/** What counts as a problem. */
export type ShareBounds = Config['status']['shareBounds'];
export type ShareKind = keyof ShareBounds['share'];
/** The totals behind the shares: responses of any status, gRPC calls with a status of an upstream, and handshakes that have ended. */
type Total = 'responses' | 'calls' | 'attempts';

const TOTALS = {
	'401': 'responses',
	'429': 'responses',
	'5xx': 'responses',
	grpc: 'calls',
	handshakes: 'attempts',
} as const satisfies Record<ShareKind, Total>;
const SHARE_KINDS = ['401', '429', '5xx', 'grpc', 'handshakes'] as const satisfies readonly ShareKind[];
const COUNTED = [...SHARE_KINDS, 'responses', 'calls', 'attempts'] as const;

/** Counts of the same span of time, of the proxy itself, of an upstream, or of all together. */
export type ShareCounts = Readonly<Record<ShareKind | Total, number>>;

/** @param value of one count. */
export function countsBy(value: (name: ShareKind | Total) => number): ShareCounts {
	return Object.fromEntries(COUNTED.map((name) => [name, value(name)])) as ShareCounts;
}

export const NOTHING_COUNTED = countsBy(() => 0);

/** The counts without an upstream, since the start. */
export function ownShareCounts(counts: WorkerCounts): ShareCounts {
	const { responses, handshakeRefusals } = counts;
	const failed = sum(handshakeRefusals.values());
	return {
		...NOTHING_COUNTED,
		responses: sum(responses.values()),
		'401': responses.get(401) ?? 0,
		'429': responses.get(429) ?? 0,
		'5xx': sum([...responses].map(([status, count]) => (status >= 500 ? count : 0))),
		attempts: sum(TLS_VERSIONS.flatMap((version) => [...counts[version].values()])) + failed,
		handshakes: failed,
	};
}

/** Points of a minute. */
const MINUTE = 60_000 / POINT_MS;

export type ShareStatus = ReturnType<ShareHistory['judge']>[number];

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
	judge({ share: bounds, least }: ShareBounds, timeOf: (ms: number) => string) {
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
	#until(kind: ShareKind, end: number, points: number) {
		const some = this.#points.slice(Math.max(0, end - points), end);
		const sumOf = (name: ShareKind | Total) => sum(some.map(({ counts }) => counts[name]));
		return { count: sumOf(kind), total: sumOf(TOTALS[kind]) };
	}
}
