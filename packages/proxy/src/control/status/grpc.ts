import { GRPC_STATUS_NAMES, IS_GRPC_FAILURE } from '../../gates/grpc-status.ts';
import { POINTS } from './points.ts';
import type { GrpcCount, GrpcStatus, UpstreamStatus } from './schema.ts';

/** A cell for each status code. */
export type GrpcCells = Float64Array;

export function newGrpcCells(): GrpcCells {
	return new Float64Array(GRPC_STATUS_NAMES.length);
}

/** The calls that one upstream has answered in the last ten minutes: a ring for each status that has occurred. */
export class GrpcHistory {
	/** Totals at the last point. */
	readonly #totals = newGrpcCells();
	/** Calls of each point, by code. */
	readonly #rings = new Map<number, Float32Array>();
	#point = -1;

	/** Reads the counters without making a point: earlier calls belong to no point. */
	begin(totals: GrpcCells): void {
		this.#totals.set(totals);
	}

	/** @returns the calls since the last time. */
	advance(totals: GrpcCells, point: number): { readonly calls: number; readonly grpc: number } {
		this.#forgetUntil(point);
		const since = { calls: 0, grpc: 0 };
		for (const [code, total] of totals.entries()) {
			const before = this.#totals[code]!;
			if (total === before) continue;
			// The counters of an upstream that was removed and added again restart at zero.
			const calls = total > before ? total - before : total;
			this.#totals[code] = total;
			this.#ring(code)[point % POINTS]! += calls;
			since.calls += calls;
			if (IS_GRPC_FAILURE[code]) since.grpc += calls;
		}
		return since;
	}

	/** Calls of the last ten minutes. @param total counted so far. */
	rise(code: number, total: number): number {
		const ring = this.#rings.get(code);
		const counted = ring === undefined ? 0 : ring.reduce((sum, calls) => sum + calls, 0);
		return counted + Math.max(0, total - this.#totals[code]!);
	}

	get bytes(): number {
		return this.#totals.byteLength + this.#rings.size * POINTS * Float32Array.BYTES_PER_ELEMENT;
	}

	#ring(code: number): Float32Array {
		let ring = this.#rings.get(code);
		if (ring === undefined) {
			ring = new Float32Array(POINTS);
			this.#rings.set(code, ring);
		}
		return ring;
	}

	/** The places of the next points still hold values from ten minutes ago. */
	#forgetUntil(point: number): void {
		for (const ring of this.#rings.values()) {
			for (let gap = Math.max(this.#point + 1, point - POINTS + 1); gap <= point; gap++) ring[gap % POINTS] = 0;
		}
		this.#point = point;
	}
}

/** The statuses that have occurred, by code. @param totals keys are codes as text. */
export function grpcCounts(
	totals: ReadonlyMap<string, number>,
	lately: (code: number, total: number) => number,
): GrpcCount[] {
	return [...totals].map(([text, total]) => {
		const code = Number(text);
		return { code, status: GRPC_STATUS_NAMES[code]!, total, last_ten_minutes: lately(code, total) };
	});
}

/** All upstreams together: failures first, OK last, otherwise the most frequent in the last ten minutes first. */
export function grpcStatuses(upstreams: readonly Pick<UpstreamStatus, 'upstream' | 'grpc'>[]): GrpcStatus[] {
	const parts = upstreams.flatMap(({ upstream, grpc }) => grpc.map((one) => ({ upstream, ...one })));
	const statuses = Array.from(Map.groupBy(parts, ({ code }) => code).values(), (of) => {
		const { code, status } = of[0]!;
		const sumOf = (key: 'total' | 'last_ten_minutes') => of.reduce((sum, one) => sum + one[key], 0);
		const most = of.toSorted(latestFirst).slice(0, MAX_NAMES);
		return {
			code,
			status,
			total: sumOf('total'),
			last_ten_minutes: sumOf('last_ten_minutes'),
			upstreams: most.map(({ upstream }) => upstream),
			upstreams_total: of.length,
		};
	});
	return statuses.sort((a, b) => rankOf(a.code) - rankOf(b.code) || latestFirst(a, b));
}

const MAX_NAMES = 3;

function latestFirst(a: Pick<GrpcCount, 'last_ten_minutes' | 'total'>, b: typeof a): number {
	return b.last_ten_minutes - a.last_ten_minutes || b.total - a.total;
}

function rankOf(code: number): number {
	if (IS_GRPC_FAILURE[code]) return 0;
	return code === 0 ? 2 : 1;
}

/** Failures among the calls of the last ten minutes, 0 to 1; `null`: there was no call. */
export function grpcFailureShare(counts: readonly GrpcCount[]): number | null {
	let [calls, failures] = [0, 0];
	for (const { code, last_ten_minutes: lately } of counts) {
		calls += lately;
		if (IS_GRPC_FAILURE[code]) failures += lately;
	}
	return calls === 0 ? null : failures / calls;
}
