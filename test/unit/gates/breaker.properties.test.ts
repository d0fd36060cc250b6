import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import {
	type FailureReason,
	isFailureStatus,
	MAX_FAILURES,
	MAX_TENANTS,
} from '../../../packages/proxy/src/gates/breaker.ts';
import {
	BreakerCell,
	CLOSED,
	type Failure,
	HALF_OPEN,
	NORMAL,
	OPEN,
	REFUSED,
} from '../../../packages/proxy/src/memory/breaker-cell.ts';

/** Two routes that share an upstream, and with it the breaker, but not the cooldown; ms. */
const COOLDOWN = { impatient: 1000, patient: 2000 } as const;

it('502, 503 and 504 are failures for a breaker, and no other status is', () => {
	for (let status = 100; status < 600; status++) {
		assert.equal(isFailureStatus(status), [502, 503, 504].includes(status), `${status}`);
	}
});

describe('a breaker that two routes with different cooldowns share', () => {
	it('does what the table says over every sequence of six events, in shared memory', () => {
		for (const start of ['unproven', 'closed'] as const) {
			const run = begin();
			if (start === 'closed') step(run, 'healthy');
			const steps = explore(run, 6);
			assert.ok(steps > 10_000, `${steps} steps from ${start}`);
		}
	});

	it('does what the table says over any history', () => {
		fc.assert(
			fc.property(fc.array(fc.constantFrom(...EVENTS), { maxLength: 200, size: 'max' }), (events) => {
				const run = begin();
				for (const event of events) if (isPossible(run, event)) step(run, event);
			}),
			{ numRuns: 500 },
		);
	});
});

describe('failures in a row', () => {
	it('open as the two routes that share the breaker say, over any history', () => {
		const rule = fc.record({
			failures: fc.oneof(fc.integer({ min: 1, max: 5 }), fc.integer({ min: 1, max: MAX_FAILURES })),
			tenants: fc.oneof(fc.integer({ min: 1, max: 3 }), fc.integer({ min: 1, max: MAX_TENANTS })),
		});
		const event = fc.oneof(
			{
				weight: 12,
				arbitrary: fc.record({ route: fc.nat(1), tenant: fc.nat(20), reason: fc.constantFrom(...REASONS) }),
			},
			{ weight: 1, arbitrary: fc.constant('success' as const) },
			{ weight: 1, arbitrary: fc.constant('abandoned' as const) },
			{ weight: 1, arbitrary: fc.constant('healthy' as const) },
		);
		let opened = 0;
		fc.assert(
			fc.property(fc.tuple(rule, rule), fc.array(event, { maxLength: 300, size: 'max' }), (rules, events) => {
				const cell = new BreakerCell(BreakerCell.allocate(0, CLOSED));
				let row: { readonly tenant: number; readonly reason: FailureReason }[] = [];
				let isOpen = false;
				for (const event of events) {
					if (event === 'abandoned') cell.report(NORMAL, 'abandoned');
					else if (event === 'success') {
						cell.report(NORMAL, 'success');
						row = [];
					} else if (event === 'healthy') {
						cell.health(true, 0);
						// A probe says nothing of the requests that fail, but a circuit that was open begins anew.
						if (isOpen) row = [];
						isOpen = false;
					} else {
						const { failures, tenants } = rules[event.route]!;
						cell.fail(NORMAL, failure(`${event.tenant}`, event.reason), { failures, tenants }, 0);
						row.push(event);
						const unconnected = row.filter(({ reason }) => reason === 'connect');
						const those = new Set(row.filter((one) => !unconnected.includes(one)).map(({ tenant }) => tenant));
						isOpen ||= unconnected.length >= failures || (row.length >= failures && those.size >= tenants);
					}
					assert.equal(cell.circuit, isOpen ? OPEN : CLOSED);
					if (isOpen) opened++;
				}
			}),
			{ numRuns: 300 },
		);
		assert.ok(opened > 1000);
	});
});

const FIRST = { failures: 1, tenants: 1 };
const REASONS = ['status', 'timeout', 'broken', 'connect'] as const;

function failure(tenant: string, reason: FailureReason): Failure {
	return { reason, cause: 'x', tenant };
}

