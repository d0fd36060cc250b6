import { createPrivateKey } from 'node:crypto';
import type { Config } from '../../config/config.ts';
import { CommandError } from '../command.ts';
import { mintToken, type TokenClaims, thumbprint } from '../demo/tokens.ts';

/** The token that `proxy token` was asked for. */
interface TokenOrder {
	readonly sub: string;
	/** Additional claims by name; they replace the default ones. */
	readonly claims: Readonly<Record<string, unknown>>;
	readonly ttlSeconds: number;
	/** PEM of the client certificate that the token is bound to (RFC 8705). */
	readonly certificate?: string | undefined;
}

/** Issuer and audience of the token. */
interface TokenParties {
	readonly iss: string | undefined;
	readonly aud: string | undefined;
}

/**
 * The `iss` and `aud` that the configuration requires of a token.
 *
 * @param iss asked for by hand; chooses among several issuers.
 * @throws CommandError if there are several and none was chosen.
 */
export function partiesOf({ jwt, issuers, path }: Config, iss: unknown): TokenParties {
	if (jwt !== undefined) return { iss: jwt.issuer, aud: jwt.audience };
	const asked = issuers.length === 1 ? issuers[0] : issuers.find(({ issuer }) => issuer === iss);
	if (asked === undefined) {
		throw new CommandError(
			`${path}: has several issuers; say which one with --claim iss=…, one of ${issuers.map(({ issuer }) => issuer).join(', ')}`,
		);
	}
	return { iss: asked.issuer, aud: asked.rules.audience?.[0] };
}

/**
 * Mints the token: RS256, `nbf` now.
 *
 * @param privateKey PEM.
 * @param now seconds since the epoch.
 * @throws CommandError
 */
export function makeToken(order: TokenOrder, { iss, aud }: TokenParties, privateKey: string, now: number): string {
	const claims: TokenClaims = {
		...(iss !== undefined && { iss }),
		...(aud !== undefined && { aud }),
		sub: order.sub,
		iat: now,
		nbf: now,
		exp: now + order.ttlSeconds,
		...(order.certificate !== undefined && { cnf: { 'x5t#S256': boundTo(order.certificate) } }),
		...order.claims,
	};
	const key = createPrivateKey(privateKey);
	if (key.asymmetricKeyType !== 'rsa') throw new CommandError('the key that signs tokens is not an RSA key');
	return mintToken({ privateKey: key }, claims);
}

function boundTo(pem: string): string {
	try {
		return thumbprint(pem).toString('base64url');
	} catch {
		throw new CommandError('--cert: contains no PEM certificate');
	}
}
