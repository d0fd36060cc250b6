import { CERTIFICATE_BOUND } from '@mtls-edge-proxy/gate/identity/bound-token.ts';
import { claim, file, flagOr, oneOfOr, optional, table } from './kinds.ts';
import { rateClaimKeys } from './tenants.ts';

/** `[jwt]`: the short form for one issuer. `route-conflicts.ts` reports a missing `jwks_path`. */
export const jwt = table('[jwt]', {
	jwks_path: file(
		'the RSA public key that tokens are verified with, PEM',
		'use [[issuers]] with jwks_url instead of [jwt] for keys over the network',
	)
		.optional()
		.describe(
			'one RSA public key, PEM (SPKI or PKCS#1), or a JWK Set. Keys need at least 2048 bits and an exponent of at least 65537',
		),
	issuer: optional(
		claim('iss', 'tokens of any issuer'),
		'the `iss` that every token must have. Set this key',
		'any `iss`',
	),
	audience: optional(
		claim('aud', 'tokens that have no "aud"'),
		'the `aud` that every token must have. Set this key',
		'tokens with any `aud` are refused',
	),
	certificate_bound: certificateBound(),
	...rateClaimKeys,
	// Without `reload`, the public key is read only at the start.
	reload: flagOr(false).meta({
		description: 'a reload reads `[jwt]` again. Otherwise it only reports that a restart is needed',
		read: 'by each reload',
	}),
}).meta({
	description: 'short form for a single issuer of tokens. `[[issuers]]` replaces it',
	read: 'at startup, unless `reload`',
});

/** Key of an issuer: whether its tokens must be bound to the client's certificate. */
export function certificateBound() {
	return oneOfOr(CERTIFICATE_BOUND, 'if-present').describe(
		'RFC 8705: a token whose `cnf` names a client certificate is valid only on connections with that certificate. `"required"` refuses tokens without such a `cnf`; `"ignore"` skips the check',
	);
}
