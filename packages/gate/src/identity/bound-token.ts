import { timingSafeEqual } from 'node:crypto';
import { type Rejection, TOKEN_INVALID } from '../gates/rejection.ts';

/** What becomes of tokens that are, or are not, bound to a client certificate (RFC 8705 section 3). */
export const CERTIFICATE_BOUND = ['if-present', 'required', 'ignore'] as const;
export type CertificateBound = (typeof CERTIFICATE_BOUND)[number];

/**
 * The certificate that a token is bound to: the one member `x5t#S256` of its `cnf`.
 *
 * A `cnf` of any other kind is refused, also one with other members next to `x5t#S256`: a token that a key of another kind has
 * to be shown for (DPoP, RFC 9449) is no bearer token, and nothing here could check that key.
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
	// Node's decoder takes other alphabets and unused bits that are set: each thumbprint has one spelling.
	return bytes.length === BYTES && bytes.toString('base64url') === thumbprint ? bytes : BAD_CNF;
}

/** Of SHA-256, and of its base64url without padding (RFC 8705 section 3.1). */
const BYTES = 32;
const ENCODED_LENGTH = 43;

const NOT_BOUND = TOKEN_INVALID.because('not bound to a certificate');
const OTHER_CNF = TOKEN_INVALID.because('cnf of another kind');
const BAD_CNF = TOKEN_INVALID.because('bad cnf');
const BOUND_ELSEWHERE = TOKEN_INVALID.because('bound to another certificate');

/**
 * Whether the holder of the connection's certificate may use the token. In constant time.
 *
 * @param thumbprint of the connection's client certificate, 32 bytes; `undefined`: it has none, or is gone.
 */
export function refuseOtherHolder(confirmation: Buffer, thumbprint: Buffer | undefined): Rejection | undefined {
	if (thumbprint === undefined || !timingSafeEqual(confirmation, thumbprint)) return BOUND_ELSEWHERE;
	return undefined;
}
