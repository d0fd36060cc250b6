import { type Admission, REFUSED } from '../../gates/breaker.ts';
import type { Upstream } from '../plane.ts';

/** The addresses among which a route's requests are spread, each behind a breaker of its own. */
export class UpstreamGroup {
	/** Of its `[[upstreams]]`; `undefined`: a route's URL. */
	readonly name: string | undefined;
	readonly upstreams: readonly Upstream[];
	/** Where there is nothing to choose. */
	readonly only: Upstream | undefined;
	/** What the breaker of the upstream that `admit` has chosen last was promised a report on. */
	admission: Admission | typeof REFUSED = REFUSED;
	#next = 0;

	constructor(name: string | undefined, upstreams: readonly Upstream[]) {
		this.name = name;
		this.upstreams = upstreams;
		this.only = upstreams.length === 1 ? upstreams[0] : undefined;
	}

	/**
	 * Chooses the upstream for one request. It may spend the one probe of a half-open breaker; what is admitted must be reported.
	 *
	 * @param now monotonic milliseconds.
	 * @returns `undefined`: no breaker admits it.
	 */
	admit(now: number, cooldownMs: number): Upstream | undefined {
		const { only } = this;
		if (only === undefined) return this.#choose(now, cooldownMs);
		this.admission = only.breaker.admit(now, cooldownMs);
		return this.admission === REFUSED ? undefined : only;
	}

	#choose(now: number, cooldownMs: number): Upstream | undefined {
		const { upstreams } = this;
		for (let asked = 0; asked < upstreams.length; asked++) {
			const upstream = upstreams[this.#next]!;
			this.#next = (this.#next + 1) % upstreams.length;
			this.admission = upstream.breaker.admit(now, cooldownMs);
			if (this.admission !== REFUSED) return upstream;
		}
		return undefined;
	}
}
