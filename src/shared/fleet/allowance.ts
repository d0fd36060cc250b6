/**
 * How a limit is divided between what is leased and what each replica may spend before it has asked.
 *
 * The promise is that in any 10 s all replicas together admit at most `10 * rps * 1.05 + burst`, which is `10 * rps + slack` with
 * `slack = burst + rps / 2`. The ledger of a tenant holds at most `capacity`, and each of N replicas may be ahead of it by `allowance`.
 * docs/scaling.md has the proof that all together admit at most `10 * rps + capacity + N * allowance`. So
 * `capacity + N * allowance <= slack` is all there is to see to.
 *
 * An allowance is 1 at least: the first request of a tenant at a replica is not refused. The capacity is half a second of the rate at
 * least, or portions could not carry it. Both fit as long as `N <= burst` (with `rps >= 2`). Beyond it the bound is
 * `10 * rps + capacity + N`. No algorithm that never waits can do much better: who admits 95 % of requests wherever they come must be
 * ready to admit one at 95 % of the replicas at any time, and all of these may be asked at once.
 */
export interface Division {
	/** Whole tokens that a replica may spend before it has asked. */
	readonly allowance: number;
	/** Whole tokens that the ledger holds. */
	readonly capacity: number;
}

/**
 * Least capacity, in seconds of the rate. A replica reports every 0.2 s. What it has spent since is still in the ledger's books, what it
 * will spend until the next report is set aside, and the way there and back takes its time.
 */
const MIN_LEASED_SECONDS = 0.5;
/** So much of the rate is leased before allowances get more than 1: demand may move while portions lie where it was. */
const LEASED_SECONDS = 0.75;

/** @param replicas that are alive, at least 1. */
export function divideRate(rps: number, burst: number, replicas: number): Division {
	const slack = Math.floor(burst + rps / 2);
	const allowance = allowanceOf(rps, burst, replicas);
	const least = Math.max(1, Math.floor(rps * MIN_LEASED_SECONDS));
	return { allowance, capacity: Math.max(least, slack - replicas * allowance) };
}

/** Of `divideRate`. */
export function allowanceOf(rps: number, burst: number, replicas: number): number {
	const room = burst + rps / 2 - rps * LEASED_SECONDS;
	return Math.max(1, Math.min(MAX_ALLOWANCE, Math.floor(room / replicas)));
}

/** Fits the word of a lease with room to spare. */
const MAX_ALLOWANCE = 2 ** 22;

/**
 * Slots of `concurrency`: one at each replica is there without asking, as long as it is not reported. All together have at most
 * `capacity + N` under way: at most the limit, if there are no more replicas than a twentieth of it.
 *
 * @returns what the ledger holds.
 */
export function leasedSlots(limit: number, replicas: number): number {
	return Math.max(Math.ceil(limit * 0.95), limit - replicas);
}

/** What one replica has of a limit when nobody can be asked: at least 1. */
export function shareOf(limit: number, replicas: number): number {
	return Math.max(1, Math.floor(limit / replicas));
}
