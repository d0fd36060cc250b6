import {
	checkClaims,
	type ParsedToken,
	parseToken,
	peekIssuer,
	readPayload,
	verifySignature,
	WRONG_ISS,
} from '../gates/jwt.ts';
import { Rejection } from '../gates/rejection.ts';
import type { VerifiedToken } from '../gates/token-cache.ts';
import { confirmationOf } from './bound-token.ts';
import { Issuer, type IssuerSeed, NO_KEYS } from './issuer.ts';
import { UNKNOWN_KID } from './key-set.ts';
import { type QuotaSeed, readRateClaim } from './quotas.ts';

/** Whose tokens are believed, as the control plane hands it to the workers: texts and numbers that can be cloned. */
export interface IdentitySeed {
	/** At least one. Where there are several, each has a name. */
	readonly issuers: readonly IssuerSeed[];
	/** `undefined`: no tenant has its own quota. */
	readonly quotas?: QuotaSeed | undefined;
}

/** Learns of a token whose key is not in its issuer's set, or whose issuer has no keys. Only for keys that come over the network. */
export type OnUnknownKey = (issuer: string) => void;

/**
 * Whom we believe at one moment: issuers, their keys, and what each demands of a token. Never changed; a reload or an issuer's new
 * keys bring another one, which all threads take over as one.
 */
export class Trust {
	/** Where there is no other: then nothing is chosen, and it may be believed whatever `iss` says. */
	readonly #only: Issuer | undefined;
	readonly #byName = new Map<unknown, Issuer>();
	readonly #vouchers = new Set<string>();
	readonly #onUnknownKey: OnUnknownKey | undefined;

	/** @throws Error that says which key cannot be used. */
	constructor({ issuers }: IdentitySeed, onUnknownKey?: OnUnknownKey) {
		this.#onUnknownKey = onUnknownKey;
		const all = issuers.map((seed) => new Issuer(seed));
		if (all.length === 1) this.#only = all[0];
		for (const issuer of all) {
			this.#byName.set(issuer.rules.issuer, issuer);
			for (const voucher of issuer.vouchers()) this.#vouchers.add(voucher);
		}
	}

	/** @param nowSeconds wall-clock time, seconds since the epoch. */
	verify(token: string, nowSeconds: number): VerifiedToken | Rejection {
		const parsed = parseToken(token);
		if (parsed instanceof Rejection) return parsed;
		const issuer = this.issuerOf(parsed);
		return issuer === undefined ? WRONG_ISS : this.#verify(issuer, parsed, nowSeconds);
	}

	/** Whose keys are tried: `iss` chooses before any of them is (RFC 8725 section 3.8). `undefined`: it names none of ours. */
	issuerOf(parsed: ParsedToken): Issuer | undefined {
		// `iss` is trusted once the chosen issuer's key has verified it. A single issuer needs no choice, and its keys
		// refuse other issuers' tokens sooner.
		return this.#only ?? this.#byName.get(peekIssuer(parsed));
	}

	/** Whether a token that another `Trust` has verified would be verified here, too. The time is not looked at. */
	stillVerifies({ vouchedBy }: VerifiedToken): boolean {
		return this.#vouchers.has(vouchedBy);
	}

	#verify(issuer: Issuer, parsed: ParsedToken, nowSeconds: number): VerifiedToken | Rejection {
		const { rules } = issuer;
		const key = verifySignature(parsed, issuer);
		if ((key === UNKNOWN_KID || key === NO_KEYS) && issuer.remote) this.#askForKeys(rules.issuer, parsed);
		if (key instanceof Rejection) return key;
		const payload = readPayload(parsed);
		if (payload instanceof Rejection) return payload;
		const claims = checkClaims(payload, rules, nowSeconds);
		if (claims instanceof Rejection) return claims;
		const confirmation = confirmationOf(payload, rules.certificateBound);
		if (confirmation instanceof Rejection) return confirmation;
		const claimedRps = readRateClaim(payload, rules.rateClaim);
		if (claimedRps instanceof Rejection) return claimedRps;
		return {
			claims,
			confirmation,
			claimedRps,
			tenant: rules.tenantPrefix + claims.tenant,
			leewaySeconds: rules.leewaySeconds,
			vouchedBy: issuer.voucherOf(key, parsed.alg),
		};
	}

	/** Another issuer's token is no reason to ask this one. */
	#askForKeys(issuer: string | undefined, parsed: ParsedToken): void {
		if (issuer !== undefined && peekIssuer(parsed) === issuer) this.#onUnknownKey?.(issuer);
	}
}
