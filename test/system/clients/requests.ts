/** What the clients send. The programs in other languages repeat it. */

/** Outcome of one request: status and SHA-256 (hexadecimal) of a complete response, or why there is none. */
export interface Report {
	/** Method and path. */
	readonly request: string;
	readonly status?: number;
	/** Absent if the client does not expose the body. */
	readonly digest?: string;
	readonly error?: string;
}

/** The body of a POST in an exchange. */
export const MIB: Buffer = Buffer.from(Uint8Array.from({ length: 1 << 20 }, (_, i) => i % 251));
/** The body of a POST in a drain: it fits into a stream's first window. */
export const SMALL: Buffer = MIB.subarray(0, 16_384);

export const EXCHANGE: readonly string[] = [
	'GET /mib',
	'POST /echo',
	...Array.from({ length: 200 }, (_, i) => `GET /n/${i}`),
];
export const HELD: readonly string[] = ['GET /held/0', 'GET /held/1', 'POST /held/2', 'POST /held/3'];
