import {
	type LeaseAnswer,
	type LeaseBatch,
	type LeaseCall,
	type LeaseGrant,
	type LeaseStore,
	RECORD_MS,
	REPLICA_MS,
	SWEEP_MS,
} from './contract.ts';

/**
 * The store in memory: what `contract.ts` describes, word by word. The simulation of fleets and the tests run against it, and it is what
 * the script of the real store is compared with.
 */
export class LedgerStore {
	readonly #ledgers = new Map<string, Ledger>();
	/** Signs of life, microseconds. */
	readonly #replicas = new Map<string, number>();
	#born: number | undefined;
	#counted = 0;
	/** Steps done, to be read. */
	steps = 0;

	/** @param nowMicros the store's own time, whole microseconds. */
	lease({ replica, seq, leaving, bornMs, calls }: LeaseBatch, nowMicros: number): LeaseAnswer {
		if (leaving) this.#replicas.delete(replica);
		else this.#replicas.set(replica, nowMicros);
		this.#forgetReplicas(nowMicros);
		this.#born ??= nowMicros;
		const born = bornMs === 0 ? this.#born : bornMs * 1000;
		const grants = calls.map((call) => this.#call(call, replica, seq, born, nowMicros));
		this.steps += 1 + calls.length;
		return {
			nowMs: Math.floor(nowMicros / 1000),
			replicas: this.#replicas.size,
			bornMs: Math.floor(this.#born / 1000),
			grants,
		};
	}

	/** As `FLUSHALL` does. */
	flush(): void {
		this.#ledgers.clear();
		this.#replicas.clear();
		this.#born = undefined;
	}

	/** Each 10 ms is often enough, and thousands of replicas call more often. */
	#forgetReplicas(now: number): void {
		if (Math.abs(now - this.#counted) < 10_000) return;
		this.#counted = now;
		for (const [id, at] of this.#replicas) if (now - at > REPLICA_MS * 1000) this.#replicas.delete(id);
	}

	/** Forgets what has come back to what an absent ledger says. */
	forget(nowMicros: number): void {
		for (const [key, { keepUntil }] of this.#ledgers) if (nowMicros >= keepUntil) this.#ledgers.delete(key);
	}

	#call(call: LeaseCall, replica: string, seq: number, born: number, now: number): LeaseGrant {
		const capacity = call.capacity * MILLION;
		let ledger = this.#ledgers.get(call.key);
		if (ledger !== undefined && now >= ledger.keepUntil) ledger = undefined;
		if (ledger === undefined) {
			const level = call.rps === 0 ? capacity : Math.min(capacity, call.rps * Math.max(0, now - born));
			ledger = { level, time: now, out: 0, swept: now, records: new Map(), keepUntil: 0 };
			this.#ledgers.set(call.key, ledger);
		} else {
			const filled = ledger.level + call.rps * Math.max(0, now - ledger.time);
			ledger.level = call.rps === 0 ? capacity : Math.min(capacity, filled);
			ledger.time = now;
		}
		sweep(ledger, call.rps, now);
		const granted = settle(ledger, call, replica, seq, now);
		const toFull = call.rps === 0 ? 0 : Math.max(0, capacity - ledger.level) / call.rps;
		ledger.keepUntil = now + Math.max((RECORD_MS + SWEEP_MS) * 1000, toFull) + MILLION;
		return { granted, left: Math.floor((ledger.level - ledger.out) / MILLION) };
	}
}

/** Microseconds in a second, and the parts of a token that a ledger counts. */
const MILLION = 1_000_000;

interface Ledger {
	/** Millionths of a token; below 0 while replicas are ahead. */
	level: number;
	/** Microseconds, as all times here. */
	time: number;
	/** Sum of what is out; below 0 where more has been spent of allowances. */
	out: number;
	swept: number;
	keepUntil: number;
	readonly records: Map<string, LeaseRecord>;
}

interface LeaseRecord {
	readonly out: number;
	/** Whole tokens. */
	readonly spent: number;
	readonly seq: number;
	readonly term: number;
	readonly stamp: number;
}

function sweep(ledger: Ledger, rps: number, now: number): void {
	if (now >= ledger.swept && now - ledger.swept < SWEEP_MS * 1000) return;
	ledger.swept = now;
	for (const [replica, { out, stamp }] of ledger.records) {
		if (Math.abs(now - stamp) < RECORD_MS * 1000) continue;
		ledger.out -= out;
		// Nobody will tell any more what has been spent of it.
		if (rps > 0) ledger.level -= Math.max(0, out);
		ledger.records.delete(replica);
	}
}

/** @returns tokens granted. */
function settle(ledger: Ledger, call: LeaseCall, replica: string, seq: number, now: number): number {
	const { rps, term, known, spent, want } = call;
	const held = call.held * MILLION;
	const record = ledger.records.get(replica);
	if (record !== undefined && seq <= record.seq) return 0;
	if (record !== undefined) ledger.out -= record.out;
	if (record !== undefined && record.term === term) {
		if (rps > 0) ledger.level -= Math.max(0, spent - record.spent) * MILLION;
	} else {
		if (record !== undefined && rps > 0) ledger.level -= Math.max(0, record.out);
		if (known) ledger.level = Math.min(ledger.level, ledger.out + held);
		else if (rps > 0) ledger.level -= spent * MILLION;
	}
	const free = Math.floor((ledger.level - ledger.out - held) / MILLION);
	const granted = Math.max(0, Math.min(want, free));
	const out = held + granted * MILLION;
	ledger.out += out;
	if (out === 0 && want === 0) ledger.records.delete(replica);
	else ledger.records.set(replica, { out, spent, seq, term, stamp: now });
	return granted;
}

/** The same as a `LeaseStore`, with a clock. */
export function inMemory(store: LedgerStore, nowMicros: () => number): LeaseStore {
	return { lease: async (batch) => store.lease(batch, nowMicros()) };
}
