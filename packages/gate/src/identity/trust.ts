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

/** The trusted issuers, as the control plane hands them to the workers: values that can be cloned. */
export interface IdentitySeed {
	/** At least one. If there are several, each has a name. */
	readonly issuers: readonly IssuerSeed[];
	/** `undefined`: no tenant has its own quota. */
	readonly quotas?: QuotaSeed | undefined;
}

/** Called for a token with an unknown key, or whose issuer has no keys. Only for issuers whose keys come over the network. */
export type OnUnknownKey = (issuer: string) => void;

/**
 * The trusted issuers at one moment, with their keys and requirements. Immutable: a reload or new keys create another one, and all
 * threads switch to it together.
 */
export class Trust {
	/** Set if there is only one issuer, which is then chosen without looking at `iss`. */
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

	/** The issuer whose keys to try; `iss` selects it beforehand (RFC 8725 section 3.8). `undefined`: `iss` names none of ours. */
	issuerOf(parsed: ParsedToken): Issuer | undefined {
		// `iss` is trusted only after a key of that issuer has verified it. With a single issuer, trying its keys at once refuses
		// other issuers' tokens sooner.
		return this.#only ?? this.#byName.get(peekIssuer(parsed));
	}

	/** Whether a token that another `Trust` has verified would be verified here, too. Ignores the time. */
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

	/** Another issuer's token is not a reason to ask this one. */
	#askForKeys(issuer: string | undefined, parsed: ParsedToken): void {
		if (issuer !== undefined && peekIssuer(parsed) === issuer) this.#onUnknownKey?.(issuer);
	}
}
