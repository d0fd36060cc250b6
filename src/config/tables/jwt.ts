import { claim, file, flag, table } from './kinds.ts';
import { rateClaimKeys } from './tenants.ts';

/** `[jwt]` (specification 2.1). */
export const jwt = table('[jwt]', {
	jwks_path: file('the RSA public key that tokens are verified with, PEM'),
	issuer: claim('iss').optional(),
	audience: claim('aud').optional(),
	...rateClaimKeys,
	// Specification 5: the key is read at the start alone.
	reload: flag('false').default(false),
});
