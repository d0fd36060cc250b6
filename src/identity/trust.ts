import type { KeyObject } from 'node:crypto';
import { verifyToken } from '../gates/jwt.ts';
import { readPublicKey } from '../gates/public-key.ts';
import { Rejection } from '../gates/rejection.ts';
import type { VerifiedToken } from '../gates/token-cache.ts';
import { type QuotaSeed, type RateClaim, readRateClaim } from './quotas.ts';

/** Whose tokens are believed, as the control plane hands it to the workers: texts and numbers that can be cloned. */
export interface IdentitySeed {
	readonly issuers: readonly IssuerSeed[];
	/** `undefined`: no tenant has one of its own. */
	readonly quotas?: QuotaSeed | undefined;
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
	/** Where they say how much their tenant may ask for; `undefined`: nowhere. */
	readonly rateClaim?: RateClaim | undefined;
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
		const claimedRps = readRateClaim(claims.payload, this.#issuer.rateClaim);
		if (claimedRps instanceof Rejection) return claimedRps;
		return { claims, tenant: claims.sub, key: this.#issuer.publicKey, claimedRps };
	}

	/** Whether a token that another `Trust` has verified would be verified here, too. The time is not looked at. */
	stillVerifies({ key }: VerifiedToken): boolean {
		return key.equals(this.#issuer.publicKey);
	}
}

/** @throws Error that says which key cannot be used. */
export function createTrust({ issuers }: Pick<IdentitySeed, 'issuers'>): Trust {
	return new Trust(issuers.map(({ publicKeyPem, ...rules }) => ({ ...rules, publicKey: readPublicKey(publicKeyPem) })));
}
