/** What a PROXY header says. */
export interface ProxyHeader {
	/** Bytes. What follows them is the client's. */
	readonly length: number;
	/** The client's IP; `undefined`: the connection is the balancer's own (LOCAL), or it does not know whose it is. */
	readonly client: string | undefined;
}

/** What stands there instead of a header. */
export type HeaderFault = 'no PROXY header' | 'bad PROXY header';
