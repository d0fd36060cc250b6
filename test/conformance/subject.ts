import type { Clock } from '../../packages/gate/src/shared/clock.ts';
import type { Protocol, Target } from '../fixtures/clients.ts';

/** One form of the gate: an adapter on a real server of its framework, or the proxy. */
export interface Subject {
	readonly name: string;
	readonly protocols: readonly Protocol[];
	/** Rejects where the settings cannot work, as the program would refuse to start. */
	start(settings: GateSettings): Promise<RunningSubject>;
}

export interface GateSettings {
	readonly publicKeyPem: string;
	/** `null`: not checked. */
	readonly issuer: string | null;
	/** `null`: tokens that carry any are refused. */
	readonly audience: string | null;
	/** 0: no limit. */
	readonly tenantRps: number;
	readonly clock: FakeClock;
}

/** Listens with mutual TLS and the certificates of `testPki`; behind the gate `GET /whoami` answers with `WhoAmI`. */
export type RunningSubject = Target & AsyncDisposable;

export interface WhoAmI {
	readonly sub: string;
	readonly scope: string;
}

/** A clock that only the test moves, in memory that another thread can read as well. */
export class FakeClock implements Clock {
	readonly memory: SharedArrayBuffer;
	readonly #cells: Float64Array;

	/** @param memory of a clock that goes the same way. */
	constructor(memory: SharedArrayBuffer = newClockMemory()) {
		this.memory = memory;
		this.#cells = new Float64Array(memory);
	}

	/** Monotonic, ms. */
	get ms(): number {
		return this.#cells[0]!;
	}
	set ms(ms: number) {
		this.#cells[0] = ms;
	}

	/** Seconds since the epoch. */
	get wall(): number {
		return this.#cells[1]!;
	}
	set wall(seconds: number) {
		this.#cells[1] = seconds;
	}

	now(): number {
		return this.ms;
	}

	wallSeconds(): number {
		return this.wall;
	}
}

function newClockMemory(): SharedArrayBuffer {
	const memory = new SharedArrayBuffer(16);
	new Float64Array(memory).set([1000, 1_800_000_000]);
	return memory;
}
