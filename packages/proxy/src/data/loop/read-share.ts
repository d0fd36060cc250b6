import { TokenBucket } from '../../shared/token-bucket.ts';

/**
 * Limits the part of a worker that a client may use before its requests are charged. The unit is a token: about a microsecond of the worker.
 *
 * Every read, frame and head costs its connection tokens. A request that is charged to its tenant gives back the tokens of its head, so
 * honest traffic costs next to nothing. A connection spends its own allowance first, then the share of its certificate. If
 * both are empty, the connection is read later (`PacedReads`).
 *
 * So the work that a certificate causes is bounded, however many connections it has open: `SHARE`, `ALLOWANCES` and, once for each new
 * connection, whose handshake costs more, the burst of `ALLOWANCE`. The debt of a connection that ends passes to its certificate.
 */

/** A connection's own tokens: the maximum, and how many return per millisecond. Enough for four hundred frames or forty heads. */
export const ALLOWANCE = { burst: 500, perMs: 1 } as const;
/**
 * Tokens of a certificate in each worker. The burst bounds its part of a turn of the event loop to a millisecond, the rate bounds
 * its part of the worker to a tenth.
 */
export const SHARE = { burst: 1_000, perMs: 100 } as const;
/** What the allowances of a certificate's connections return together: as much as those of 32 connections. */
export const ALLOWANCES = { burst: 32 * ALLOWANCE.burst, perMs: 32 * ALLOWANCE.perMs } as const;

/** The share of one peer in this worker: a client's certificate, or an address of an upstream. */
export class PeerShare extends TokenBucket {
	connections = 0;
	readonly #allowances = new TokenBucket(ALLOWANCES.burst, 1000 * ALLOWANCES.perMs);

	constructor() {
		super(SHARE.burst, 1000 * SHARE.perMs);
	}

	allow(wanted: number, now: number): number {
		return this.#allowances.takeSome(wanted, now);
	}
}

/** The tokens of one connection: its allowance, then the share of its certificate. */
export class ConnectionShare {
	readonly #certificate: PeerShare;
	/** Negative: a debt, which is paid before the connection is read again. */
	#tokens: number = ALLOWANCE.burst;
	#at = Number.NEGATIVE_INFINITY;
	/** Returns at the end of the turn. */
	#lent = 0;

	constructor(certificate: PeerShare) {
		this.#certificate = certificate;
	}

	/** Whether the connection has spent more than its own tokens; `settle` says whether its certificate pays. */
	get isOverdrawn(): boolean {
		return this.#tokens < 0;
	}

	spend(tokens: number): void {
		this.#tokens -= tokens;
	}

	/** Gives back tokens for work that the client was entitled to. */
	release(tokens: number): void {
		this.#tokens += tokens;
		if (this.#tokens <= ALLOWANCE.burst) return;
		this.#certificate.release(this.#tokens - ALLOWANCE.burst);
		this.#tokens = ALLOWANCE.burst;
	}

	/** The connection has ended: the others pay its debt. */
	leave(): void {
		this.endTurn();
		if (this.isOverdrawn) this.#certificate.spend(-this.#tokens);
		this.#tokens = 0;
	}

	/** Spends for this turn only. @returns whether this is the first time in the turn; the caller must then arrange for `endTurn`. */
	lend(tokens: number): boolean {
		const isFirst = this.#lent === 0;
		this.#tokens -= tokens;
		this.#lent += tokens;
		return isFirst;
	}

	endTurn(): void {
		const lent = this.#lent;
		this.#lent = 0;
		this.release(lent);
	}

	/**
	 * Pays a debt from the tokens returned since the last call and from the certificate's share.
	 *
	 * @param now monotonic milliseconds.
	 * @param needed tokens that the connection must have afterwards.
	 * @returns whether it has them; otherwise it must be read later.
	 */
	settle(now: number, needed = 0): boolean {
		// At the first call no time has passed.
		const due = this.#at === Number.NEGATIVE_INFINITY ? 0 : (now - this.#at) * ALLOWANCE.perMs;
		if (due > 0) {
			const missing = Math.max(0, ALLOWANCE.burst - this.#tokens);
			this.#tokens = Math.min(ALLOWANCE.burst, this.#tokens + this.#certificate.allow(Math.min(due, missing), now));
		}
		if (now > this.#at) this.#at = now;
		if (this.#tokens < needed) this.#tokens += this.#certificate.takeSome(needed - this.#tokens, now);
		return this.#tokens >= needed;
	}
}

/** The shares of all certificates that have connections to this worker, or left with a debt, by thumbprint. */
export class CertificateShares {
	readonly #shares = new Map<string, PeerShare>();
	/** Thumbprints whose last connection left a debt, oldest first. */
	readonly #owing = new Set<string>();

	get size(): number {
		return this.#shares.size;
	}

	/** A connection with this certificate begins; call `leave` at its end. */
	enter(thumbprint: string): PeerShare {
		this.#owing.delete(thumbprint);
		let share = this.#shares.get(thumbprint);
		if (share === undefined) {
			share = new PeerShare();
			this.#shares.set(thumbprint, share);
		}
		share.connections++;
		return share;
	}

	/**
	 * A share is forgotten with its last connection, or when its debt is paid: a client cannot leave a debt behind by connecting again.
	 *
	 * @param now monotonic milliseconds.
	 */
	leave(thumbprint: string, now: number): void {
		const share = this.#shares.get(thumbprint);
		if (share !== undefined && --share.connections === 0) this.#owing.add(thumbprint);
		for (const owing of this.#owing) {
			// A large debt keeps the later ones in memory until it is paid.
			if (!this.#shares.get(owing)!.settle(now)) return;
			this.#owing.delete(owing);
			this.#shares.delete(owing);
		}
	}
}
