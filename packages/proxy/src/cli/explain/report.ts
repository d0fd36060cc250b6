import type { Rejection } from '@mtls-edge-proxy/gate/gates/rejection.ts';
import type { ExplainedGate } from '../../gates/pipeline.ts';

/** What an explanation says of one request, before it becomes text or JSON. */

export type Verdict =
	| 'ok'
	| 'refused'
	/** The gate decides by what only a running proxy knows. */
	| 'not asked'
	/** Something is missing that the gate decides by. */
	| 'unknown';

/** What a refusal looks like to the client. */
export interface Refusal {
	/** `closed`: the connection, without an answer. `reset`: the HTTP/2 stream, likewise. */
	readonly ending: 'answer' | 'closed' | 'reset';
	/** With `ending: 'answer'`. */
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

	/** By a gate's own answer. */
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
	/** As it was given. */
	readonly target: string;
	readonly protocol: 'http/1.1' | 'h2';
	/** A refusal has the form for gRPC calls. */
	readonly isGrpc: boolean;
	readonly bodyMode: string;
	readonly gates: readonly GateReport[];
	readonly outcome: Outcome;
	/** Index in `gates` of the one that ends the request; -1: none does. */
	readonly endsAt: number;
	readonly route: string | undefined;
	readonly upstream: string | undefined;
	/** Lines without their ends (`upstream-head.ts`); `undefined` where the request does not get so far. */
	readonly upstreamHead: readonly string[] | undefined;
	/** What was done to find this out, and what was left open. */
	readonly notes: readonly string[];
}

/** Where a request ends, and what has to be known for it. */
export function outcomeOf(gates: readonly GateReport[]): { outcome: Outcome; endsAt: number } {
	const refusedAt = gates.findIndex(({ verdict }) => verdict === 'refused');
	const openAt = gates.findIndex(({ verdict }) => verdict === 'unknown');
	// A gate in doubt that comes first may have another answer.
	if (openAt !== -1 && (refusedAt === -1 || openAt < refusedAt)) return { outcome: 'undecided', endsAt: openAt };
	return { outcome: refusedAt === -1 ? 'passes' : 'refused', endsAt: refusedAt };
}
