import type { Arrival, Forwarding } from '../../gates/forwarding.ts';
import type { RequestHead } from '../../gates/headers.ts';

/** Writes a request's head in the form of one protocol: `OutgoingHead` or `OutgoingBlock`. */
export interface HeadWriter {
	write(
		method: string,
		target: string,
		versionAndHost: string,
		tenant: string,
		certificate: string,
		own: string | undefined,
		lines: string,
		framing: string,
	): string;
}

/**
 * What of a request's head follows its target on the way to the upstream. The requests of a connection mostly differ in their
 * targets alone, so the rest of the last head is kept, in one piece: V8 would put its pieces together for each write.
 */
export class OutgoingHead implements HeadWriter {
	readonly #forwarded: string;
	#versionAndHost = '';
	#tenant = '';
	#certificate = '';
	#lines = '';
	#framing = '';
	#text = '';
	#isFlat = false;

	/** @param forwarded lines of the connection. */
	constructor(forwarded: string) {
		this.#forwarded = forwarded;
	}

	/**
	 * The whole head.
	 *
	 * @param own lines that each request may have others of, such as its identifiers; `undefined`: there are none, and all requests go
	 *   to one upstream.
	 */
	write(
		method: string,
		target: string,
		versionAndHost: string,
		tenant: string,
		certificate: string,
		own: string | undefined,
		lines: string,
		framing: string,
	): string {
		if (own === undefined) {
			return `${method} ${target}${this.behindTarget(versionAndHost, tenant, certificate, lines, framing)}`;
		}
		// What differs with each request, as the upstream may, too, goes in front of what is remembered.
		return `${method} ${target}${versionAndHost}${own}${this.behindTarget('', tenant, certificate, lines, framing)}`;
	}

	/**
	 * @param versionAndHost the upstream's.
	 * @param tenant line.
	 * @param certificate lines about the client's certificate, or nothing.
	 * @param lines of the client's that are forwarded.
	 * @param framing line, or nothing.
	 */
	behindTarget(versionAndHost: string, tenant: string, certificate: string, lines: string, framing: string): string {
		// Lines last: two of one length are put together to be compared.
		const isLast =
			tenant === this.#tenant &&
			certificate === this.#certificate &&
			versionAndHost === this.#versionAndHost &&
			framing === this.#framing &&
			lines === this.#lines;
		if (!isLast) {
			this.#versionAndHost = versionAndHost;
			this.#tenant = tenant;
			this.#certificate = certificate;
			this.#lines = lines;
			this.#framing = framing;
			this.#text = `${versionAndHost}${this.#forwarded}${tenant}${certificate}${lines}${framing}\r\n`;
			this.#isFlat = false;
		} else if (!this.#isFlat) {
			this.#text = Buffer.from(this.#text, 'latin1').toString('latin1');
			this.#isFlat = true;
		}
		return this.#text;
	}
}

/**
 * What a route with a `Forwarding` puts in the place of the upstream's `versionAndHost` and of the client's lines. Requests of a
 * connection mostly have it in common, so that of the last one is kept.
 */
export class RewrittenHead {
	versionAndHost = '';
	lines = '';
	#forwarding: Forwarding | undefined;
	#upstream = '';
	#authority: string | undefined;
	#head: RequestHead | undefined;

	/**
	 * Works it out anew where something differs.
	 *
	 * @param upstream its `versionAndHost`.
	 * @param authority what the client asked for.
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

/** Rest of the request line, and the `Host` line: the same for every request to one upstream. */
export function versionAndHost(authority: string): string {
	return ` HTTP/1.1\r\nhost: ${authority}\r\n`;
}
