import { grpcStatusOf as codeOf } from '../gates/grpc.ts';
import { type Rejection, TOKEN_INVALID, TOKEN_MISSING } from '../gates/rejection.ts';

/** The complete response to a refused request. */
export interface Refusal {
	/** Stable, for logs and metrics. The response itself does not tell a missing token from an invalid one. */
	readonly code: 'token-missing' | 'token-invalid' | 'insufficient-scope' | 'rate-limited';
	readonly status: 401 | 403 | 429;
	/** All headers of the response, names in lower case, with `content-type` and `content-length`. */
	readonly headers: Readonly<Record<string, string>>;
	/** ASCII. */
	readonly body: string;
	/**
	 * For operators only: the check that failed, in a few words, if known (`expired 12 s ago`). Do not send it to the client: it tells
	 * an attacker how far a token got. It is not enumerable, so that it is not serialised with the object.
	 */
	readonly reason: string | undefined;
}

/**
 * The gRPC status code of a refusal, the same that the proxy sends: UNAUTHENTICATED (16) for 401, PERMISSION_DENIED (7) for 403,
 * RESOURCE_EXHAUSTED (8) for 429. Connect uses the same numbers.
 */
export function grpcStatusOf({ status }: Pick<Refusal, 'status'>): number {
	return codeOf({ status });
}

/**
 * A refusal as an error, for a framework's error handler: throw it from `onRefused`, or pass it to `next`. Frameworks build the
 * response from its members. None of them tells a missing token from an invalid one.
 */
export class RefusedError extends Error {
	override readonly name = 'RefusedError';
	readonly code = 'ERR_GATE_REFUSED';
	readonly status: Refusal['status'];
	readonly statusCode: Refusal['status'];
	/** Headers for the response besides those of its body: `www-authenticate` or `retry-after`. */
	readonly headers: Readonly<Record<string, string>>;
	/** The message may be shown. */
	readonly expose = true;
	/** Not enumerable, because its `reason` is for operators only. */
	declare readonly refusal: Refusal;

	constructor(refusal: Refusal) {
		super(refusal.body);
		this.status = refusal.status;
		this.statusCode = refusal.status;
		this.headers = signalHeaders(refusal);
		Object.defineProperty(this, 'refusal', { value: refusal });
	}

	/** Hono's default error handler calls it. */
	getResponse(): Response {
		return responseTo(this.refusal);
	}
}

/**
 * The gate's own response as a web-standard `Response`.
 *
 * @internal
 */
export function responseTo({ status, headers, body }: Refusal): Response {
	return new Response(body, { status, headers });
}

/**
 * The response of the hook `onRefused`, or the gate's own if the hook gives none: a router would call its next handler, and Hono would
 * answer 404. Rejects only with an `Error` of the hook; frameworks take other values for no error.
 *
 * @internal
 */
export async function responseBy(refusal: Refusal, hook: () => Promise<unknown>): Promise<Response> {
	try {
		const response = await hook();
		// By its shape, because a process may have several implementations of `Response`.
		const isResponse =
			typeof response === 'object' && response !== null && 'status' in response && 'headers' in response;
		return isResponse ? (response as Response) : responseTo(refusal);
	} catch (error) {
		if (error instanceof Error) throw error;
		return responseTo(refusal);
	}
}

/**
 * The headers that belong to the status, without those that describe the body.
 *
 * @internal
 */
export function signalHeaders({ headers }: Refusal): Record<string, string> {
	const { 'content-type': _type, 'content-length': _length, ...rest } = headers;
	return rest;
}

type RefusalVerdict = { readonly ok: false; readonly refusal: Refusal };

const VERDICTS = new Map(
	[TOKEN_MISSING, TOKEN_INVALID].map((rejection) => {
		const { code, headers } = rejection;
		return [code, { headers, verdict: verdictOn(rejection) }] as const;
	}),
);

/**
 * Only the verdicts about a token itself are cached: reasons differ between requests, and so can headers (what is left of a limit, which
 * scopes are required).
 *
 * @param rejection one that the gate can give, with its own reason or another one.
 *
 * @internal
 */
export function refused(rejection: Rejection): RefusalVerdict {
	const known = VERDICTS.get(rejection.code);
	if (known?.headers !== rejection.headers) return verdictOn(rejection);
	const { verdict } = known;
	const { reason } = rejection;
	return reason === verdict.refusal.reason ? verdict : withReason(verdict.refusal, reason);
}

function verdictOn({ code, status, body, headers, reason }: Rejection): RefusalVerdict {
	const all: Record<string, string> = {
		'content-type': 'text/plain; charset=utf-8',
		'content-length': String(Buffer.byteLength(body)),
	};
	for (let i = 0; i < headers.length; i += 2) all[headers[i]!] = headers[i + 1]!;
	return withReason({ code, status, headers: Object.freeze(all), body } as Refusal, reason);
}

function withReason({ code, status, headers, body }: Refusal, reason: string | undefined): RefusalVerdict {
	const refusal = Object.defineProperty({ code, status, headers, body }, 'reason', { value: reason }) as Refusal;
	return Object.freeze({ ok: false, refusal: Object.freeze(refusal) });
}
