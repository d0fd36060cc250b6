import { GRPC_STATUS_NAMES, IS_GRPC_FAILURE } from '../../gates/grpc-status.ts';
import { Summary } from '../../memory/histogram.ts';
import { POINT_MS, POINTS, Rises } from './ring.ts';
import {
	countsBy,
	NOTHING_COUNTED,
	type ShareBounds,
	type ShareCounts,
	ShareHistory,
	type ShareStatus,
} from './shares.ts';

/** Limit for upstreams with a chart. Each costs 960 bytes, so 2 MB in all. */
export const MAX_CHARTED = 2_048;

/** Upstreams sampled in one turn, at least; thousands are spread over the seconds of a point. */
const LEAST_BATCH = 64;
/** Ticks of a second within which all are sampled; two of the ten are left for a main thread that is late. */
const TICKS_A_POINT = 8;

/** The last point of a chart, and a share of all its points. */
export type Point = NonNullable<ReturnType<Series['latest']>>;
/** The last ten minutes, oldest first, one point every ten seconds; `null` where nothing is known. */
export type Chart = NonNullable<ReturnType<Series['chart']>>;

/** One upstream, which the history samples every ten seconds. */
export interface Sampled {
	/** `host:port`. */
	readonly key: string;
	/** So far. */
	responses(): number;
	/** Responses of 500 and above. */
	serverErrors(): number;
	/** Adds its gRPC calls so far, by status code. */
	addGrpcTo(to: Float64Array): void;
	/** Adds the round trips of the last ten seconds that are complete. @returns whether there were any. */
	addRoundTrips(to: Summary, nowMs: number): boolean;
}

interface HistorySource {
	/** Those of the table in force. */
	readonly upstreams: () => Iterable<Sampled>;
	/** Counts without an upstream, so far. */
	readonly own: () => ShareCounts;
	/** Other counters, by names of a fixed list. */
	readonly counters: () => ReadonlyMap<string, number>;
}

/**
 * The data of the status page's charts: ten minutes in a ring of bounded size. It is written even if nobody reads the page. Time is
 * an argument; the owner calls `tick` once a second.
 */
export class History {
	readonly #source: HistorySource;
	readonly #series = new Map<string, Series>();
	readonly #total: Series;
	readonly #shares = new ShareHistory();
	#own: ShareCounts;
	/** Counts of upstreams since the last point of `#total`, and when that was. */
	#counted = NOTHING_COUNTED;
	#totalAt: number;
	readonly #counters = new Map<string, Rises>();
	readonly #summary = new Summary();
	readonly #all = new Summary();
	#point = -1;
	/** Upstreams still to be sampled for the present point. */
	#left: Sampled[] = [];
	#batch = LEAST_BATCH;

	/** @param nowMs monotonic, the scale of the histograms. */
	constructor(source: HistorySource, nowMs: number) {
		this.#source = source;
		this.#own = source.own();
		this.#total = new Series(true, nowMs);
		this.#totalAt = nowMs;
		this.#begin(nowMs);
	}

