import { LEASED, LOCAL, type Mode, REFUSING, SHARED } from '../../shared/fleet/standing-word.ts';
import type { LeaseAnswer, LeaseBatch } from './contract.ts';

/** What `[limiter] on_store_failure` says. */
export type OnStoreFailure = 'share' | 'local' | 'refuse';

/** Without a good answer for so long after a failure the store is away, ms. */
export const AWAY_MS = 750;
/** So many good answers in a row, and it is back. */
const ANSWERS_BACK = 2;
/** The most that one has to give that has lied: each lie doubles them. */
const MAX_ANSWERS_BACK = 64;
/** Until its lies are forgotten, ms. */
const LIES_MS = 60_000;
/** Replicas last seen are the most that were seen in this time, ms: those that lose the store first are not gone. */
const SEEN_MS = 10_000;
/** So much of a difference between the store's time and ours is a clock that is set right, ms. */
const TIME_STEP_MS = 1_000;
const MAX_REPLICAS = 1_000_000;

/**
 * Whether the store can be relied on, and how many replicas there are. Time is an argument.
 *
 * It begins away: a limit that is the whole fleet's is not given to one replica before the store has answered.
 */
export class Standing {
	readonly #onFailure: OnStoreFailure;
	#isAway = true;
	/** Good answers in a row while away. */
	#good = 0;
	#answersBack = ANSWERS_BACK;
	#answeredAt: number | undefined;
	#failedAt: number | undefined;
	/** In all, and in a row. */
	failures = 0;
	failuresInRow = 0;
	/** In words for the log; of the last failure. */
	cause: string | undefined;
	/** How often it has gone away. */
	outages = 0;
	#since: number;
	#storeMs: number | undefined;
	#seen: { readonly at: number; readonly replicas: number }[] = [];
	#last: number;

	/** @param expected replicas, until the store has said how many there are. */
	constructor(onFailure: OnStoreFailure, expected: number, now: number) {
		this.#onFailure = onFailure;
		this.#last = expected;
		this.#since = now;
	}

	get isAway(): boolean {
		return this.#isAway;
	}

	/** Whether the last call has failed. */
	get isFailing(): boolean {
		return this.#failedAt !== undefined;
	}

	/** Since when it is as it is. */
	get since(): number {
		return this.#since;
	}

	/** Monotonic milliseconds of the last good answer. */
	get answeredAt(): number | undefined {
		return this.#answeredAt;
	}

	/** As last seen, at least 1. */
	get replicas(): number {
		return this.#last;
	}

	get mode(): Mode {
		if (!this.#isAway) return LEASED;
		if (this.#onFailure === 'share') return SHARED;
		return this.#onFailure === 'local' ? LOCAL : REFUSING;
	}

	/**
	 * Judges an answer.
	 *
	 * @returns whether it can be used. What was granted beyond what was asked, what is no number, or comes from a clock that jumps, is
	 *   no answer: it counts as a failure.
	 */
	answered(batch: LeaseBatch, answer: LeaseAnswer, now: number): boolean {
		const lie = lieIn(batch, answer) ?? this.#timeLie(answer.nowMs, now);
		if (lie !== undefined) {
			// Who answers, but not truly, is not believed again at once.
			this.#answersBack = Math.min(MAX_ANSWERS_BACK, 2 * this.#answersBack);
			this.failed(lie, now);
			return false;
		}
		this.#answeredAt = now;
		this.#failedAt = undefined;
		this.failuresInRow = 0;
		if (!this.#isAway && now - this.#since > LIES_MS) this.#answersBack = ANSWERS_BACK;
		this.#see(answer.replicas, now);
		if (this.#isAway && ++this.#good >= this.#answersBack) {
			this.#isAway = false;
			this.#since = now;
		}
		return true;
	}

	failed(cause: string, now: number): void {
		this.failures++;
		this.failuresInRow++;
		this.cause = cause;
		this.#good = 0;
		this.#failedAt ??= now;
		this.tick(now);
	}

	/** To be called now and then: the store goes away by not answering. */
	tick(now: number): void {
		if (this.#isAway || this.#failedAt === undefined || now - this.#failedAt < AWAY_MS) return;
		this.#isAway = true;
		this.#good = 0;
		this.#since = now;
		this.outages++;
	}

	#see(replicas: number, now: number): void {
		this.#seen = this.#seen.filter(({ at, replicas: seen }) => now - at < SEEN_MS && seen > replicas);
		this.#seen.push({ at: now, replicas });
		this.#last = this.#seen[0]!.replicas;
	}

	/** Time may stand or be set right a little; it neither goes back nor ahead of ours. A new base is taken all the same. */
	#timeLie(storeMs: number, now: number): string | undefined {
		const before = this.#storeMs;
		this.#storeMs = storeMs - now;
		if (before === undefined || Math.abs(storeMs - now - before) <= TIME_STEP_MS) return undefined;
		return storeMs - now < before ? "the store's time has gone back" : "the store's time has jumped ahead";
	}
}

/** In words, or `undefined`. */
function lieIn({ calls, leaving }: LeaseBatch, { nowMs, bornMs, replicas, grants }: LeaseAnswer): string | undefined {
	if (!Number.isSafeInteger(nowMs) || !Number.isSafeInteger(bornMs)) return 'the store has told no time';
	const fewest = leaving ? 0 : 1;
	if (!Number.isSafeInteger(replicas) || replicas < fewest || replicas > MAX_REPLICAS) {
		return 'the store has counted no replicas';
	}
	if (grants.length !== calls.length) return 'the store has not answered all calls';
	const isWrong = grants.some(({ granted, left }, i) => {
		return !Number.isSafeInteger(granted) || granted < 0 || granted > calls[i]!.want || !Number.isSafeInteger(left);
	});
	return isWrong ? 'the store has granted what nobody has asked for' : undefined;
}
