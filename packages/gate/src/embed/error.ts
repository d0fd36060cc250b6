/** Mistakes in the use of the gate. Codes are stable; messages are for people and may change. */
export type GateErrorCode =
	/** `jwtPublicKey` is not one RSA public key of at least 2048 bits with a public exponent of at least 65537. */
	| 'ERR_GATE_PUBLIC_KEY'
	/** `issuer` is neither a non-empty string nor `null`. */
	| 'ERR_GATE_ISSUER'
	/** `audience` is neither a non-empty string nor `null`. */
	| 'ERR_GATE_AUDIENCE'
	/** `issuers` is invalid: the message names the issuer and the option. */
	| 'ERR_GATE_ISSUERS'
	/** `tenantRps` is not a whole number from 0 to 1,000,000. */
	| 'ERR_GATE_TENANT_RPS'
	/** `revoked`, or the argument of `setRevoked`, is invalid: the message names the entry. */
	| 'ERR_GATE_REVOKED'
	/** An option of `createGate` or of a guard is unknown or has the wrong type, or a guard has no gate or no handler. */
	| 'ERR_GATE_OPTIONS'
	/** `tenants` is invalid: the message names the tenant and the option. */
	| 'ERR_GATE_TENANTS'
	/** Claims were read from a request that no gate has admitted. */
	| 'ERR_GATE_NO_CLAIMS'
	/** `ready` rejects with it: the gate was closed before all issuers had given keys. */
	| 'ERR_GATE_CLOSED'
	/** `ready` rejects with it: some issuers, which the message names, gave no keys in time. */
	| 'ERR_GATE_NOT_READY'
	/** The argument is not a request: it has no headers that can be read. */
	| 'ERR_GATE_REQUEST'
	/** A certificate, key or CA file cannot be read, is not PEM, or does not fit the others. */
	| 'ERR_TLS_MATERIAL'
	/** An option of `createMtlsServer` is unknown, missing or of the wrong type, or the handler is missing. */
	| 'ERR_TLS_OPTIONS'
	/** `minVersion` is neither `TLSv1.2` nor `TLSv1.3`. */
	| 'ERR_TLS_MIN_VERSION'
	/** The handler cannot serve HTTP/2, and `http2` was set to `true`. */
	| 'ERR_TLS_HTTP2_HANDLER';

/**
 * A mistake of the program or its operator, never of a caller: callers get a refusal, not an error. The message says what is wrong
 * and how to mend it. It never quotes a key or a token. It is a `TypeError`, like Node's errors about invalid arguments.
 */
export class GateError extends TypeError {
	override readonly name = 'GateError';
	readonly code: GateErrorCode;

	constructor(code: GateErrorCode, message: string, options?: ErrorOptions) {
		super(message, options);
		this.code = code;
	}
}