const EVENTS = [
	'1000 ms pass',
	'the impatient route asks',
	'the patient route asks',
	'the oldest succeeds',
	'the oldest fails',
	'the oldest is abandoned',
	'the newest succeeds',
	'the newest fails',
	'the newest is abandoned',
	'healthy',
	'unhealthy',
] as const;
type Event = (typeof EVENTS)[number];

interface InFlight {
	readonly admission: number;
	/** Counts the admissions of the table; the one that is `table.probe` decides. */
	readonly ticket: number;
}

/** A model of the breaker: where it is, since when, and whose outcome decides. */
interface Table {
	name: 'closed' | 'open' | 'half-open';
	since: number;
	probe: number;
}

interface Run {
	readonly memory: SharedArrayBuffer;
	readonly table: Table;
	readonly inFlight: readonly InFlight[];
	readonly now: number;
	readonly tickets: number;
}

function begin(): Run {
	return {
		memory: BreakerCell.allocate(0),
		table: { name: 'open', since: 0, probe: 0 },
		inFlight: [],
		now: 0,
		tickets: 0,
	};
}

/** Depth first through all that can happen; returns the number of steps taken. */
function explore(run: Run, depth: number): number {
	if (depth === 0) return 0;
	let steps = 0;
	for (const event of EVENTS) {
		if (!isPossible(run, event)) continue;
		const branch = { ...run, memory: run.memory.slice(), table: { ...run.table } };
		steps += 1 + explore(step(branch, event), depth - 1);
	}
	return steps;
}

function isPossible({ inFlight }: Run, event: Event): boolean {
	if (event.startsWith('the newest')) return inFlight.length > 1;
	return event.startsWith('the oldest') ? inFlight.length > 0 : true;
}

/** Does the same to both, compares, and returns what the run is then. */
function step(run: Run, event: Event): Run {
	const { table, now, inFlight } = run;
	const cell = new BreakerCell(run.memory);
	let after = run;
	switch (event) {
		case '1000 ms pass':
			after = { ...run, now: now + 1000 };
			break;
		case 'the impatient route asks':
		case 'the patient route asks': {
			const cooldown = event.includes('impatient') ? COOLDOWN.impatient : COOLDOWN.patient;
			const admission = cell.admit(now, cooldown);
			// Open or half-open, one request gets through once its own cooldown has gone by.
			const isProbe = table.name !== 'closed' && now - table.since >= cooldown;
			const passes = table.name === 'closed' || isProbe;
			assert.equal(admission !== REFUSED, passes, event);
			if (!passes) break;
			assert.equal(admission !== NORMAL, isProbe, event);
			const ticket = run.tickets + 1;
			if (isProbe) Object.assign(table, { name: 'half-open', since: now, probe: ticket });
			after = { ...run, tickets: ticket, inFlight: [...inFlight, { admission, ticket }] };
			break;
		}
		case 'healthy':
		case 'unhealthy':
			cell.health(event === 'healthy', now);
			Object.assign(table, { name: event === 'healthy' ? 'closed' : 'open', since: now, probe: 0 });
			break;
		default: {
			const isNewest = event.startsWith('the newest');
			const { admission, ticket } = inFlight.at(isNewest ? -1 : 0)!;
			const outcome = event.endsWith('succeeds') ? 'success' : event.endsWith('fails') ? 'failure' : 'abandoned';
			if (outcome === 'failure') cell.fail(admission, failure('tenant', 'status'), FIRST, now);
			else cell.report(admission, outcome);
			decide(table, ticket, outcome, now);
			after = { ...run, inFlight: isNewest ? inFlight.slice(0, -1) : inFlight.slice(1) };
		}
	}
	assert.equal(cell.circuit, { closed: CLOSED, open: OPEN, 'half-open': HALF_OPEN }[table.name], event);
	return after;
}

function decide(table: Table, ticket: number, outcome: 'success' | 'failure' | 'abandoned', now: number): void {
	const isProbe = table.name === 'half-open' && ticket === table.probe;
	if (outcome === 'failure' && (isProbe || table.name === 'closed')) {
		Object.assign(table, { name: 'open', since: now, probe: 0 });
	}
	if (outcome === 'success' && isProbe) Object.assign(table, { name: 'closed', probe: 0 });
	// No verdict: the slot is free at once.
	if (outcome === 'abandoned' && isProbe)
		Object.assign(table, { name: 'open', since: Number.NEGATIVE_INFINITY, probe: 0 });
}
