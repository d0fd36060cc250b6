import { grpcStatusOf as codeOf } from '../gates/grpc.ts';
import { type Rejection, TOKEN_INVALID, TOKEN_MISSING } from '../gates/rejection.ts';

/** The answer to a request that the gate does not let through, ready to send. */
export interface Refusal {
	/** Stable; for logs and metrics. Callers are not told a missing token from an invalid one. */
	readonly code: 'token-missing' | 'token-invalid' | 'insufficient-scope' | 'rate-limited';
	readonly status: 401 | 403 | 429;
	/** All of the answer's own headers, lower case, `content-type` and `content-length` among them. */
	readonly headers: Readonly<Record<string, string>>;
	/** ASCII. */
	readonly body: string;
	/**
	 * For operators alone: which check has failed, in a few words, where that is known (`expired 12 s ago`). Do not send it: it
	 * tells an attacker how far a token got. It is not enumerable, so that it does not go out with the rest of the object.
	 */
	readonly reason: string | undefined;
}

/**
 * The status code of gRPC that a refusal is to a call, as the proxy answers it: UNAUTHENTICATED (16) for 401, PERMISSION_DENIED (7) for 403,
 * RESOURCE_EXHAUSTED (8) for 429. The codes of Connect have the same numbers.
 */
export function grpcStatusOf({ status }: Pick<Refusal, 'status'>): number {
	return codeOf({ status });
}

/**
 * A refusal as an error, for a framework's own error handler: throw it from `onRefused`, or give it to `next`. It has the members
 * that frameworks take an answer from. None of them tells a missing token from an invalid one.
 */
export class RefusedError extends Error {
	override readonly name = 'RefusedError';
	readonly code = 'ERR_GATE_REFUSED';
	readonly status: Refusal['status'];
	readonly statusCode: Refusal['status'];
	/** What the answer should have beside its body: `www-authenticate` or `retry-after`. */
	readonly headers: Readonly<Record<string, string>>;
	/** The message may be shown. */
	readonly expose = true;
	/** Not enumerable, since its `reason` is for operators alone. */
	declare readonly refusal: Refusal;

	constructor(refusal: Refusal) {
		super(refusal.body);
		this.status = refusal.status;
		this.statusCode = refusal.status;
		this.headers = signalHeaders(refusal);
		Object.defineProperty(this, 'refusal', { value: refusal });
	}

	/** For Hono, whose default error handler asks for it. */
	getResponse(): Response {
		return responseTo(this.refusal);
	}
}

/**
 * The gate's own answer as a web-standard response.
 *
 * @internal
 */
export function responseTo({ status, headers, body }: Refusal): Response {
	return new Response(body, { status, headers });
}

/**
 * What a hook gives as a response; several implementations may live in a process.
 *
 * @internal
 */
export function isResponse(value: unknown): value is Response {
	return typeof value === 'object' && value !== null && 'status' in value && 'headers' in value;
}

/**
 * The headers that say what the status means, without those that describe the body.
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
 * @param rejection one of those that the gate can give, with its own reason or another one. Reasons may differ from
 *   request to request, and so may headers (what is left of a limit, which scopes are needed), so only the verdicts on a token itself
 *   are kept.
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
