/** What can be wrong with how the gate is used. Codes are stable; messages are for people and may change. */
export type GateErrorCode =
	/** `jwtPublicKey` is not one RSA public key of at least 2048 bits with a public exponent of at least 65537. */
	| 'ERR_GATE_PUBLIC_KEY'
	/** `issuer` is neither a non-empty string nor `null`. */
	| 'ERR_GATE_ISSUER'
	/** `audience` is neither a non-empty string nor `null`. */
	| 'ERR_GATE_AUDIENCE'
	/** `issuers` cannot be used as they are: the message names the one and the option. */
	| 'ERR_GATE_ISSUERS'
	/** `tenantRps` is there, and is not a whole number from 0 to 1,000,000. */
	| 'ERR_GATE_TENANT_RPS'
	/** `revoked`, or what `setRevoked` was given, cannot be used as it is: the message names the entry. */
	| 'ERR_GATE_REVOKED'
	/** An option of `createGate` or of a guard is unknown or has another type, or the gate or the handler of a guard is missing. */
	| 'ERR_GATE_OPTIONS'
	/** `tenants` cannot be used as they are: the message names the one and the option. */
	| 'ERR_GATE_TENANTS'
	/** Claims were asked of a request that no gate has admitted. */
	| 'ERR_GATE_NO_CLAIMS'
	/** The gate was closed before each issuer had given keys: `ready` rejects with it. */
	| 'ERR_GATE_CLOSED'
	/** Not each issuer has given keys in time: `ready` rejects with it, naming those that have not. */
	| 'ERR_GATE_NOT_READY'
	/** What was given as a request has no headers that can be read. */
	| 'ERR_GATE_REQUEST'
	/** A certificate, key or CA file cannot be read, is not PEM, or does not fit the others. */
	| 'ERR_TLS_MATERIAL'
	/** An option of `createMtlsServer` is unknown, missing or has another type, or the handler is missing. */
	| 'ERR_TLS_OPTIONS'
	/** `minVersion` is neither `TLSv1.2` nor `TLSv1.3`. */
	| 'ERR_TLS_MIN_VERSION'
	/** The handler cannot serve HTTP/2, and `http2` was set to `true`. */
	| 'ERR_TLS_HTTP2_HANDLER';

/**
 * A mistake of the program or of its operator, never of a caller: callers are refused with an answer, not an error. The
 * message says what is wrong and what is wanted; it never quotes a key or a token. A `TypeError`, as Node's own are for arguments that
 * will not do.
 */
export class GateError extends TypeError {
	override readonly name = 'GateError';
	readonly code: GateErrorCode;

	constructor(code: GateErrorCode, message: string, options?: ErrorOptions) {
		super(message, options);
		this.code = code;
	}
}
