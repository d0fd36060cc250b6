import { createHash, type KeyObject } from 'node:crypto';
import type { Algorithm } from '../gates/algorithm.ts';
import { type ClaimRules, LEEWAY_SECONDS, type TokenKeys, WRONG_ALG } from '../gates/jwt.ts';
import { type Rejection, TOKEN_INVALID } from '../gates/rejection.ts';
import { SUB } from '../gates/tenant-claim.ts';
import type { CertificateBound } from './bound-token.ts';
import { KeySet, type KeySetSeed, type SetKey } from './key-set.ts';
import type { RateClaim } from './quotas.ts';

/** The requirements for an issuer's tokens, and the rules for their tenants. */
export interface IssuerRules extends ClaimRules {
	/** At least one. */
	readonly algorithms: readonly Algorithm[];
	/** Prepended to the tenant of each token, so that equal names from two issuers are two tenants. May be empty. */
	readonly tenantPrefix: string;
	/** The treatment of tokens that are, or are not, bound to a client certificate (RFC 8705). */
	readonly certificateBound: CertificateBound;
	/** The claim with the tenant's rate; `undefined`: none. */
	readonly rateClaim: RateClaim | undefined;
}

/** An issuer as the control plane hands it to the workers. */
export interface IssuerSeed extends IssuerRules {
	/** `undefined`: there are none yet, or they are too old. All tokens of the issuer are then refused. */
	readonly keys: KeySetSeed | undefined;
	/** Whether the keys come over the network. Only then are tokens with an unknown key reported, to fetch keys again. */
	readonly remote: boolean;
}

/** Defaults of the configuration. */
export const DEFAULT_RULES = {
	algorithms: ['RS256'],
	leewaySeconds: LEEWAY_SECONDS,
	tenantClaim: SUB,
	requiredClaims: [],
	tenantPrefix: '',
	certificateBound: 'if-present',
	rateClaim: undefined,
} as const satisfies Partial<IssuerRules>;

/** The issuer for a setup with a single RSA key. */
export function issuerWithKey(
	key: KeyObject,
	{ issuer, audience }: { readonly issuer: string | undefined; readonly audience: string | undefined },
): IssuerSeed {
	const pem = key.export({ type: 'spki', format: 'pem' }) as string;
	return {
		...DEFAULT_RULES,
		issuer,
		audience: audience === undefined ? undefined : [audience],
		keys: { named: false, keys: [{ kid: undefined, pem, algorithms: DEFAULT_RULES.algorithms }] },
		remote: false,
	};
}

/** An issuer whose tokens can be verified. */
export class Issuer implements TokenKeys<SetKey> {
	readonly rules: IssuerRules;
	readonly remote: boolean;
	readonly #keys: KeySet | undefined;
	/** Vouchers by key and algorithm; see `VerifiedToken.vouchedBy`. */
	readonly #vouchers = new Map<SetKey, ReadonlyMap<string, string>>();

	/** @throws Error that says which key cannot be used. */
	constructor({ keys, remote, ...rules }: IssuerSeed) {
		this.rules = rules;
		this.remote = remote;
		if (keys === undefined) return;
		this.#keys = new KeySet(keys);
		const ruled = JSON.stringify(Object.entries(rules).sort());
		for (const key of this.#keys) {
			const { kid, pem, algorithms } = key.seed;
			const named = (alg: string): [string, string] => [alg, digest([ruled, keys.named, kid, pem, alg])];
			this.#vouchers.set(key, new Map(algorithms.map(named)));
		}
	}

	candidates(alg: unknown, kid: unknown): readonly SetKey[] | Rejection {
		// Checked before `kid`: a token that cannot be verified anyway is not a reason to fetch new keys.
		if (!this.rules.algorithms.includes(alg as Algorithm)) return WRONG_ALG;
		return this.#keys === undefined ? NO_KEYS : this.#keys.candidates(alg, kid);
	}

	/** @param alg the algorithm that the key has verified with. */
	voucherOf(key: SetKey, alg: unknown): string {
		return this.#vouchers.get(key)!.get(alg as Algorithm)!;
	}

	/** The vouchers of all keys and algorithms. */
	*vouchers(): Iterable<string> {
		for (const byAlgorithm of this.#vouchers.values()) yield* byAlgorithm.values();
	}
}

/** No keys have been fetched, or they were dropped as stale. */
export const NO_KEYS = TOKEN_INVALID.because('no keys of the issuer yet');

/** A hash, to be short: each remembered token has one. */
function digest(parts: readonly unknown[]): string {
	return createHash('sha256').update(JSON.stringify(parts)).digest('base64');
}
