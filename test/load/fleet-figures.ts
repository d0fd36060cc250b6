/** What requests of tenants say about the promise of shared limits: over any 10 s at most so many, and at least so many of those asked for. Pure. */
import type { Protocol } from '../fixtures/clients.ts';
import type { LogLine } from '../fixtures/program.ts';

export interface Limit {
	readonly rps: number;
	readonly burst: number;
	readonly replicas: number;
}

/** One request; times in ms, of one clock. */
export interface Asked {
	readonly sentMs: number;
	/** When its answer had come. */
	readonly endMs: number;
	readonly status: number;
}

export interface TenantPlan {
	readonly name: string;
	/** Requests a second that it asks for, evenly. */
	readonly asksRps: number;
	/** Connections that it uses in turns: with one of them all of its requests meet one replica. */
	readonly connections: number;
	readonly protocol: Protocol;
	/** Where its clients are: a loopback address of its own. */
	readonly address: string;
}

/** A request without an answer. */
export interface Lost {
	/** When it was lost. */
	readonly atMs: number;
	/** Of the error. */
	readonly code: string;
}

/** A part of the run. */
export interface Phase {
	readonly what: string;
	/** Whether tenants are promised their rate meanwhile. */
	readonly isPromised: boolean;
	readonly fromMs: number;
	readonly toMs: number;
}

/** Requests, by what became of them. */
export interface Counts {
	/** The sum of the others. */
	sent: number;
	/** 200. */
	passed: number;
	/** 429. */
	refused: number;
	/** Any other status. */
	other: number;
	/** No whole answer. */
	lost: number;
}

interface TenantFigures extends Counts {
	readonly plan: TenantPlan;
	/** The most in any 10 s of the whole run, and what the promise allows. */
	readonly worst: number;
	readonly most: number;
	/** In the first phase, in which nothing happens: of the requests that were due to it, the part that was let through. */
	readonly part: number;
	/** Requests that were answered for clients of another address. */
	readonly misnamed: number;
}

/** Requests with an answer belong to the phase in which they were sent, those without one to that in which they were lost. */
interface PhaseFigures extends Phase {
	/** Requests of tenants that ask for their rate at most. */
	readonly modest: Counts;
	/** Requests of all tenants. */
	readonly all: Counts;
	/** How requests were lost: codes of errors. */
	readonly codes: Readonly<Record<string, number>>;
}

export interface FleetFigures {
	readonly tenants: readonly TenantFigures[];
	readonly phases: readonly PhaseFigures[];
	/** In the first phase: 99 of 100 requests had their answer after this time, ms. What comes late on a busy machine no limiter can help. */
	readonly answeredMs: number;
	/** Requests that their clients could not send, because too many were under way. */
	readonly withheld: number;
	/** Lines of the replicas' logs that name a tenant of these, and those that say it is at another address. */
	readonly logged: number;
	readonly mislogged: readonly LogLine[];
	/** Lines of their logs at `error`. */
	readonly errors: readonly LogLine[];
}

/** One tenant's clients and what they have seen. */
export interface Clients {
	readonly plan: TenantPlan;
	/** Requests with an answer. */
	readonly asked: readonly Asked[];
	readonly lost: readonly Lost[];
	/** Requests that were answered for clients of another address. */
	readonly misnamed: number;
	/** Requests that were not sent, because too many were under way. */
	readonly withheld: number;
}

/** @param lines of the replicas' logs. */
export function figures(
	limit: Limit,
	phases: readonly Phase[],
	tenants: readonly Clients[],
	lines: readonly LogLine[],
): FleetFigures {
	const [calm] = phases;
	const addresses = new Map(tenants.map(({ plan }) => [plan.name, plan.address]));
	const logged = lines.filter(({ target, tenant }) => target === 'proxy::access' && addresses.has(String(tenant)));
	return {
		tenants: tenants.map(({ plan, asked, lost, misnamed }) => {
			const then = within(asked, calm!);
			return {
				plan,
				...count([{ asked, lost }]),
				worst: worstIn10s(asked),
				most: mostIn10s(limit),
				part: passedOf(then) / dueTo(then, limit),
				misnamed,
			};
		}),
		phases: phases.map((phase) => {
			const all = tenants.map(({ plan, asked, lost }) => {
				return { plan, asked: within(asked, phase), lost: lost.filter(({ atMs }) => isWithin(atMs, phase)) };
			});
			const codes: Record<string, number> = {};
			for (const { code } of all.flatMap(({ lost }) => lost)) codes[code] = (codes[code] ?? 0) + 1;
			const modest = all.filter(({ plan }) => plan.asksRps <= limit.rps);
			return { ...phase, modest: count(modest), all: count(all), codes };
		}),
		answeredMs: percentile99(
			tenants.flatMap(({ asked }) => within(asked, calm!).map(({ sentMs, endMs }) => endMs - sentMs)),
		),
		withheld: tenants.reduce((sum, { withheld }) => sum + withheld, 0),
		logged: logged.length,
		mislogged: logged.filter(({ tenant, client }) => client !== addresses.get(String(tenant))),
		errors: lines.filter(({ level }) => level.toLowerCase() === 'error'),
	};
}

