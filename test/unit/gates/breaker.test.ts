import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import {
	type Admission,
	type BreakerState,
	CLOSED,
	HALF_OPEN,
	INITIAL,
	isFailureStatus,
	NO_STREAK,
	NORMAL,
	OPEN,
	type OpeningRule,
	onAbandoned,
	onFailure,
	onHealth,
	onRequest,
	onSuccess,
	REFUSED,
} from '../../../packages/proxy/src/gates/breaker.ts';

const COOLDOWN = 1000;
/** What holds unless the configuration says otherwise: the first failure opens. */
const FIRST: OpeningRule = { failures: 1, tenants: 1 };

type Outcome = 'success' | 'failure' | 'abandoned';

function onOutcome(state: BreakerState, admission: Admission, outcome: Outcome, now: number): BreakerState | undefined {
	if (outcome === 'failure') return onFailure(state, admission, 'new tenant', FIRST, now);
	return outcome === 'success' ? onSuccess(state, admission, 1) : onAbandoned(state, admission);
}

/** A breaker over the pure transitions, as `BreakerCell` is one in shared memory. */
class Breaker {
	state: BreakerState;

	constructor(state: BreakerState = INITIAL) {
		this.state = state;
	}

	request(now: number, cooldown = COOLDOWN): Admission {
		const next = onRequest(this.state, now, cooldown);
		if (next !== undefined) this.state = next;
		if (next !== undefined) return next.probe;
		return this.state.circuit === CLOSED ? NORMAL : REFUSED;
	}

	report(admission: Admission, outcome: Outcome, now: number): void {
		this.state = onOutcome(this.state, admission, outcome, now) ?? this.state;
	}

	health(healthy: boolean, now: number): void {
		this.state = onHealth(this.state, healthy, now, 1) ?? this.state;
	}

	static closed(): Breaker {
		const breaker = new Breaker();
		breaker.health(true, 0);
		return breaker;
	}

	/** Opened at time 0 by a failure. */
	static open(): Breaker {
		const breaker = Breaker.closed();
		breaker.report(NORMAL, 'failure', 0);
		return breaker;
	}
}

/** What the table below cannot show: exact moments, other cooldowns, statuses and numbers. */
describe('the circuit breaker', () => {
	it('is opened by 502, 503 and 504 and by no other status', () => {
		for (let status = 100; status < 600; status++) {
			assert.equal(isFailureStatus(status), [502, 503, 504].includes(status), `${status}`);
		}
	});

	it('refuses until the whole cooldown has passed, then lets exactly one request through', () => {
		const breaker = Breaker.open();
		assert.equal(breaker.request(COOLDOWN - 0.001), REFUSED);
		assert.equal(breaker.state.circuit, OPEN);
		const probe = breaker.request(COOLDOWN);
		assert.ok(probe > NORMAL);
		assert.equal(breaker.state.circuit, HALF_OPEN);
		for (let i = 0; i < 300; i++) assert.equal(breaker.request(COOLDOWN + i), REFUSED);
	});

	it('gives the slot of an abandoned probe to the next request at once, whatever the cooldown', () => {
		for (const cooldown of [1000, 30_000, 365 * 86_400_000]) {
			const breaker = Breaker.open();
			breaker.report(breaker.request(cooldown, cooldown), 'abandoned', cooldown + 1);
			assert.notEqual(breaker.state.circuit, CLOSED);
			// Also by a route whose cooldown is longer than the breaker has been there.
			assert.ok(breaker.request(cooldown + 1, 2 * cooldown) > NORMAL);
			assert.equal(breaker.request(cooldown + 1, cooldown), REFUSED);
		}
	});

	it('uses the cooldown of the requesting route', () => {
		const breaker = Breaker.open();
		assert.equal(breaker.request(2000, 5000), REFUSED);
		assert.ok(breaker.request(2000, 1000) > NORMAL);
		// And so for the probe that is given up.
		assert.equal(breaker.request(3500, 5000), REFUSED);
		assert.ok(breaker.request(3500, 1000) > NORMAL);
	});

	it('numbers probes within 20 bits, never like a normal request, and never the same twice in a row', () => {
		let state: BreakerState = { circuit: OPEN, since: 0, probe: 2 ** 20 - 3, streak: NO_STREAK };
		const seen: number[] = [];
		for (let now = COOLDOWN; seen.length < 6; now += COOLDOWN) {
			state = onRequest(state, now, COOLDOWN)!;
			seen.push(state.probe);
		}
		assert.deepEqual(seen, [2 ** 20 - 2, 2 ** 20 - 1, 1, 2, 3, 4]);
	});
});

