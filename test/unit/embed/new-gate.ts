/** Gates with one key for all tests, and tokens that they admit. */
import {
	type CommonOptions,
	createGate,
	type KeyOptions,
	type RefreshingGate,
} from '../../../packages/gate/src/embed/gate.ts';
import { createTokenKey, mintToken, type TokenClaims } from '../../../packages/proxy/src/cli/demo/tokens.ts';

export const TOKEN_KEY = createTokenKey();

/** Without limits, and for tokens of any issuer, unless the options say otherwise. */
export function newGate(options: Partial<CommonOptions & KeyOptions> = {}): RefreshingGate {
	return createGate({ jwtPublicKey: TOKEN_KEY.publicKeyPem, issuer: null, audience: null, ...options });
}

/** The value of `Authorization` with a token of the tenant `tenant`. */
export function bearer(claims: TokenClaims = {}): string {
	return `Bearer ${mintToken(TOKEN_KEY, { sub: 'tenant', exp: Date.now() / 1000 + 86_400, ...claims })}`;
}
