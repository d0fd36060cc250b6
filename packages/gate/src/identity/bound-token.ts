import { timingSafeEqual } from 'node:crypto';
import { type Rejection, TOKEN_INVALID } from '../gates/rejection.ts';

/** The treatment of tokens that are, or are not, bound to a client certificate (RFC 8705 section 3). */
export const CERTIFICATE_BOUND = ['if-present', 'required', 'ignore'] as const;
export type CertificateBound = (typeof CERTIFICATE_BOUND)[number];

/**
 * The certificate that a token is bound to: the one member `x5t#S256` of its `cnf`.
 *
 * Any other `cnf` is refused, even one that has other members as well as `x5t#S256`. A token that requires proof of another kind of
 * key (DPoP, RFC 9449) is not a bearer token, and that key cannot be checked here.
 *
 * @returns SHA-256 of the certificate's DER, 32 bytes; `undefined`: any bearer may use the token.
 */
export function confirmationOf(
	{ cnf }: Readonly<Record<string, unknown>>,
	rule: CertificateBound,
): Buffer | undefined | Rejection {
	if (rule === 'ignore') return undefined;
	if (cnf === undefined) return rule === 'required' ? NOT_BOUND : undefined;
	if (typeof cnf !== 'object' || cnf === null || Array.isArray(cnf)) return BAD_CNF;
	const members = Object.keys(cnf);
	if (members.length !== 1 || members[0] !== 'x5t#S256') return OTHER_CNF;
	const thumbprint: unknown = (cnf as Record<string, unknown>)['x5t#S256'];
	if (typeof thumbprint !== 'string' || thumbprint.length !== ENCODED_LENGTH) return BAD_CNF;
	const bytes = Buffer.from(thumbprint, 'base64url');
	// Each thumbprint must have one spelling, but Node's decoder accepts other alphabets and unused bits that are set.
	return bytes.length === BYTES && bytes.toString('base64url') === thumbprint ? bytes : BAD_CNF;
}

/** Length of SHA-256, and of its base64url without padding (RFC 8705 section 3.1). */
const BYTES = 32;
const ENCODED_LENGTH = 43;

const NOT_BOUND = TOKEN_INVALID.because('not bound to a certificate');
const OTHER_CNF = TOKEN_INVALID.because('cnf of another kind');
const BAD_CNF = TOKEN_INVALID.because('bad cnf');
const BOUND_ELSEWHERE = TOKEN_INVALID.because('bound to another certificate');

/**
 * Checks in constant time that the holder of the connection's certificate may use the token.
 *
 * @param thumbprint of the connection's client certificate, 32 bytes; `undefined` if it has none, or the connection is closed.
 */
export function refuseOtherHolder(confirmation: Buffer, thumbprint: Buffer | undefined): Rejection | undefined {
	if (thumbprint === undefined || !timingSafeEqual(confirmation, thumbprint)) return BOUND_ELSEWHERE;
	return undefined;
}
