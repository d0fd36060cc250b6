import type { Rejection } from '@mtls-edge-proxy/gate/gates/rejection.ts';
import type { ExplainedGate } from '../../gates/pipeline.ts';

/** The explanation of one request, before it becomes text or JSON. */

export type Verdict =
	| 'ok'
	| 'refused'
	/** The verdict depends on state of the running proxy. */
	| 'not asked'
	/** Input of the gate is missing. */
	| 'unknown';

/** A refusal as the client sees it. */
export interface Refusal {
	/** `closed`: the connection, without a response. `reset`: the HTTP/2 stream, likewise. */
	readonly ending: 'answer' | 'closed' | 'reset';
	/** Present with `ending: 'answer'`. */
	readonly rejection?: Rejection;
	/** As in the log. */
	readonly reason: string;
}

/** One of the checks that a gate consists of. */
export interface Check {
	readonly name: string;
	readonly verdict: Verdict;
	/** As in the log. */
	readonly reason?: string | undefined;
	readonly detail: string;
}

export interface GateReport {
	readonly gate: ExplainedGate;
	readonly verdict: Verdict;
	readonly refusal?: Refusal;
	readonly details: readonly string[];
	readonly checks?: readonly Check[];
}

/** The gates of one request, in the pipeline's order. */
export class Reports {
	readonly list: GateReport[] = [];

	ok(gate: ExplainedGate, ...details: string[]): void {
		this.list.push({ gate, verdict: 'ok', details });
	}

	notAsked(gate: ExplainedGate, ...details: string[]): void {
		this.list.push({ gate, verdict: 'not asked', details });
	}

	unknown(gate: ExplainedGate, ...details: string[]): void {
		this.list.push({ gate, verdict: 'unknown', details });
	}

	/** Records a gate's own verdict. */
	judged(gate: ExplainedGate, rejection: Rejection | undefined, ...details: string[]): void {
		if (rejection === undefined) return this.ok(gate, ...details);
		this.list.push({ gate, verdict: 'refused', refusal: answered(rejection), details });
	}

	add(report: GateReport): void {
		this.list.push(report);
	}
}

export function answered(rejection: Rejection): Refusal {
	return { ending: 'answer', rejection, reason: rejection.reason ?? rejection.body };
}

export type Outcome = 'passes' | 'refused' | 'undecided';

export interface Explanation {
	readonly configPath: string;
	readonly method: string;
	/** As given on the command line. */
	readonly target: string;
	readonly protocol: 'http/1.1' | 'h2';
	/** Refusals take the form for gRPC calls. */
	readonly isGrpc: boolean;
	readonly bodyMode: string;
	readonly gates: readonly GateReport[];
	readonly outcome: Outcome;
	/** Index in `gates` of the one that ends the request; -1: none does. */
	readonly endsAt: number;
	readonly route: string | undefined;
	readonly upstream: string | undefined;
	/** Lines without their ends (`upstream-head.ts`); `undefined` if the request does not get that far. */
	readonly upstreamHead: readonly string[] | undefined;
	/** How the result was found, and what remains open. */
	readonly notes: readonly string[];
}

/** The outcome, and the gate that ends the request or leaves it undecided. */
export function outcomeOf(gates: readonly GateReport[]): { outcome: Outcome; endsAt: number } {
	const refusedAt = gates.findIndex(({ verdict }) => verdict === 'refused');
	const openAt = gates.findIndex(({ verdict }) => verdict === 'unknown');
	// An earlier gate with an unknown verdict may refuse first.
	if (openAt !== -1 && (refusedAt === -1 || openAt < refusedAt)) return { outcome: 'undecided', endsAt: openAt };
	return { outcome: refusedAt === -1 ? 'passes' : 'refused', endsAt: refusedAt };
}
