import type { Arrival, Forwarding } from '../../gates/forwarding.ts';
import type { RequestHead } from '../../gates/headers.ts';
import { versionAndHost } from '../client/outgoing-head.ts';

/**
 * The text with which a route with a `Forwarding` replaces the upstream's `versionAndHost` and the client's lines. It is mostly the
 * same for all requests of a connection, so the last one is kept.
 */
export class RewrittenHead {
	versionAndHost = '';
	lines = '';
	#forwarding: Forwarding | undefined;
	#upstream = '';
	#authority: string | undefined;
	#head: RequestHead | undefined;

	/**
	 * Recomputes the text if an input has changed.
	 *
	 * @param upstream its `versionAndHost`.
	 * @param authority that the client asked for.
	 */
	update(
		forwarding: Forwarding,
		upstream: string,
		authority: string | undefined,
		head: RequestHead,
		arrival: Arrival,
	): void {
		const isSameRoute = forwarding === this.#forwarding;
		if (!isSameRoute || upstream !== this.#upstream || authority !== this.#authority) {
			const host = forwarding.host(authority);
			const start = host === undefined ? upstream : versionAndHost(host);
			this.versionAndHost = `${start}${forwarding.lines(authority, arrival)}`;
		}
		if (!isSameRoute || head !== this.#head) this.lines = forwarding.linesOf(head);
		this.#forwarding = forwarding;
		this.#upstream = upstream;
		this.#authority = authority;
		this.#head = head;
	}
}
