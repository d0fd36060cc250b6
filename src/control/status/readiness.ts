/**
 * Whether new connections are welcome: what `/readyz` says. Not ready are a proxy that is still starting, one that is told
 * to stop, one that waits for the first keys of an issuer, and one whose workers have all died and are not replaced yet. Breakers do not count: upstreams that are down
 * are down for every instance, and the other routes of this one go on.
 */
export class Readiness {
	readonly #listening: () => number;
	readonly #awaited: () => Iterable<string>;
	readonly #remark: () => string | undefined;
	#phase: 'starting' | 'serving' | 'stopping' = 'starting';

	/**
	 * @param listening how many workers accept connections.
	 * @param awaited issuers of which there have been no keys yet: what other instances can verify, this one cannot.
	 * @param remark what is to be known of it besides, ready or not.
	 */
	constructor(
		listening: () => number,
		awaited: () => Iterable<string>,
		remark: () => string | undefined = () => undefined,
	) {
		this.#listening = listening;
		this.#awaited = awaited;
		this.#remark = remark;
	}

	/** The start is complete. */
	serving(): void {
		this.#phase = 'serving';
	}

	/** A signal has asked for the end; there is no way back. */
	stopping(): void {
		this.#phase = 'stopping';
	}

	/** What is to be known besides, in words: it decides nothing. */
	get remark(): string | undefined {
		return this.#remark();
	}

	/** Why it is not ready, in words; `undefined` when it is. */
	get obstacle(): string | undefined {
		if (this.#phase === 'starting') return 'starting';
		if (this.#phase === 'stopping') return 'shutting down';
		const [issuer] = this.#awaited();
		if (issuer !== undefined) return `no keys of ${issuer} yet`;
		return this.#listening() === 0 ? 'no worker accepts connections' : undefined;
	}
}
