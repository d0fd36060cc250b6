/**
 * What the limiter asks of the store that all replicas share, and what it may believe of the answer. `ledger.ts` is the same in
 * TypeScript, for tests and simulations; `test/fixtures/lease-store-suite.ts` holds any store to it.
 *
 * The store has a ledger for each key: a token bucket of `capacity` that fills at `rps`, and, for each replica, what that one has been
 * given and has not yet reported as spent (`out`; below 0 where it has spent of its allowance). Only reports empty the bucket; what is out is set aside in it. So a grant never exceeds
 * `level - sum of out`, and at any moment all that replicas may still spend is in the bucket.
 *
 * A call says what *is* (tokens held, tokens spent since the term began), never what has changed. So any call may be lost, repeated or
 * answered to nobody: the next one puts the ledger right. Whole tokens are exchanged; ledgers count in millionths of a token
 * (`rps` times microseconds, so no sum is rounded).
 */
export interface LeaseStore {
	/**
	 * Does a batch: first the registry of replicas, then each call. Each of these is one atomic step; the batch as a whole need not be.
	 * All keys of one ledger share a hash tag, so that a Cluster can do a step on one node.
	 *
	 * @returns within a time of the client's own; rejects when there is no answer to all calls by then. An `Error` whose message is fit for
	 *   the log: no address with credentials in it. What had been done of the batch by then does no harm.
	 */
	lease(batch: LeaseBatch): Promise<LeaseAnswer>;
}

export interface LeaseBatch {
	/** Of this process since its start: 16 hexadecimal digits. */
	readonly replica: string;
	/** Rises from batch to batch. A call that arrives after a later one of its replica does nothing and is granted nothing. */
	readonly seq: number;
	/** The last batch of its life: the registry forgets the replica. */
	readonly leaving: boolean;
	/** `bornMs` of the answer before; 0: there has been none. */
	readonly bornMs: number;
	/** At most `MAX_CALLS`, no key twice. Empty: just a sign of life, which comes each second at least. */
	readonly calls: readonly LeaseCall[];
}

/** All numbers are whole, and only `held` may be negative. */
export interface LeaseCall {
	/** Of the ledger: 16 hexadecimal digits, with `s` before them for slots of `concurrency`. */
	readonly key: string;
	/** Tokens a second; 0: the ledger never fills by itself, its level is always `capacity`, and what is given back is what comes back (slots). */
	readonly rps: number;
	/** Tokens that the bucket holds at most; at most `MAX_CAPACITY`. */
	readonly capacity: number;
	/** Numbers the terms of this replica and key: it is another one after a time without answers, and `spent` begins at 0 again. */
	readonly term: number;
	/** Whether an answer has come in this term: then the ledger must have a record of this replica. */
	readonly known: boolean;
	/**
	 * Tokens that it has and keeps, less the allowance that it has without asking (docs/scaling.md): below 0, it has spent of the allowance,
	 * and wants to be given that back. Of slots: those that it has and keeps.
	 */
	readonly held: number;
	/** Tokens spent in this term, those of the allowance among them. */
	readonly spent: number;
	/** Tokens that it asks for. */
	readonly want: number;
}

export interface LeaseAnswer {
	/** The store's own time, milliseconds since the epoch. */
	readonly nowMs: number;
	/** Replicas that have given a sign of life in the last `REPLICA_MS`, this one included (unless it is leaving). */
	readonly replicas: number;
	/** When the registry was made, by the store's time: what is not there may have been lost before that. */
	readonly bornMs: number;
	/** In the order of the calls. */
	readonly grants: readonly LeaseGrant[];
}

export interface LeaseGrant {
	/** At most `want`. */
	readonly granted: number;
	/** `level - sum of out` after the grant, in whole tokens rounded down; may be negative. */
	readonly left: number;
}

/** Calls in a batch. */
export const MAX_CALLS = 1_000;
/** Tokens in a bucket: in millionths still a whole number of a double. */
export const MAX_CAPACITY = 2 ** 32;
/** A replica is counted so long after its last batch, ms. */
export const REPLICA_MS = 3_000;
/** A replica does not spend what was asked for longer ago than this, by its own clock, ms. */
export const LEASE_MS = 2_000;
/** The ledger forgets a replica's record so long after its last call, and counts what was out as spent (slots: as given back), ms. */
export const RECORD_MS = 3_000;
/** A ledger looks for such records this often at most, ms: then it reads all of them. */
export const SWEEP_MS = 1_000;

/*
 * One call, as the store does it (all in microseconds and millionths; `now` is the store's TIME):
 *
 *   if there is no ledger:   level = rps == 0 ? capacity : min(capacity, rps * max(0, now - born)); time = now; sum = 0; swept = now
 *   else if rps == 0:        level = capacity; time = now
 *   else:                    level = min(capacity, level + rps * max(0, now - time)); time = now
 *   if now - swept >= SWEEP_MS or now < swept:  swept = now; for each record r with now - r.stamp >= RECORD_MS (or r.stamp > now + RECORD_MS):
 *                            sum -= r.out; if rps > 0: level -= max(0, r.out); delete r
 *   r = this replica's record
 *   if r and seq <= r.seq:   answer granted 0                      -- older than what is known
 *   if r and r.term == term: sum -= r.out; if rps > 0: level -= max(0, spent - r.spent)
 *   else:
 *     if r:                  sum -= r.out; if rps > 0: level -= max(0, r.out)   -- the end of its last term was never reported
 *     if known:              level = min(level, sum + held)         -- the ledger has lost its record: nobody gets what may have been spent
 *     else if rps > 0:       level -= spent
 *   free = floor((level - sum - held) to whole tokens)
 *   granted = max(0, min(want, free));  out = held + granted;  sum += out
 *   if out == 0 and want == 0: delete r      else: r = { out, spent, seq, term, stamp: now }
 *   keep the ledger for max(RECORD_MS + SWEEP_MS, time until level == capacity) + 1 s
 *   answer granted, left = floor(level - sum)
 *
 * `born` is the batch's `bornMs` (0: the one of the registry step of this very batch, or `now` where that is not at hand).
 *
 * The registry: now = TIME; the replica's sign of life = now (or gone, if leaving); signs older than REPLICA_MS are deleted;
 * born = set to now where there is none (kept without end); answer now, number of signs, born.
 */
