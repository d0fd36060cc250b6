/**
 * The ledger of a run: what was sent, what arrived, what the client saw, and which of it breaks a promise. Both ends of the proxy report to
 * it, so it sees what neither can: a request delivered twice, a response to another client.
 */
import { TICK_MS } from '../../packages/proxy/src/data/loop/deadlines.ts';
import type { BodyMode } from '../fixtures/proxy.ts';
import { ANSWER_TRAILER, faultOfAnswer, type Plan } from './plan.ts';

/** What the client saw. */
export type Outcome =
	/** The complete upstream response. */
	| 'whole'
	| '502'
	| '504'
	/** 503 of the breaker. */
	| '503'
	/** 503 of the budget for bodies. */
	| 'overloaded'
	/** A truncated response, marked as such by its framing. */
	| 'broken off'
	/** The client left. */
	| 'left'
	/** Its connection died with its thread. */
	| 'lost';

export const OUTCOMES: readonly Outcome[] = ['whole', '502', '504', '503', 'overloaded', 'broken off', 'left', 'lost'];

/** What the client received, before it is judged. */
export interface Reply {
	/** 0: no head at all. */
	readonly status: number;
	/** Error code of the HTTP/2 stream. */
	readonly resetCode: number | undefined;
	/** By lower-case name. */
	readonly header: (name: string) => string | undefined;
	/** By lower-case name. */
	readonly trailer: (name: string) => string | undefined;
	readonly body: Buffer;
	/** Complete by the protocol's framing. */
	readonly complete: boolean;
	/** The client aborted it. */
	readonly left: boolean;
	/** From the first byte sent to the last byte received. */
	readonly ms: number;
	/** The client's port, which identifies the proxy thread of the connection. */
	readonly port: number;
}

/** One request from its sending to its outcome. */
export class Entry {
	readonly plan: Plan;
	deliveries = 0;
	/** The upstream has played the request's kind. */
	played = false;
	/** All deliveries so far were on reused connections, and ended without a byte. */
	repeatable = true;
	/** It was delivered again after a fault that ends a connection before the response, and then got a good response. */
	repeated = false;
	/** HTTP/2 deliveries that the upstream did not process, as it said or because their connection ended. */
	undone = 0;
	/** Another request ended its HTTP/2 connection. */
	isHit = false;
	/** The previous request on the client's HTTP/1.1 connection. */
	before: Entry | undefined;
	/** It shares its upstream with requests that end connections. */
	isAmongRough = false;
	/** The client has its outcome. */
	settled = false;

	constructor(plan: Plan) {
		this.plan = plan;
	}
}

export interface Rules {
	readonly mode: BodyMode;
	/** `upstream_timeout_secs`, ms. */
	readonly limitMs: number;
	/** Threads are being killed, so connections may be lost. */
	readonly threadsDie?: boolean;
}

export class Ledger {
	/** Breaches of a promise, as text; only the first ones, since one fault may cause thousands. */
	readonly violations: string[] = [];
	violationCount = 0;
	requests = 0;
	/** Requests that reached the upstream and had their kind played. */
	played = 0;
	/** Bytes with a correct checksum, both ways. */
	checkedBytes = 0;
	retries = 0;
	/** Kind, then outcome. */
	readonly counts = new Map<string, Map<Outcome, number>>();
	/** Protocol and framing of the response. */
	readonly crosses = new Map<string, number>();
	/** Responses to clients that stayed, by HTTP status; for a refused gRPC call the HTTP status that its gRPC status corresponds to. */
	readonly statuses = new Map<number, number>();
	/** Clients that left. */
	left = 0;
	/** gRPC calls with a complete response. */
	calls = 0;
	floods = 0;
	/** Requests without a response while threads are being killed; their cause is not known yet. */
	readonly lost: { readonly what: string; readonly port: number }[] = [];
	lostWithThread = 0;
	/** Threads killed. */
	kills = 0;
	readonly rules: Rules;
	/** By identifier: requests in flight and the latest settled ones, since the upstream may receive them late. */
	readonly #entries = new Map<string, Entry>();
	readonly #settled: string[] = [];
	readonly #onViolation: (() => void) | undefined;

	/** @param onViolation called after each one. */
	constructor(rules: Rules, onViolation?: () => void) {
		this.rules = rules;
		this.#onViolation = onViolation;
	}

	open(plan: Plan): Entry {
		const entry = new Entry(plan);
		this.#entries.set(plan.id, entry);
		this.requests++;
		if (plan.kind.alone === 'flood') this.floods++;
		return entry;
	}

