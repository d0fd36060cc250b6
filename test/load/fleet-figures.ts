/** Judges the promise of shared limits from tenants' requests: the most in any 10 s, and the least of what was requested. Pure. */
import type { Protocol } from '../fixtures/clients.ts';
import type { LogLine } from '../fixtures/program.ts';

export interface Limit {
	readonly rps: number;
	readonly burst: number;
	readonly replicas: number;
}

/** One request; times in ms, all of one clock. */
export interface Asked {
	readonly sentMs: number;
	/** When its response was complete. */
	readonly endMs: number;
	readonly status: number;
}

export interface TenantPlan {
	readonly name: string;
	/** Requests per second, evenly spaced. */
	readonly asksRps: number;
	/** Connections, used in turn. With one connection all requests reach one replica. */
	readonly connections: number;
	readonly protocol: Protocol;
	/** Loopback address of its clients. */
	readonly address: string;
}

/** A request without a response. */
export interface Lost {
	/** When it was lost. */
	readonly atMs: number;
	/** Code of the error. */
	readonly code: string;
}

/** A phase of the run. */
export interface Phase {
	readonly what: string;
	/** Whether tenants are promised their rate in it. */
	readonly isPromised: boolean;
	readonly fromMs: number;
	readonly toMs: number;
}

/** Requests by outcome. */
export interface Counts {
	/** Sum of the others. */
	sent: number;
	/** 200. */
	passed: number;
	/** 429. */
	refused: number;
	/** Any other status. */
	other: number;
	/** No complete response. */
	lost: number;
}

interface TenantFigures extends Counts {
	readonly plan: TenantPlan;
	/** The most admitted in any 10 s of the whole run, and what the promise allows. */
	readonly worst: number;
	readonly most: number;
	/** Share of its due requests that was admitted in the first, undisturbed phase. */
	readonly part: number;
	/** Requests whose response names another client's address. */
	readonly misnamed: number;
}

/** A request with a response belongs to the phase in which it was sent; a lost one to the phase in which it was lost. */
interface PhaseFigures extends Phase {
	/** Requests of tenants that stay within their rate. */
	readonly modest: Counts;
	/** Requests of all tenants. */
	readonly all: Counts;
	/** Lost requests by error code. */
	readonly codes: Readonly<Record<string, number>>;
}

export interface FleetFigures {
	readonly tenants: readonly TenantFigures[];
	readonly phases: readonly PhaseFigures[];
	/** 99th percentile of the response time in the first phase, ms. A limiter cannot help if a busy machine is late. */
	readonly answeredMs: number;
	/** Requests that were not sent because too many were in flight. */
	readonly withheld: number;
	/** Log lines of the replicas that name one of these tenants, and those with a wrong address. */
	readonly logged: number;
	readonly mislogged: readonly LogLine[];
	/** Log lines at `error`. */
	readonly errors: readonly LogLine[];
}

/** One tenant's clients and their outcomes. */
export interface Clients {
	readonly plan: TenantPlan;
	/** Requests with a response. */
	readonly asked: readonly Asked[];
	readonly lost: readonly Lost[];
	/** Requests whose response names another client's address. */
	readonly misnamed: number;
	/** Requests that were not sent because too many were in flight. */
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

/** For tenants with equal load: the lowest and the average share of their due requests. */
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
 * What the promise allows over 10 s with one fault, which loses what the replicas know of each other. A busy machine settles within a second.
 */
export function mostIn10s({ rps, burst, replicas }: Limit): number {
	return rps * (10 + replicas + 1) + 2 * replicas * burst;
}

/**
 * The most requests admitted in any 10 s. Counts only requests sent and answered within them: those were certainly admitted then,
 * however slow the machine was.
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
 * How many of these requests one exact limiter, full at the first of them, would have admitted, but at most the rate itself: the burst that
 * is left depends on earlier requests.
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