	tick(nowMs: number): void {
		if (pointAt(nowMs) !== this.#point) this.#begin(nowMs);
		// The first table comes after the start.
		else if (this.#series.size === 0) this.#follow([...this.#source.upstreams()], nowMs);
		this.#sample(this.#left.splice(0, this.#batch), nowMs);
	}

	/** The upstream's last ten minutes; `undefined` if it has no chart. */
	chart(key: string, nowMs: number): Chart | undefined {
		return this.#series.get(key)?.chart(pointAt(nowMs));
	}

	/** The last known point; without a key, of all upstreams together. */
	latest(key?: string): Point {
		return (key === undefined ? this.#total : this.#series.get(key))?.latest() ?? UNKNOWN;
	}

	/** The chart of all upstreams together. */
	total(nowMs: number): Chart {
		return this.#total.chart(pointAt(nowMs))!;
	}

	/** By how much a counter has risen in the last ten minutes, or since the start. */
	rise(counter: string, now: number): number {
		return this.#counters.get(counter)?.until(now) ?? now;
	}

	/** An upstream's gRPC calls of the last ten minutes that ended with this status. @param total those so far. */
	grpcRise(key: string, code: number, total: number): number {
		return this.#series.get(key)?.grpcRise(code, total) ?? total;
	}

	/** What went wrong in the last minute. */
	shares(bounds: ShareBounds, timeOf: (ms: number) => string): ShareStatus[] {
		return this.#shares.judge(bounds, timeOf);
	}

	/** Bytes of the rings: for tests and for the docs. */
	get bytes(): number {
		const statuses = [...this.#series.values()].reduce((sum, series) => sum + series.grpcStatuses, 0);
		return (
			(Math.min(this.#series.size, MAX_CHARTED) + 1) * Series.BYTES + (statuses + this.#counters.size) * Rises.BYTES
		);
	}

	#begin(nowMs: number): void {
		this.#sample(this.#left, nowMs);
		const point = pointAt(nowMs);
		for (const [name, value] of this.#source.counters()) {
			// A new counter was zero before.
			const rises = this.#counters.get(name) ?? new Rises();
			this.#counters.set(name, rises);
			rises.advance(value, point);
		}
		this.#left = [...this.#source.upstreams()];
		this.#batch = Math.max(LEAST_BATCH, Math.ceil(this.#left.length / TICKS_A_POINT));
		this.#follow(this.#left, nowMs);
		// A point without any turn, because the main thread was blocked, stays a gap.
		this.#point = point;
		this.#all.window.fill(0);
		if (this.#left.length === 0) this.#complete(nowMs);
	}

	/** Forgets those that have left the table. */
	#follow(upstreams: readonly Sampled[], nowMs: number): void {
		const current = new Set(upstreams.map(({ key }) => key));
		const isFirstTable = this.#series.size === 0;
		for (const key of this.#series.keys()) if (!current.has(key)) this.#series.delete(key);
		for (const one of upstreams) {
			if (this.#series.has(one.key)) continue;
			const series = new Series(this.#series.size < MAX_CHARTED, nowMs);
			// Counters start at zero with the first table, and requests may come before this sample.
			if (!isFirstTable) series.begin(one, nowMs);
			this.#series.set(one.key, series);
		}
	}

	#sample(upstreams: readonly Sampled[], nowMs: number): void {
		if (upstreams.length === 0) return;
		let isEmpty = false;
		for (const upstream of upstreams) {
			const series = this.#series.get(upstream.key)!;
			// With thousands of upstreams most are idle, and cost next to nothing.
			if (!isEmpty) this.#summary.window.fill(0);
			isEmpty = !upstream.addRoundTrips(this.#summary, nowMs);
			if (!isEmpty) for (let i = 0; i < this.#all.window.length; i++) this.#all.window[i]! += this.#summary.window[i]!;
			const { counts, seconds } = series.advance(upstream, nowMs, this.#point);
			const before = this.#counted;
			this.#counted = countsBy((name) => before[name] + counts[name]);
			const summary = isEmpty ? undefined : this.#summary;
			series.put(this.#point, counts.responses / seconds, counts['5xx'] / seconds, summary);
		}
		if (this.#left.length === 0) this.#complete(nowMs);
	}

	/** All upstreams have been sampled. */
	#complete(nowMs: number): void {
		const own = this.#source.own();
		const counts = countsBy((name) => own[name] - this.#own[name] + this.#counted[name]);
		const seconds = (nowMs - this.#totalAt) / 1000;
		if (seconds > 0) {
			this.#total.put(this.#point, counts.responses / seconds, counts['5xx'] / seconds, this.#all);
			this.#shares.add(counts, nowMs);
		}
		this.#counted = NOTHING_COUNTED;
		this.#own = own;
		this.#totalAt = nowMs;
	}
}

function pointAt(nowMs: number): number {
	return Math.floor(nowMs / POINT_MS);
}

const COLUMNS = 4;
const NOTHING = Array(COLUMNS).fill(Number.NaN);

/** Rings of one upstream: responses a second, those of 500 and above, and the two quantiles. */
class Series {
	static readonly BYTES = COLUMNS * POINTS * Float32Array.BYTES_PER_ELEMENT;

	/** `undefined`: too many upstreams have a chart already. */
	readonly #cells: Float32Array | undefined;
	#point = -1;
	#responses = 0;
	#errors = 0;
	/** Of the gRPC statuses that have occurred, by code. */
	readonly #grpc = new Map<number, Rises>();
	#at: number;

	constructor(charted: boolean, nowMs: number) {
		this.#at = nowMs;
		this.#cells = charted ? new Float32Array(COLUMNS * POINTS).fill(Number.NaN) : undefined;
	}

	/** Earlier counts belong to no point. */
	begin(upstream: Sampled, nowMs: number): void {
		this.#responses = upstream.responses();
		this.#errors = upstream.serverErrors();
		this.#at = nowMs;
		for (const [code, total] of this.#callsOf(upstream)) this.#grpc.set(code, new Rises(total));
	}

	/** @returns the counts since the last time. */
	advance(upstream: Sampled, nowMs: number, point: number): { readonly counts: ShareCounts; readonly seconds: number } {
		const [responses, errors] = [upstream.responses(), upstream.serverErrors()];
		// The counters of an upstream that was forgotten and has come back start at zero again.
		const isNew = responses < this.#responses;
		let [calls, grpc] = [0, 0];
		for (const [code, total] of this.#callsOf(upstream)) {
			const rises = this.#grpc.get(code) ?? new Rises();
			this.#grpc.set(code, rises);
			const rise = rises.advance(total, point);
			calls += rise;
			if (IS_GRPC_FAILURE[code]) grpc += rise;
		}
		const counts = {
			...NOTHING_COUNTED,
			responses: isNew ? responses : responses - this.#responses,
			'5xx': isNew ? errors : errors - this.#errors,
			calls,
			grpc,
		};
		const seconds = (nowMs - this.#at) / 1000;
		this.#responses = responses;
		this.#errors = errors;
		this.#at = nowMs;
		return { counts, seconds };
	}

	/** By code, those that have occurred. */
	*#callsOf(upstream: Sampled): Generator<[code: number, total: number]> {
		CALLS.fill(0);
		upstream.addGrpcTo(CALLS);
		for (const [code, total] of CALLS.entries()) if (total > 0 || this.#grpc.has(code)) yield [code, total];
	}

	grpcRise(code: number, total: number): number {
		return this.#grpc.get(code)?.until(total) ?? total;
	}

	get grpcStatuses(): number {
		return this.#grpc.size;
	}

	put(point: number, rate: number, errors: number, roundTrips: Summary | undefined): void {
		if (point === this.#point || this.#cells === undefined) return;
		// The points between are unknown, and the ring still holds values from ten minutes ago there.
		for (let gap = Math.max(this.#point + 1, point - POINTS + 1); gap < point; gap++) this.#write(gap, NOTHING);
		const quantile = (q: number) => (roundTrips?.quantile(q) ?? Number.NaN) / 1000;
		const known = (value: number) => (Number.isFinite(value) ? value : Number.NaN);
		this.#write(point, [known(rate), known(errors), quantile(0.5), quantile(0.99)]);
		this.#point = point;
	}

	chart(point: number) {
		const cells = this.#cells;
		if (cells === undefined) return undefined;
		const column = (i: number) =>
			Array.from({ length: POINTS }, (_, at) => {
				const wanted = point - POINTS + 1 + at;
				// The present point may not have had its turn yet, and the first ones have never been.
				const known = wanted >= 0 && wanted <= this.#point && wanted > this.#point - POINTS;
				const value = known ? cells[i * POINTS + (wanted % POINTS)]! : Number.NaN;
				return rounded(value);
			});
		return {
			requests_per_second: column(0),
			errors_per_second: column(1),
			p50_seconds: column(2),
			p99_seconds: column(3),
		};
	}

	latest() {
		const cells = this.#cells;
		if (cells === undefined || this.#point < 0) return undefined;
		const value = (column: number) => rounded(cells[column * POINTS + (this.#point % POINTS)]!);
		return {
			requests_per_second: value(0),
			p50_seconds: value(2),
			p99_seconds: value(3),
			error_share: this.#errorShare(cells),
		};
	}

	/** Of the ten minutes up to the last point. */
	#errorShare(cells: Float32Array): number | null {
		const sumOf = (column: number) => {
			let sum = 0;
			for (let i = column * POINTS; i < (column + 1) * POINTS; i++) sum += cells[i]! || 0;
			return sum;
		};
		const responses = sumOf(0);
		return responses > 0 ? rounded(sumOf(1) / responses) : null;
	}

	#write(point: number, values: readonly number[]): void {
		for (const [i, value] of values.entries()) this.#cells![i * POINTS + (point % POINTS)] = value;
	}
}

const CALLS = new Float64Array(GRPC_STATUS_NAMES.length);

function rounded(value: number): number | null {
	return Number.isNaN(value) ? null : Number(value.toPrecision(3));
}

const UNKNOWN: Point = { requests_per_second: null, p50_seconds: null, p99_seconds: null, error_share: null };
