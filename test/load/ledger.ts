/**
 * What was sent, what arrived, what came of it, and what of that must not be. The ledger is told by both ends of the
 * proxy, so it sees what neither of them can: a request delivered twice, an answer that belongs to somebody else.
 */
import { TICK_MS } from '../../packages/proxy/src/data/loop/deadlines.ts';
import type { BodyMode } from '../fixtures/proxy.ts';
import { ANSWER_TRAILER, faultOfAnswer, type Plan } from './plan.ts';

/** What the client saw. */
export type Outcome =
	/** The upstream's answer, to its last byte. */
	| 'whole'
	| '502'
	| '504'
	/** 503 of the breaker. */
	| '503'
	/** 503 of the budget for bodies. */
	| 'overloaded'
	/** An answer that ended before its end, and said so. */
	| 'broken off'
	/** The client left. */
	| 'left'
	/** Its connection was lost with the thread that had it. */
	| 'lost';

export const OUTCOMES: readonly Outcome[] = ['whole', '502', '504', '503', 'overloaded', 'broken off', 'left', 'lost'];

/** What the client got, before anybody has judged it. */
export interface Reply {
	/** 0: not even a head. */
	readonly status: number;
	/** Error code of the HTTP/2 stream's end. */
	readonly resetCode: number | undefined;
	/** By lower-case name. */
	readonly header: (name: string) => string | undefined;
	/** By lower-case name. */
	readonly trailer: (name: string) => string | undefined;
	readonly body: Buffer;
	/** By the protocol's own framing. */
	readonly complete: boolean;
	/** The client has aborted it. */
	readonly left: boolean;
	/** From the first byte sent to the last one seen. */
	readonly ms: number;
	/** The client's own: it tells which of the proxy's threads had the connection. */
	readonly port: number;
}

/** One request between its sending and its outcome. */
export class Entry {
	readonly plan: Plan;
	deliveries = 0;
	/** The upstream has done what the request's kind says. */
	played = false;
	/** All of the deliveries so far were on connections that had been used before, and ended without a byte. */
	repeatable = true;
	/** It has been delivered again after a fault that ends a connection before its answer, and got a good answer then. */
	repeated = false;
	/** Deliveries over HTTP/2 that the upstream has not looked at, by its word or since their connection has ended. */
	undone = 0;
	/** Another request has ended the HTTP/2 connection that it was on. */
	isHit = false;
	/** The one before it on the client's connection, which is of HTTP/1.1. */
	before: Entry | undefined;
	/** It shares its upstream with those that do so. */
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
	/** Connections may be lost, since threads are being killed. */
	readonly threadsDie?: boolean;
}

export class Ledger {
	/** Every breach of a promise, in words; only the first ones, for one fault may cause thousands. */
	readonly violations: string[] = [];
	violationCount = 0;
	requests = 0;
	/** Requests that reached the upstream, and got from it what their kind says. */
	played = 0;
	/** Sum of all bytes whose checksum was right, both ways. */
	checkedBytes = 0;
	retries = 0;
	/** Kind, then outcome. */
	readonly counts = new Map<string, Map<Outcome, number>>();
	/** Protocol and framing of the answer. */
	readonly crosses = new Map<string, number>();
	/** Answers to clients that stayed, by their HTTP status; of a refused call the one that its gRPC status stands for. */
	readonly statuses = new Map<number, number>();
	/** Clients that left. */
	left = 0;
	/** Calls of gRPC whose answer came whole. */
	calls = 0;
	floods = 0;
	/** Requests without an answer, as long as threads are being killed: of them it is not known yet. */
	readonly lost: { readonly what: string; readonly port: number }[] = [];
	lostWithThread = 0;
	/** Threads killed. */
	kills = 0;
	readonly rules: Rules;
	/** By id: all that are under way, and the last ones that were, since the upstream may hear of them late. */
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

	/** `undefined` for a request that nobody has sent. */
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

	/** The same over HTTP/2: what has not been looked at may come again, and nothing else. */
	deliveredOnStream(entry: Entry): void {
		entry.deliveries++;
		if (entry.deliveries === 1) return;
		this.retries++;
		if (entry.undone < entry.deliveries - 1) {
			this.violate(`${nameOf(entry.plan)} was delivered ${entry.deliveries} times, and looked at before`);
		}
	}

	/** It was never sent. */
	withdraw({ plan }: Entry): void {
		this.#entries.delete(plan.id);
		this.requests--;
		if (plan.kind.alone === 'flood') this.floods--;
	}

	/** Judges what the client got, and closes the entry. @returns the outcome. */
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

	/** Judges what has been lost while threads were killed. @param kills how many, and the ports of the clients that these threads served. */
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
		// Whether it is all there or not, it must be the right one.
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
		// Memory for bodies is one for all.
		if (this.floods > 0) allowed.push('overloaded', ...brokenOff);
		// On a machine that is busy enough, everything may take too long, and is ended in the way of what takes too long.
		const fate = entry.repeated ? 'whole' : plan.kind.fate;
		// The client's clock may begin late.
		if (reply.ms >= rules.limitMs / 2) {
			allowed.push('504', ...brokenOff);
			// The client has a time limit of its own to take an answer, the proxy's own ones included, in either mode.
			allowed.push('broken off');
		}
		if (entry.deliveries === 0) allowed.push('503');
		// If the end of a connection shows late, the upstream may have received the request, which is then not sent again.
		if (entry.deliveries === 0 && reply.ms >= TICK_MS) allowed.push('502');
		// What others have done to its connection.
		if (entry.isHit) allowed.push('whole', '502', ...brokenOff);
		// Its length told the client that the answer before was whole; the proxy was still waiting for the end of the stream.
		if (entry.before?.isHit && entry.deliveries === 0) allowed.push(...brokenOff);
		if (!entry.played && plan.kind.upstream === 'h2') {
			if (entry.isAmongRough) allowed.push('502');
			return allowed;
		}
		if (!entry.played) {
			// A connection that had been closed under the request, and a request that must not be sent twice.
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
				// A body that streams is gone with the first attempt.
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
