import { grpcResponse } from '@mtls-edge-proxy/gate/gates/grpc.ts';
import { redactHead, redactTarget, redactText } from './redact.ts';
import type { Check, Explanation, GateReport } from './report.ts';

/** What `--json` prints; members are added, never changed. */
export interface ExplainResult {
	readonly outcome: 'passes' | 'refused' | 'undecided';
	readonly config: string;
	readonly method: string;
	readonly target: string;
	readonly protocol: 'http/1.1' | 'h2';
	readonly body_mode: string;
	/** The gate that ends the request; `null`: none does. */
	readonly ended_by: string | null;
	/** As in the log; `null` if nothing is refused. */
	readonly reason: string | null;
	/** The refusal that the client gets; `null` if the request passes or is undecided. */
	readonly answer: Answer | null;
	/** Prefix of the route. */
	readonly route: string | null;
	/** `host:port`. */
	readonly upstream: string | null;
	/** Request line and header lines, or the fields of HTTP/2 as lines; `null` if the upstream gets nothing. */
	readonly upstream_head: readonly string[] | null;
	readonly gates: readonly Gate[];
	readonly notes: readonly string[];
}

/** What the client gets. `status` and `body` are `null` if the connection is closed, or the stream reset, without a response. */
export interface Answer {
	readonly ending: 'answer' | 'closed' | 'reset';
	readonly status: number | null;
	readonly body: string | null;
	/** Other than `content-type` and `content-length`. */
	readonly headers: Readonly<Record<string, string>>;
	/** Stable name of the refusal. */
	readonly code: string | null;
	/** As in logs and metrics; differs from `status` for a refused gRPC call. */
	readonly logged_status: number | null;
}

export interface Gate {
	readonly gate: string;
	readonly verdict: 'ok' | 'refused' | 'not asked' | 'unknown';
	/** Whether the request reaches this gate. */
	readonly reached: boolean;
	readonly reason: string | null;
	readonly details: readonly string[];
	readonly checks: readonly {
		readonly name: string;
		readonly verdict: string;
		readonly reason: string | null;
		readonly detail: string;
	}[];
}

/** @param secrets texts to redact, such as the token. */
export function toJson(explanation: Explanation, secrets: readonly string[]): ExplainResult {
	const { outcome, endsAt, gates, method, upstreamHead } = explanation;
	const end = gates[endsAt];
	const clean = (text: string) => redactText(text, secrets);
	return {
		outcome,
		config: explanation.configPath,
		method,
		target: clean(redactTarget(explanation.target)),
		protocol: explanation.protocol,
		body_mode: explanation.bodyMode,
		ended_by: end?.gate ?? null,
		reason: outcome === 'refused' ? end!.refusal!.reason : null,
		answer: outcome === 'refused' ? answerOf(end!, explanation) : null,
		route: explanation.route ?? null,
		upstream: explanation.upstream ?? null,
		upstream_head: upstreamHead === undefined ? null : redactHead(upstreamHead).map(clean),
		gates: gates.map((report, i) => gateOf(report, endsAt === -1 || i <= endsAt, clean)),
		notes: explanation.notes.map(clean),
	};
}

/** @param report of the gate that refuses. */
function answerOf({ refusal }: GateReport, { method, isGrpc }: Explanation): Answer {
	const { ending, rejection } = refusal!;
	if (rejection === undefined)
		return { ending, status: null, body: null, headers: {}, code: null, logged_status: null };
	const { status, body, headers } = isGrpc ? grpcResponse(rejection) : rejection.response;
	const pairs = headers.flatMap((name, i) => (i % 2 === 0 ? [[name, headers[i + 1]!] as const] : []));
	return {
		ending,
		status,
		body: method === 'HEAD' ? '' : body,
		headers: Object.fromEntries(pairs),
		code: rejection.code,
		logged_status: rejection.status,
	};
}

function gateOf(
	{ gate, verdict, refusal, details, checks = [] }: GateReport,
	reached: boolean,
	clean: (text: string) => string,
): Gate {
	return {
		gate,
		verdict,
		reached,
		reason: refusal?.reason ?? null,
		details: details.map(clean),
		checks: checks.map(({ name, verdict, reason, detail }: Check) => ({
			name: clean(name),
			verdict,
			reason: reason ?? null,
			detail: clean(detail),
		})),
	};
}
