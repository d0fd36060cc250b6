import type { IssuerSeed } from '@mtls-edge-proxy/gate/identity/issuer.ts';

/** What readiness depends on, read each time. */
interface ReadinessSources {
	/** How many workers accept connections. */
	readonly listening: () => number;
	/** Issuers without keys so far: other instances may verify tokens that this one cannot. */
	readonly awaited: () => Iterable<string>;
	/** The issuers that the workers trust, with their keys. */
	readonly issuers: () => readonly Pick<IssuerSeed, 'issuer' | 'keys'>[];
	/** An addition to the response, ready or not. */
	readonly remark: () => string | undefined;
}

/** A phase of the process's life. A signal begins the last one. */
export type Phase = 'starting' | 'serving' | 'stopping';

/**
 * Whether the proxy wants new connections: the response of `/readyz`. A proxy is not ready while it starts or stops, while it waits
 * for the first keys of an issuer, when no issuer has keys any more, or when it has no worker. Breakers do not count: upstreams
 * that are down are down for every instance, and the other routes of this one still work. For the same reason an issuer whose keys
 * were dropped is only a remark as long as another one has keys.
 */
export class Readiness {
	readonly #sources: ReadinessSources;
	#phase: Phase = 'starting';

	constructor(sources: ReadinessSources) {
		this.#sources = sources;
	}

	/** The start is complete. */
	serving(): void {
		this.#phase = 'serving';
	}

	/** A signal has asked for the end; this is final. */
	stopping(): void {
		this.#phase = 'stopping';
	}

	get phase(): Phase {
		return this.#phase;
	}

	/** Additional information, in words. It does not affect readiness. */
	get remark(): string | undefined {
		const without = this.obstacle === undefined ? this.#withoutKeys() : [];
		const remarks = [without[0] && noKeysOf(without[0]), this.#sources.remark()].filter((one) => one !== undefined);
		return remarks.length === 0 ? undefined : remarks.join('; ');
	}

	/** Why it is not ready, in words; `undefined` when it is. */
	get obstacle(): string | undefined {
		if (this.#phase === 'starting') return 'starting';
		if (this.#phase === 'stopping') return 'shutting down';
		const [issuer] = this.#sources.awaited();
		if (issuer !== undefined) return `no keys of ${issuer} yet`;
		const without = this.#withoutKeys();
		if (without[0] !== undefined && without.length === this.#sources.issuers().length) return noKeysOf(without[0]);
		return this.#sources.listening() === 0 ? 'no worker accepts connections' : undefined;
	}

	#withoutKeys(): string[] {
		return this.#sources.issuers().flatMap(({ issuer, keys }) => (keys === undefined ? [issuer ?? 'the issuer'] : []));
	}
}

function noKeysOf(issuer: string): string {
	return `no keys of ${issuer}`;
}