	/** `undefined` for a request that no client sent. */
	find(id: string | undefined): Entry | undefined {
		return id === undefined ? undefined : this.#entries.get(id);
	}

	violate(what: string): void {
		this.violationCount++;
		if (this.violations.length < MOST_SHOWN) this.violations.push(what);
		this.#onViolation?.();
	}

	/** The request has arrived at the upstream. @param reused the connection has carried another one before. */
	delivered(entry: Entry, reused: boolean): void {
		const { plan } = entry;
		entry.deliveries++;
		if (entry.deliveries > 1) {
			this.retries++;
			const idempotent = plan.method === 'GET' || plan.method === 'HEAD';
			if (!idempotent || !entry.repeatable || entry.deliveries > 2) {
				this.violate(`${nameOf(plan)} was delivered ${entry.deliveries} times`);
			}
		}
		if (!reused) entry.repeatable = false;
	}

	/** As above over HTTP/2: only unprocessed requests may arrive again. */
	deliveredOnStream(entry: Entry): void {
		entry.deliveries++;
		if (entry.deliveries === 1) return;
		this.retries++;
		if (entry.undone < entry.deliveries - 1) {
			this.violate(`${nameOf(entry.plan)} was delivered ${entry.deliveries} times, and looked at before`);
		}
	}

	/** The request was never sent. */
	withdraw({ plan }: Entry): void {
		this.#entries.delete(plan.id);
		this.requests--;
		if (plan.kind.alone === 'flood') this.floods--;
	}

	/** Judges what the client received, and closes the entry. @returns the outcome. */
	settle(entry: Entry, reply: Reply): Outcome {
		const { plan } = entry;
		entry.settled = true;
		if (this.#settled.push(plan.id) > MOST_REMEMBERED) this.#entries.delete(this.#settled.shift()!);
		if (plan.kind.alone === 'flood') this.floods--;
		let outcome = this.#outcomeOf(entry, reply);
		if (!this.#allowed(entry, reply).includes(outcome)) {
			const what =
				`${nameOf(plan)} came to '${outcome}' (status ${reply.status}, reset ${reply.resetCode ?? '-'}, ` +
				`${reply.body.length} bytes, ${Math.round(reply.ms)} ms, delivered ${entry.deliveries} times, ` +
				`${entry.played ? '' : 'not '}played)`;
			if (this.rules.threadsDie && outcome === 'broken off') {
				outcome = 'lost';
				this.lost.push({ what, port: reply.port });
			} else this.violate(what);
		}
		if (entry.played) this.played++;
		const counts = this.counts.get(plan.kind.name) ?? new Map<Outcome, number>();
		this.counts.set(plan.kind.name, counts.set(outcome, (counts.get(outcome) ?? 0) + 1));
		if (reply.left) this.left++;
		else this.#countStatus(plan.isCall ? (STATUS_OF[outcome] ?? reply.status) : reply.status);
		if (plan.isCall && outcome === 'whole') this.calls++;
		const cross = `${plan.protocol} ${plan.framing}`;
		this.crosses.set(cross, (this.crosses.get(cross) ?? 0) + 1);
		return outcome;
	}

	/** Judges requests lost while threads were killed. @param kills number of kills, and ports of the clients that these threads served. */
	judgeLosses({ count, ports }: { readonly count: number; readonly ports: ReadonlySet<number> }): void {
		this.kills = count;
		for (const { what, port } of this.lost.splice(0)) {
			if (ports.has(port)) this.lostWithThread++;
			else this.violate(`${what}, and its thread lived`);
		}
	}

	#countStatus(status: number): void {
		if (status > 0) this.statuses.set(status, (this.statuses.get(status) ?? 0) + 1);
	}

