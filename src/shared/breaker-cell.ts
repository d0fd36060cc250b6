import {
	type Admission,
	type BreakerState,
	type Circuit,
	CLOSED,
	HALF_OPEN,
	INITIAL,
	NORMAL,
	OPEN,
	type Outcome,
	onHealth,
	onOutcome,
	onRequest,
	REFUSED,
} from '../gates/breaker.ts';

/**
 * One upstream's breaker in memory that all threads share. The whole state is one 64-bit word, so each transition is
 * one compare-and-swap and no thread ever sees half of one:
 *
 *   bits 0-1 circuit | bits 2-21 probe number | bits 22-63 `since`, milliseconds, signed
 */
export class BreakerCell {
	readonly #word: BigInt64Array;
	/** The word's low half, where the circuit is: reading it makes no BigInt, and nearly every request needs no more. */
	readonly #low: Int32Array;

	constructor(memory: SharedArrayBuffer) {
		this.#word = new BigInt64Array(memory);
		this.#low = new Int32Array(memory);
	}

	/** @param now monotonic milliseconds; a fresh breaker is open and unproven from then on. */
	static allocate(now: number): SharedArrayBuffer {
		const memory = new SharedArrayBuffer(8);
		new BigInt64Array(memory)[0] = encode({ ...INITIAL, since: now });
		return memory;
	}

	get circuit(): Circuit {
		return (Atomics.load(this.#low, LOW_HALF) & 3) as Circuit;
	}

	/**
	 * Asks to send one request. What is admitted must be reported, whatever becomes of it.
	 *
	 * @param now monotonic milliseconds.
	 * @returns an admission for `report`, or `REFUSED`.
	 */
	admit(now: number, cooldownMs: number): Admission {
		if (this.#isClosed()) return NORMAL;
		const state = this.#change((current) => onRequest(current, now, cooldownMs));
		if (state !== undefined) return state.probe;
		// Nothing to change: it is open and cooling down, or somebody has closed it meanwhile.
		return this.#isClosed() ? NORMAL : REFUSED;
	}

	#isClosed(): boolean {
		return this.circuit === CLOSED;
	}

	report(admission: Admission, outcome: Outcome, now: number): void {
		// Success of an ordinary request changes nothing in any state; it is also what nearly all reports are.
		if (outcome === 'success' && admission === NORMAL) return;
		this.#change((current) => onOutcome(current, admission, outcome, now));
	}

	/** @returns whether the verdict changed what requests get: closed before and not after, or the other way round. */
	health(healthy: boolean, now: number): boolean {
		const before = this.circuit;
		this.#change((current) => onHealth(current, healthy, now));
		return (before === CLOSED) !== healthy;
	}

	/** @returns the state that this call brought about, `undefined` when there was nothing to change. */
	#change(decide: (current: BreakerState) => BreakerState | undefined): BreakerState | undefined {
		for (;;) {
			const word = Atomics.load(this.#word, 0);
			const next = decide(decode(word));
			if (next === undefined) return undefined;
			if (Atomics.compareExchange(this.#word, 0, word, encode(next)) === word) return next;
		}
	}
}

export { CLOSED, HALF_OPEN, NORMAL, OPEN, REFUSED };

const LOW_HALF = new Uint8Array(new Uint16Array([1]).buffer)[0] === 1 ? 0 : 1;

function encode(state: BreakerState): bigint {
	// Rounded up: a cooldown that began between two milliseconds must not end before its time.
	return (BigInt(Math.ceil(state.since)) << 22n) | BigInt((state.probe << 2) | state.circuit);
}

function decode(word: bigint): BreakerState {
	const low = Number(BigInt.asUintN(22, word));
	return { circuit: (low & 3) as Circuit, probe: low >>> 2, since: Number(word >> 22n) };
}
