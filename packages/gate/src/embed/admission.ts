import { insufficientScope } from '../gates/rejection.ts';
import { grants } from '../gates/scopes.ts';
import type { Caller } from './caller.ts';
import { scopesOf } from './claims.ts';
import { GateError } from './error.ts';
import type { Admitted, Gate, Verdict } from './gate.ts';
import { checkOptions, type Kinds, UNDEFINED } from './options.ts';
import { refused } from './refusal.ts';

interface Admission {
	/** A request object may be judged again with another token, on behalf of another caller. Its admission holds for one token. */
	readonly authorization: unknown;
	readonly verdict: Admitted;
}

/** The requests that each gate has admitted. Only the gate adds to it: no part of a request can. */
const ADMITTED = new WeakMap<Gate, WeakMap<object, Admission>>();

/** Asks a gate about a request. @param request the same object for each guard that the request passes. */
export type Question = (request: object, authorization: Parameters<Gate['check']>[0], caller: Caller) => Verdict;

/**
 * How adapters ask a gate. A request with one token is counted once, however many guards of the same gate it passes: the first guard
 * counts it, and the others check their scopes only.
 *
 * @internal
 */
export function questionTo(gate: Gate): Question {
	let admitted = ADMITTED.get(gate);
	if (admitted === undefined) {
		admitted = new WeakMap();
		ADMITTED.set(gate, admitted);
	}
	const requests = admitted;
	return (request, authorization, caller) => {
		const before = requests.get(request);
		if (before !== undefined && before.authorization === authorization) return askedForScopes(before.verdict, caller);
		const verdict = gate.check(authorization, caller);
		if (verdict.ok) requests.set(request, { authorization, verdict: withoutSlot(verdict) });
		return verdict;
	};
}

/** For later guards: the first guard releases the slot and has set the headers. */
function withoutSlot(verdict: Admitted): Admitted {
	const { ok, claims, tenant, slot, headers } = verdict;
	return slot === undefined && headers === undefined ? verdict : { ok, claims, tenant };
}

function askedForScopes(admitted: Admitted, { scopes = [] }: Caller): Verdict {
	return grants(scopesOf(admitted.claims), scopes) ? admitted : refused(insufficientScope(scopes));
}

/**
 * Checks the arguments of a guard at construction.
 *
 * @param given the arguments from `options` on. One after it, such as the handler of another adapter's guard, would never be called.
 * @returns the options; see `checkOptions`.
 * @throws {GateError} `ERR_GATE_OPTIONS`.
 *
 * @internal
 */
export function checkGuard<Options extends object>(
	gate: unknown,
	given: readonly [options?: Options],
	kinds: Kinds<Options>,
): Partial<Options> {
	if (typeof (gate as Gate | null | undefined)?.check !== 'function') {
		throw new GateError('ERR_GATE_OPTIONS', 'gate must be a gate made by createGate');
	}
	const [options, ...rest]: readonly unknown[] = given;
	if (rest.length > 0) {
		throw new GateError(
			'ERR_GATE_OPTIONS',
			'there is an argument after the options, which would be ignored; remove it',
		);
	}
	if (given.length > 0 && options === undefined) throw new GateError('ERR_GATE_OPTIONS', `options ${UNDEFINED}`);
	return checkOptions('ERR_GATE_OPTIONS', '', given.length === 0 ? {} : options, kinds);
}

/**
 * Checks the argument of an RPC adapter that is its framework's module.
 *
 * @param functions what the adapter uses of it.
 * @param remedy the import and the call that are right.
 * @throws {GateError} `ERR_GATE_OPTIONS`.
 *
 * @internal
 */
export function checkLibrary<Library>(
	library: Library,
	functions: readonly (keyof Library)[],
	name: string,
	remedy: string,
): Library {
	const given = Object(library) as Library;
	if (functions.every((key) => typeof given[key] === 'function')) return given;
	throw new GateError('ERR_GATE_OPTIONS', `library must be ${name}: write ${remedy}`);
}
