/** A sampled request, sent from the worker that served it to the main thread, which exports it. Plain data. */
export interface SpanRecord {
	/** 32 hexadecimal digits. */
	readonly traceId: string;
	/** 16 hexadecimal digits, like `parentId`. */
	readonly spanId: string;
	readonly parentId: string | undefined;
	readonly flags: number;
	/** Wall-clock milliseconds since 1970, with a fraction. */
	readonly startMs: number;
	readonly durationMs: number;
	/** Empty if the request line could not be read. */
	readonly method: string;
	/** Without the query; cut at `MAX_PATH`. */
	readonly path: string;
	/** 0: the client left before it had a response. */
	readonly status: number;
	/** Of a gRPC call. */
	readonly grpcStatus: number | undefined;
	readonly ending: 'complete' | 'client gone' | 'broken off';
	/** Code and reason of the refusal, or of why the proxy broke off a response. */
	readonly refused: string | undefined;
	readonly reason: string | undefined;
	readonly protocol: 'http/1.1' | 'h2';
	/** The client's IP. */
	readonly client: string;
	readonly route: string | undefined;
	/** `host:port`. */
	readonly upstream: string | undefined;
	/** `undefined` also if spans must not name tenants. */
	readonly tenant: string | undefined;
	/** How often the request was sent to an upstream. */
	readonly attempts: number;
	/** Bytes of bodies. */
	readonly bytesIn: number;
	readonly bytesOut: number;
	readonly events: readonly SpanEvent[];
}

/** The verdict of a gate. */
export interface SpanEvent {
	readonly gate: string;
	/** Milliseconds since the start of the span. */
	readonly afterMs: number;
	/** Code and reason of the refusal; absent: the gate was passed. */
	readonly refused?: string;
	readonly reason?: string;
}

/** Characters of a path: a waiting span has a few KiB at most. */
export const MAX_PATH = 1024;
