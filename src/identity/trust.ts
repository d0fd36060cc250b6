import type { KeyObject } from 'node:crypto';
import { verifyToken } from '../gates/jwt.ts';
import { readPublicKey } from '../gates/public-key.ts';
import { Rejection } from '../gates/rejection.ts';
import type { VerifiedToken } from '../gates/token-cache.ts';
import { type CertificateBound, confirmationOf } from './bound-token.ts';

/** Whose tokens are believed, as the control plane hands it to the workers: texts and numbers that can be cloned. */
export interface IdentitySeed {
	readonly issuers: readonly IssuerSeed[];
}

export interface IssuerSeed extends IssuerRules {
	/** SPKI or PKCS#1. */
	readonly publicKeyPem: string;
}

/** What an issuer's tokens must say. */
export interface IssuerRules {
	/** Required `iss`; `undefined`: not checked, and then there is no other issuer. */
	readonly issuer: string | undefined;
	/** Required `aud`; `undefined`: tokens that carry any are refused. */
	readonly audience: string | undefined;
	/** What becomes of tokens that are bound to a client certificate (RFC 8705), and of those that are not. */
	readonly certificateBound: CertificateBound;
}

/** An issuer with the key that its tokens are verified with. */
export interface Issuer extends IssuerRules {
	readonly publicKey: KeyObject;
}

/**
 * Whom we believe at one moment: issuers, their keys, and what each demands of a token. Never changed; a reload or an issuer's new
 * keys bring another one, which all threads take over as one.
 */
export class Trust {
	readonly #issuer: Issuer;

	/** @param issuers at least one. */
	constructor(issuers: readonly Issuer[]) {
		this.#issuer = issuers[0]!;
	}

	/** @param nowSeconds wall-clock time, seconds since the epoch. */
	verify(token: string, nowSeconds: number): VerifiedToken | Rejection {
		const claims = verifyToken(token, this.#issuer, nowSeconds);
		if (claims instanceof Rejection) return claims;
		const confirmation = confirmationOf(claims.payload, this.#issuer.certificateBound);
		if (confirmation instanceof Rejection) return confirmation;
		return { claims, tenant: claims.sub, key: this.#issuer.publicKey, confirmation };
	}

	/** Whether a token that another `Trust` has verified would be verified here, too. The time is not looked at. */
	stillVerifies({ key, claims, confirmation }: VerifiedToken): boolean {
		if (!key.equals(this.#issuer.publicKey)) return false;
		const now = confirmationOf(claims.payload, this.#issuer.certificateBound);
		// Bound before and not now, or the other way round, is another verdict.
		return !(now instanceof Rejection) && (now === undefined) === (confirmation === undefined);
	}
}

/** @throws Error that says which key cannot be used. */
export function createTrust({ issuers }: IdentitySeed): Trust {
	return new Trust(issuers.map(({ publicKeyPem, ...rules }) => ({ ...rules, publicKey: readPublicKey(publicKeyPem) })));
}
