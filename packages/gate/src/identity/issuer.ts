import { createHash, type KeyObject } from 'node:crypto';
import type { Algorithm } from '../gates/algorithm.ts';
import { type ClaimRules, LEEWAY_SECONDS, type TokenKeys, WRONG_ALG } from '../gates/jwt.ts';
import { type Rejection, TOKEN_INVALID } from '../gates/rejection.ts';
import { SUB } from '../gates/tenant-claim.ts';
import type { CertificateBound } from './bound-token.ts';
import { KeySet, type KeySetSeed, type SetKey } from './key-set.ts';
import type { RateClaim } from './quotas.ts';

/** What an issuer's tokens must say, and who their tenants are. */
export interface IssuerRules extends ClaimRules {
	/** At least one. */
	readonly algorithms: readonly Algorithm[];
	/** Before the tenant of each token: two issuers' equal names are two tenants. May be empty. */
	readonly tenantPrefix: string;
	/** What becomes of tokens that are bound to a client certificate (RFC 8705), and of those that are not. */
	readonly certificateBound: CertificateBound;
	/** Where they say how much their tenant may ask for; `undefined`: nowhere. */
	readonly rateClaim: RateClaim | undefined;
}

/** An issuer as the control plane hands it to the workers. */
export interface IssuerSeed extends IssuerRules {
	/** `undefined`: there are none yet, or they are too old, and all its tokens are refused. */
	readonly keys: KeySetSeed | undefined;
	/** Whether the keys come over the network, so that it is worth saying when a token names one that is not among them. */
	readonly remote: boolean;
}

/** What holds unless the configuration says otherwise. */
export const DEFAULT_RULES = {
	algorithms: ['RS256'],
	leewaySeconds: LEEWAY_SECONDS,
	tenantClaim: SUB,
	requiredClaims: [],
	tenantPrefix: '',
	certificateBound: 'if-present',
	rateClaim: undefined,
} as const satisfies Partial<IssuerRules>;

/** The one issuer of those who have a single RSA key. */
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
	/** By key and algorithm; see `VerifiedToken.vouchedBy`. */
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
		// Before `kid`: what cannot be verified anyway is no reason to look for new keys.
		if (!this.rules.algorithms.includes(alg as Algorithm)) return WRONG_ALG;
		return this.#keys === undefined ? NO_KEYS : this.#keys.candidates(alg, kid);
	}

	/** @param alg that the key has verified. */
	voucherOf(key: SetKey, alg: unknown): string {
		return this.#vouchers.get(key)!.get(alg as Algorithm)!;
	}

	/** All that a token can be vouched for with. */
	*vouchers(): Iterable<string> {
		for (const byAlgorithm of this.#vouchers.values()) yield* byAlgorithm.values();
	}
}

/** None have been fetched, or they were dropped as stale. */
export const NO_KEYS = TOKEN_INVALID.because('no keys of the issuer yet');

/** Short, since each remembered token has one. */
function digest(parts: readonly unknown[]): string {
	return createHash('sha256').update(JSON.stringify(parts)).digest('base64');
}
