/**
 * How much of a worker a client may have without being owed it. The unit is a token: about a microsecond of the worker's time.
 *
 * Every read, frame and head costs its connection tokens. A request that its tenant pays for gives back the tokens of its head, so
 * honest traffic costs next to nothing. A connection spends its own allowance first, then the share of its certificate. Where
 * both are empty, the connection is read later (`PacedReads`).
 *
 * So the work that a certificate causes is bounded, however many connections it has open: `SHARE` and one `ALLOWANCE` a
 * connection. A connection that stays within its allowance is not delayed by others of its certificate.
 */

/** A connection's own tokens: at most so many, and so many come back in a millisecond. Four hundred frames, or forty heads. */
export const ALLOWANCE = { burst: 500, perMs: 1 } as const;
/**
 * Tokens of a certificate in each worker. The burst bounds its part of a turn of the event loop to a millisecond, the rate bounds
 * its part of the worker to a tenth.
 */
export const SHARE = { burst: 1_000, perMs: 100 } as const;

/** The share of one certificate in this worker. */
export class CertificateShare {
	/** Live connections. */
	connections = 0;
	#tokens: number = SHARE.burst;
	#at = Number.NEGATIVE_INFINITY;

	/** @param now monotonic milliseconds. @returns how many of the `wanted` tokens there are; they are taken. */
	take(wanted: number, now: number): number {
		this.#tokens = refilled(this.#tokens, now - this.#at, SHARE);
		if (now > this.#at) this.#at = now;
		const taken = Math.min(wanted, this.#tokens);
		this.#tokens -= taken;
		return taken;
	}

	release(tokens: number): void {
		this.#tokens = Math.min(SHARE.burst, this.#tokens + tokens);
	}
}

/** What one connection may cost: its allowance, and behind it the share of its certificate. */
export class ConnectionShare {
	readonly #certificate: CertificateShare;
	/** Negative: a debt, which is paid before the connection is read again. */
	#tokens: number = ALLOWANCE.burst;
	#at = Number.NEGATIVE_INFINITY;
	/** Comes back at the end of the turn. */
	#lent = 0;

	constructor(certificate: CertificateShare) {
		this.#certificate = certificate;
	}

	/** More has been spent than the connection has of its own; `settle` says whether its certificate pays. */
	get isOverdrawn(): boolean {
		return this.#tokens < 0;
	}

	spend(tokens: number): void {
		this.#tokens -= tokens;
	}

	/** What was spent turned out to be owed to the client. */
	release(tokens: number): void {
		this.#tokens += tokens;
		if (this.#tokens <= ALLOWANCE.burst) return;
		this.#certificate.release(this.#tokens - ALLOWANCE.burst);
		this.#tokens = ALLOWANCE.burst;
	}

	/** Spends for this turn only. @returns whether it is the first time in the turn: then `endTurn` is to be called. */
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
	 * Pays a debt, by what has come back since the last time and by the certificate's share.
	 *
	 * @param now monotonic milliseconds.
	 * @param needed tokens that the connection has to have afterwards.
	 * @returns whether it has them; otherwise it is to be read later.
	 */
	settle(now: number, needed = 0): boolean {
		this.#tokens = refilled(this.#tokens, now - this.#at, ALLOWANCE);
		if (now > this.#at) this.#at = now;
		if (this.#tokens < needed) this.#tokens += this.#certificate.take(needed - this.#tokens, now);
		return this.#tokens >= needed;
	}
}

/** The shares of all certificates that have connections to this worker, by thumbprint. */
export class CertificateShares {
	readonly #shares = new Map<string, CertificateShare>();

	get size(): number {
		return this.#shares.size;
	}

	/** A connection with this certificate begins; `leave` is to be called at its end. */
	enter(thumbprint: string): CertificateShare {
		let share = this.#shares.get(thumbprint);
		if (share === undefined) {
			share = new CertificateShare();
			this.#shares.set(thumbprint, share);
		}
		share.connections++;
		return share;
	}

	/** Behind the last connection a share is forgotten: within milliseconds it would be full again. */
	leave(thumbprint: string): void {
		const share = this.#shares.get(thumbprint);
		if (share !== undefined && --share.connections === 0) this.#shares.delete(thumbprint);
	}
}

function refilled(tokens: number, ms: number, { burst, perMs }: { burst: number; perMs: number }): number {
	// The first call, at which no time has passed, finds what a new one has.
	if (!(ms > 0 && ms < Number.POSITIVE_INFINITY)) return tokens;
	return Math.min(burst, tokens + ms * perMs);
}
