/** The content of a PROXY header. */
export interface ProxyHeader {
	/** Length in bytes; the client's bytes follow. */
	readonly length: number;
	/** The client's IP; `undefined`: the connection is the balancer's own (LOCAL), or the balancer does not know the client. */
	readonly client: string | undefined;
}

/** Why the first bytes are not a valid header. */
export type HeaderFault = 'no PROXY header' | 'bad PROXY header';
