import { z } from 'zod';
import { CERTIFICATE_BOUND } from '../../identity/bound-token.ts';
import { claim, expected, file, flag, table } from './kinds.ts';
import { rateClaimKeys } from './tenants.ts';

/** `[jwt]` (specification 2.1): the short form for one issuer. Whether it lacks `jwks_path` is looked at in `issuer-conflicts.ts`. */
export const jwt = table('[jwt]', {
	jwks_path: file('the RSA public key that tokens are verified with, PEM').optional(),
	issuer: claim('iss').optional(),
	audience: claim('aud').optional(),
	certificate_bound: certificateBound(),
	...rateClaimKeys,
	// Specification 5: the key is read at the start alone.
	reload: flag('false').default(false),
});

/** What becomes of tokens that are bound to a client certificate, and of those that are not; for each issuer. */
export function certificateBound() {
	const error = expected('"if-present", "required" or "ignore"', 'leave it out for "if-present"');
	return z.enum(CERTIFICATE_BOUND, { error }).default('if-present');
}
