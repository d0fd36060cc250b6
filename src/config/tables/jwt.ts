import { claim, file, flag, table } from './kinds.ts';

/** `[jwt]` (specification 2.1): the short form for one issuer. Whether it lacks `jwks_path` is looked at in `issuer-conflicts.ts`. */
export const jwt = table('[jwt]', {
	jwks_path: file('the RSA public key that tokens are verified with, PEM').optional(),
	issuer: claim('iss').optional(),
	audience: claim('aud').optional(),
	// Specification 5: the key is read at the start alone.
	reload: flag('false').default(false),
});
