/** A response from the proxy itself. */
export interface OwnResponse {
	readonly status: number;
	/** Flat list of names and values, without `content-type` and `content-length`. */
	readonly headers: readonly string[];
	readonly contentType: string;
	readonly body: string;
}

/**
 * Refusals are data: this one table has every response of the proxy itself. A gate returns one of these values, or the
 * narrower type that it has established. Only the data plane turns them into bytes.
 */
export class Rejection {
	/** Stable identifier, safe to assert in tests and to print in logs. */
	readonly code: string;
	readonly status: number;
	readonly body: string;
	/** Flat list of header names and values beyond `content-type` and `content-length`. */
	readonly headers: readonly string[];
	/**
	 * Whether an HTTP/1.1 connection must not be reused: the message's end on the wire is uncertain (RFC 9112 section 6.3), or its
	 * sender is hostile.
	 */
	readonly closes: boolean;
	/**
	 * For operators only: the failed check, in a few words (`expired 12 s ago`, `two content-lengths`). It is never sent to clients,
	 * and never quotes what the client sent.
	 */
	readonly reason: string | undefined;

	constructor(
		code: string,
		status: number,
		body: string,
		headers: readonly string[] = [],
		closes = false,
		reason?: string,
	) {
		this.code = code;
		this.status = status;
		this.body = body;
		this.headers = headers;
		this.closes = closes;
		this.reason = reason;
		Object.freeze(this);
	}

	/** The same refusal with a reason. If the reason is fixed, create it only once. */
	because(reason: string): Rejection {
		return new Rejection(this.code, this.status, this.body, this.headers, this.closes, reason);
	}

	/** The same refusal with these headers in place of its own. */
	withHeaders(headers: readonly string[]): Rejection {
		return new Rejection(this.code, this.status, this.body, headers, this.closes, this.reason);
	}

	/** The response to a plain HTTP request. */
	get response(): OwnResponse {
		const { status, headers, body } = this;
		return { status, headers, contentType: 'text/plain; charset=utf-8', body };
	}

	/** Whether the two are the same refusal, whatever their reasons. */
	is(other: Rejection): boolean {
		return this.code === other.code;
	}
}

// RFC 6750 section 3: a refusal for lack of a valid token names the scheme. Clients do not learn which check failed.
const CHALLENGE = ['www-authenticate', 'Bearer'] as const;
const RETRY = ['retry-after', '1'] as const;

/** No `Authorization` header at all; only the metric's `reason` distinguishes it from `TOKEN_INVALID`. */
export const TOKEN_MISSING = new Rejection('token-missing', 401, 'unauthorized', CHALLENGE, false, 'no token');
export const TOKEN_INVALID = new Rejection('token-invalid', 401, 'unauthorized', CHALLENGE);
export const RATE_LIMITED = new Rejection('rate-limited', 429, 'rate limited', RETRY);
export const BAD_REQUEST = new Rejection('bad-request', 400, 'bad request', [], true);
export const BAD_PATH = new Rejection('bad-path', 400, 'bad path', [], true);
export const BODY_ERROR = new Rejection('body-error', 400, 'body error', [], true);
/** The route's rules about names in certificates refuse it. Only the metric distinguishes it from `TENANT_FORBIDDEN`; clients cannot. */
export const CERTIFICATE_FORBIDDEN = new Rejection('certificate-forbidden', 403, 'forbidden');
export const TENANT_FORBIDDEN = new Rejection('tenant-forbidden', 403, 'forbidden', [], false, 'tenant');
/** RFC 6750 section 3.1; `insufficientScope` also names the required scopes. */
export const INSUFFICIENT_SCOPE = new Rejection('insufficient-scope', 403, 'insufficient scope', [
	'www-authenticate',
	'Bearer error="insufficient_scope"',
]);
export const NO_ROUTE = new Rejection('no-route', 404, 'no route');
// RFC 9110 section 15.5.6: a 405 lists the allowed methods; the upstream decides about all others.
export const METHOD_NOT_ALLOWED = new Rejection('method-not-allowed', 405, 'method not allowed', [
	'allow',
	'GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS',
]);
export const SLOW_CLIENT = new Rejection('slow-client', 408, 'slow client', [], true);
export const PAYLOAD_TOO_LARGE = new Rejection('payload-too-large', 413, 'payload too large', [], true);
export const HEADERS_TOO_LARGE = new Rejection('headers-too-large', 431, 'headers too large', [], true);
export const INTERNAL_ERROR = new Rejection('internal-error', 500, 'internal error');
export const UPGRADE_UNSUPPORTED = new Rejection('upgrade-unsupported', 501, 'protocol upgrades are not supported');
// RFC 9110 section 9.1. In HTTP/1.1 the parser stops after such a method.
export const METHOD_NOT_IMPLEMENTED = new Rejection('method-not-implemented', 501, 'method not implemented', [], true);
export const BAD_GATEWAY = new Rejection('bad-gateway', 502, 'bad gateway');
export const UPSTREAM_UNAVAILABLE = new Rejection('upstream-unavailable', 503, 'upstream unavailable');
export const OVERLOADED = new Rejection('overloaded', 503, 'overloaded', RETRY);
export const UPSTREAM_TIMEOUT = new Rejection('upstream-timeout', 504, 'upstream timeout');

/** @param scopes all that a route requires, scope-tokens of RFC 6749 section 3.3. Call it once for each route. */
export function insufficientScope(scopes: readonly string[]): Rejection {
	const { code, status, body } = INSUFFICIENT_SCOPE;
	const challenge = `Bearer error="insufficient_scope", scope="${scopes.join(' ')}"`;
	return new Rejection(code, status, body, ['www-authenticate', challenge], false, 'scope');
}
