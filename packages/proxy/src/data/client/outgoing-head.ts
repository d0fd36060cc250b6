/** Writes a request's head in the form of one protocol: `OutgoingHead` or `OutgoingBlock`. */
export interface HeadWriter {
	/**
	 * The whole head.
	 *
	 * @param versionAndHost the upstream's.
	 * @param tenant line.
	 * @param certificate lines about the client's certificate, or nothing.
	 * @param own lines specific to this request, such as its identifiers, or nothing.
	 * @param lines of the client that are forwarded.
	 * @param framing line, or nothing.
	 */
	write(
		method: string,
		target: string,
		versionAndHost: string,
		tenant: string,
		certificate: string,
		own: string,
		lines: string,
		framing: string,
	): string;
}

/** As HTTP/1.1 text. */
export class OutgoingHead implements HeadWriter {
	readonly #forwarded: string;

	constructor(forwarded: string) {
		this.#forwarded = forwarded;
	}

	write(
		method: string,
		target: string,
		versionAndHost: string,
		tenant: string,
		certificate: string,
		own: string,
		lines: string,
		framing: string,
	): string {
		return `${method} ${target}${versionAndHost}${own}${this.#forwarded}${tenant}${certificate}${lines}${framing}\r\n`;
	}
}

/** Rest of the request line, and the `Host` line: the same for every request to one upstream. */
export function versionAndHost(authority: string): string {
	return ` HTTP/1.1\r\nhost: ${authority}\r\n`;
}