function within(asked: readonly Asked[], phase: Phase): Asked[] {
	return asked.filter(({ sentMs }) => isWithin(sentMs, phase));
}

function isWithin(ms: number, { fromMs, toMs }: Phase): boolean {
	return ms >= fromMs && ms < toMs;
}

function percentile99(values: number[]): number {
	return values.sort((a, b) => a - b)[Math.floor(values.length * 0.99)] ?? 0;
}

function count(tenants: readonly Pick<Clients, 'asked' | 'lost'>[]): Counts {
	const counts: Counts = { sent: 0, passed: 0, refused: 0, other: 0, lost: 0 };
	for (const { asked, lost } of tenants) {
		counts.sent += asked.length + lost.length;
		counts.lost += lost.length;
		for (const { status } of asked) {
			if (status === 200) counts.passed++;
			else if (status === 429) counts.refused++;
			else counts.other++;
		}
	}
	return counts;
}

/** Tenants that ask alike: the least part of its due that one of them got, and what they got on average. */
export function byKind(tenants: readonly TenantFigures[]) {
	const kinds = Map.groupBy(tenants, ({ plan }) => {
		return `${Number(plan.asksRps.toFixed(2))} req/s over ${plan.connections} ${plan.protocol === 'h1' ? 'HTTP/1.1' : 'HTTP/2'}`;
	});
	return Array.from(kinds, ([asks, own]) => ({
		asks,
		tenants: own.length,
		worst: Math.max(...own.map(({ worst }) => worst)),
		most: own[0]!.most,
		least: Math.min(...own.map(({ part }) => part)),
		average: own.reduce((sum, { part }) => sum + part, 0) / own.length,
	}));
}

const WINDOW_MS = 10_000;

/**
 * What the promise allows over 10 s of which one has a fault, which costs the replicas what they know of each other. A busy machine settles
 * within a second.
 */
export function mostIn10s({ rps, burst, replicas }: Limit): number {
	return rps * (10 + replicas + 1) + 2 * replicas * burst;
}

/**
 * The most requests that were let through in any 10 s. Only those count that were sent and answered within them: they have certainly
 * been let through then, however slow the machine was.
 */
export function worstIn10s(asked: readonly Asked[]): number {
	const passed = asked.filter(({ status }) => status === 200).sort((a, b) => a.sentMs - b.sentMs);
	const longestMs = Math.max(0, ...passed.map(({ sentMs, endMs }) => endMs - sentMs));
	let worst = 0;
	let behind = 0;
	for (const [i, { sentMs }] of passed.entries()) {
		const until = sentMs + WINDOW_MS;
		while (behind < passed.length && passed[behind]!.sentMs <= until) behind++;
		let count = behind - i;
		for (let j = behind - 1; j >= i && passed[j]!.sentMs > until - longestMs; j--) {
			if (passed[j]!.endMs > until) count--;
		}
		worst = Math.max(worst, count);
	}
	return worst;
}

/**
 * How many of these requests one exact limiter, which is full at the first of them, would have let through, but no more than the rate
 * itself: what of a burst is there depends on what was before.
 */
export function dueTo(asked: readonly Asked[], { rps, burst }: Limit): number {
	const times = asked.map(({ sentMs }) => sentMs).sort((a, b) => a - b);
	if (times.length === 0) return 0;
	let level = burst;
	let passed = 0;
	let before = times[0]!;
	for (const at of times) {
		level = Math.min(burst, level + ((at - before) * rps) / 1000);
		before = at;
		if (level < 1) continue;
		level--;
		passed++;
	}
	return Math.min(passed, ((times.at(-1)! - times[0]!) * rps) / 1000);
}

export function passedOf(asked: readonly Asked[]): number {
	return asked.filter(({ status }) => status === 200).length;
}