describe('the circuit breaker against a table of all transitions', () => {
	it('agrees over every sequence of eight events, from the start and from closed', () => {
		let visited = 0;
		for (const first of [[], ['healthy']] as const) {
			const run: Run = { state: INITIAL, reference: new Reference(), inFlight: [], now: 0 };
			for (const event of first) step(run, event);
			visited += explore(run, 8);
		}
		assert.ok(visited > 500_000, `${visited} states`);
	});

	it('agrees over long random histories', () => {
		fc.assert(
			fc.property(fc.array(fc.constantFrom(...EVENTS), { maxLength: 300, size: 'max' }), (events) => {
				const run: Run = { state: INITIAL, reference: new Reference(), inFlight: [], now: 0 };
				for (const event of events) if (possible(run, event)) step(run, event);
			}),
			{ numRuns: 500 },
		);
	});
});

/** Every event that a breaker can see. `oldest` and `newest` are requests in flight, probes or not. */
const EVENTS = [
	'half a cooldown passes',
	'request',
	'oldest succeeds',
	'oldest fails',
	'oldest is abandoned',
	'newest succeeds',
	'newest fails',
	'newest is abandoned',
	'healthy',
	'unhealthy',
] as const;
type Event = (typeof EVENTS)[number];

interface InFlight {
	readonly admission: Admission;
	/** The reference's own name for the request. */
	readonly ticket: Ticket;
}

interface Run {
	state: BreakerState;
	reference: Reference;
	inFlight: readonly InFlight[];
	now: number;
}

/** Depth first through all that can happen; returns the number of steps taken. */
function explore(run: Run, depth: number): number {
	if (depth === 0) return 0;
	let visited = 0;
	for (const event of EVENTS) {
		if (!possible(run, event)) continue;
		const next = { ...run, reference: run.reference.copy() };
		step(next, event);
		visited += 1 + explore(next, depth - 1);
	}
	return visited;
}

function possible({ inFlight }: Run, event: Event): boolean {
	if (event.startsWith('newest')) return inFlight.length > 1;
	return event.startsWith('oldest') ? inFlight.length > 0 : true;
}

/** Does the same to both and compares. */
function step(run: Run, event: Event): void {
	const { reference } = run;
	switch (event) {
		case 'half a cooldown passes':
			run.now += COOLDOWN / 2;
			break;
		case 'request': {
			const breaker = new Breaker(run.state);
			const admission = breaker.request(run.now);
			run.state = breaker.state;
			const ticket = reference.request(run.now);
			assert.equal(admission === REFUSED, ticket === undefined, event);
			if (ticket === undefined) break;
			assert.equal(admission === NORMAL, !ticket.isProbe, event);
			run.inFlight = [...run.inFlight, { admission, ticket }];
			break;
		}
		case 'healthy':
		case 'unhealthy':
			run.state = onHealth(run.state, event === 'healthy', run.now, 1) ?? run.state;
			reference.health(event === 'healthy', run.now);
			break;
		default: {
			const { admission, ticket } = run.inFlight.at(event.startsWith('newest') ? -1 : 0)!;
			const outcome = event.endsWith('succeeds') ? 'success' : event.endsWith('fails') ? 'failure' : 'abandoned';
			run.inFlight = event.startsWith('newest') ? run.inFlight.slice(0, -1) : run.inFlight.slice(1);
			run.state = onOutcome(run.state, admission, outcome, run.now) ?? run.state;
			reference.end(ticket, outcome, run.now);
		}
	}
	const circuit = { closed: CLOSED, open: OPEN, 'half-open': HALF_OPEN }[reference.name];
	assert.equal(run.state.circuit, circuit, event);
}

interface Ticket {
	readonly isProbe: boolean;
}

/**
 * The table of transitions, in other terms than the code's: waiting time
 * that is left instead of moments, and the identity of a ticket instead of a number.
 */
class Reference {
	name: 'closed' | 'open' | 'half-open' = 'open';
	#mayProbeFrom = COOLDOWN;
	#probe: Ticket | undefined;

	copy(): Reference {
		const copy = new Reference();
		copy.name = this.name;
		copy.#mayProbeFrom = this.#mayProbeFrom;
		copy.#probe = this.#probe;
		return copy;
	}

	request(now: number): Ticket | undefined {
		if (this.name === 'closed') return { isProbe: false };
		// Open and cooled down, or half-open and the probe has been silent for another cooldown.
		if (now < this.#mayProbeFrom) return undefined;
		this.name = 'half-open';
		this.#mayProbeFrom = now + COOLDOWN;
		this.#probe = { isProbe: true };
		return this.#probe;
	}

	end(ticket: Ticket, outcome: Outcome, now: number): void {
		const decides = this.name === 'half-open' && ticket === this.#probe;
		if (decides && outcome === 'success') this.#become('closed', now);
		if (decides && outcome === 'abandoned') this.#become('open', now - COOLDOWN);
		if ((decides || this.name === 'closed') && outcome === 'failure') this.#become('open', now);
	}

	health(healthy: boolean, now: number): void {
		this.#become(healthy ? 'closed' : 'open', now);
	}

	#become(name: 'closed' | 'open', now: number): void {
		this.name = name;
		this.#mayProbeFrom = now + COOLDOWN;
		this.#probe = undefined;
	}
}