	#outcomeOf({ plan }: Entry, reply: Reply): Outcome {
		const { status, header, body, complete, left } = reply;
		const answerTo = header('x-answer-to');
		// Complete or not, it must be the right response.
		if (answerTo !== undefined) {
			const tenant = header('x-answer-for');
			if (answerTo !== plan.id || tenant !== plan.tenant || status !== plan.status) {
				this.violate(`${nameOf(plan)} got the answer to ${answerTo} for ${tenant}, status ${status}`);
			}
		}
		if (left) return 'left';
		if (!complete) return 'broken off';
		if (answerTo !== undefined) {
			const fault = faultOfAnswer(plan, body, reply.trailer(ANSWER_TRAILER));
			if (fault === undefined) this.checkedBytes += body.length;
			else this.violate(`${nameOf(plan)} got as complete ${fault}`);
			return 'whole';
		}
		const said = plan.isCall ? `grpc ${header('grpc-status')} ${header('grpc-message')}` : status;
		const own = OWN_ANSWERS[`${said} ${plan.method === 'HEAD' ? '' : body.toString('latin1')}`.trimEnd()];
		if (own === undefined)
			this.violate(`${nameOf(plan)} got ${said} ${JSON.stringify(body.toString('latin1', 0, 99))}`);
		return own ?? 'broken off';
	}

	#allowed(entry: Entry, reply: Reply): readonly Outcome[] {
		const { plan } = entry;
		const { rules } = this;
		const brokenOff: readonly Outcome[] = rules.mode === 'streaming' ? ['broken off'] : [];
		const allowed: Outcome[] = [];
		if (plan.kind.leavesAfter !== undefined) allowed.push('left');
		// All requests share the memory for bodies.
		if (this.floods > 0) allowed.push('overloaded', ...brokenOff);
		// On a very busy machine any request may take too long and end with a timeout.
		const fate = entry.repeated ? 'whole' : plan.kind.fate;
		// The client's clock may start late.
		if (reply.ms >= rules.limitMs / 2) {
			allowed.push('504', ...brokenOff);
			// The client's own time limit for a response includes the proxy's limits, in both modes.
			allowed.push('broken off');
		}
		if (entry.deliveries === 0) allowed.push('503');
		// If the end of a connection is seen late, the upstream may have the request, which is then not sent again.
		if (entry.deliveries === 0 && reply.ms >= TICK_MS) allowed.push('502');
		// Faults of other requests on its connection.
		if (entry.isHit) allowed.push('whole', '502', ...brokenOff);
		// The declared length told the client that the previous response was complete; the proxy still waited for the stream's end.
		if (entry.before?.isHit && entry.deliveries === 0) allowed.push(...brokenOff);
		if (!entry.played && plan.kind.upstream === 'h2') {
			if (entry.isAmongRough) allowed.push('502');
			return allowed;
		}
		if (!entry.played) {
			// The connection had been closed under the request, and the request must not be sent twice.
			const repeatable = (plan.method === 'GET' || plan.method === 'HEAD') && entry.deliveries === 0;
			if (!repeatable || plan.kind.alone !== undefined) allowed.push('502');
			if (plan.kind.alone === 'stall on accept') allowed.push('504');
			return allowed;
		}
		const failed: readonly Outcome[] = plan.kind.afterHead && rules.mode === 'streaming' ? ['broken off'] : [];
		switch (fate) {
			case 'whole':
				return [...allowed, 'whole'];
			case 'refused':
				// The next attempt was on its way when another request ended the connection.
				if (entry.isAmongRough && entry.undone >= entry.deliveries) allowed.push('502');
				// A streamed body is gone after the first attempt.
				if (rules.mode === 'streaming' && plan.uploadLength !== undefined) allowed.push('502');
				return [...allowed, 'whole'];
			case 'cut':
				return [...allowed, ...(failed.length > 0 ? failed : (['502'] as const))];
			case 'late':
				return [...allowed, ...(failed.length > 0 ? failed : (['504'] as const))];
			case 'whole or cut':
				return [...allowed, 'whole', '502', ...failed];
			case 'flooded':
				return [...allowed, 'overloaded', '504', ...brokenOff];
			case 'left':
				return allowed;
		}
	}
}

export function nameOf({ id, protocol, method, framing, kind, tenant }: Plan): string {
	return `${id} (${protocol} ${method}, ${framing}, ${tenant}, upstream '${kind.name}')`;
}

const OWN_ANSWERS: Readonly<Record<string, Outcome>> = {
	'502 bad gateway': '502',
	'502': '502',
	'503 upstream unavailable': '503',
	'503 overloaded': 'overloaded',
	'503': '503',
	'504 upstream timeout': '504',
	'504': '504',
	'grpc 14 bad gateway': '502',
	'grpc 14 upstream unavailable': '503',
	'grpc 14 overloaded': 'overloaded',
	'grpc 4 upstream timeout': '504',
};

const STATUS_OF: Readonly<Partial<Record<Outcome, number>>> = { 502: 502, 503: 503, 504: 504, overloaded: 503 };

const MOST_SHOWN = 50;
const MOST_REMEMBERED = 10_000;
