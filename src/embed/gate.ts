import { randomBytes } from 'node:crypto';
import { RateLimitFields, TENANT_POLICY } from '../gates/rate-limit-fields.ts';
import { insufficientScope, RATE_LIMITED, Rejection, TOKEN_INVALID } from '../gates/rejection.ts';
import type { Bucket, Rate } from '../gates/tenant-limit.ts';
import type { Identity } from '../gates/token-cache.ts';
import { refuseOtherHolder } from '../identity/bound-token.ts';
import { issuerWithKey } from '../identity/issuer.ts';
import { type IdentitySeed, Trust } from '../identity/trust.ts';
import { Authenticator } from '../shared/authenticator.ts';
import { type Clock, systemClock } from '../shared/clock.ts';
import { createLimiterMemory, TenantLimiter } from '../shared/limiter.ts';
import { type AnyRequest, authorizationOf } from './authorization.ts';
import { type Caller, type CallerCertificate, certificateOf, thumbprintOf } from './caller.ts';
import { type Claims, claimsOf } from './claims.ts';
import { GateError, type GateErrorCode } from './error.ts';
import { type Algorithm, type CertificateBound, type IssuerOptions, type ReadIssuers, readIssuers } from './issuers.ts';
import { readQuotas, type TenantOptions } from './quotas.ts';
import { type Refusal, RefusedError, refused } from './refusal.ts';
import { type GateEvent, RemoteKeys, warnOfEvent } from './remote-keys.ts';
import { readVerificationKey, type VerificationKey } from './verification-key.ts';

export type {
	Algorithm,
	AnyRequest,
	Caller,
	CallerCertificate,
	CertificateBound,
	Claims,
	Clock,
	GateErrorCode,
	GateEvent,
	IssuerOptions,
	Refusal,
	VerificationKey,
};
export { authorizationOf, certificateOf, GateError, RefusedError };

/**
 * The proxy's authentication and tenant limit (specification 4.4) for a server of your own. Frameworks get it through
 * an adapter: `mtls-edge-proxy/embed/node`, `/fastify`, `/hono` or `/fetch`.
 */
export interface Gate {
	/**
	 * Judges one request, and counts it against its tenant's limit when its token is good. Never throws: whatever it is given,
	 * and whatever the clock says, a request that cannot be judged is refused.
	 *
	 * @param authorization the value of the `Authorization` header, best read with `authorizationOf`; `undefined` or `null`
	 *   where there is none. A list is every value that came: more than one is refused, since it leaves open which of them a
	 *   later reader would believe.
	 * @param caller the client's certificate, for tokens that are bound to one, and the scopes that are needed here.
	 */
	check(authorization: string | readonly string[] | null | undefined, caller?: Caller): Verdict;
}

/** A gate that may have issuers whose keys come over the network. */
export interface RefreshingGate extends Gate {
	/** Resolves when each of them has given some; at once where there is none. Until then the tokens of the others are judged. */
	readonly ready: Promise<void>;
	/** Fetches no keys any more. The gate goes on with those that it has. */
	close(): void;
}

/** Frozen, and shared: as long as a token is remembered, each request with it gets the same verdict object. */
export type Verdict =
	/** `tenant` is who was counted: the claim that names it, behind the issuer's prefix. */
	| { readonly ok: true; readonly claims: Claims; readonly tenant: string }
	| { readonly ok: false; readonly refusal: Refusal };

/** One issuer with one key, or several issuers. */
export type GateOptions = CommonOptions & (KeyOptions | IssuersOptions);

/** The short form for one issuer with one RSA key. */
export interface KeyOptions {
	/** Verifies RS256 signatures. Read once; another key needs another gate, or `issuers`. */
	readonly jwtPublicKey: VerificationKey;
	/** The `iss` that every token must carry. `null` accepts any, and tokens without one. */
	readonly issuer: string | null;
	/** The `aud` that every token must carry, alone or in a list. `null` refuses tokens that carry any. */
	readonly audience: string | null;
	readonly issuers?: undefined;
}

export interface IssuersOptions {
	/** At least one. Those whose keys come over the network are asked at once; `close` ends that. */
	readonly issuers: readonly IssuerOptions[];
	readonly jwtPublicKey?: undefined;
	readonly issuer?: undefined;
	readonly audience?: undefined;
}

export interface CommonOptions {
	/**
	 * Requests per second for each tenant, and as many at once after a pause: a whole number from 0 to 1,000,000; 0
	 * switches the limit off. It holds for one gate in one process: let the servers of a process share a gate.
	 */
	readonly tenantRps: number;
	/** Tenants with a limit of their own. */
	readonly tenants?: readonly TenantOptions[];
	/** Told of fetches of keys. By default those that fail become warnings of the process. */
	readonly onEvent?: (event: GateEvent) => void;
	/** Where time comes from, for tests; the system's clocks by default. */
	readonly clock?: Clock;
}

/** Tenants in debt at the same moment, in 1 MiB. A tenant that finds no place among them has to wait. */
const LIMITER_SLOTS = 1 << 16;

/**
 * Creates a gate. It remembers verified tokens, at most 10,000, each for at most 5 minutes and never longer than to its
 * `exp` and the 60 s of leeway.
 *
 * @throws {GateError} `ERR_GATE_PUBLIC_KEY`, `ERR_GATE_ISSUER`, `ERR_GATE_AUDIENCE`, `ERR_GATE_ISSUERS`,
 *   `ERR_GATE_TENANT_RPS` or `ERR_GATE_TENANTS`.
 */
export function createGate(options: GateOptions): RefreshingGate {
	const { tenantRps, onEvent = warnOfEvent, clock = ownClock() } = options;
	const issuers = readTrusted(options);
	const quotas = readQuotas(tenantRps, options.tenants);
	const limiter = new TenantLimiter(createLimiterMemory(randomBytes(32), LIMITER_SLOTS), 0);
	const keys = new RemoteKeys(issuers, clock, onEvent, (identity) => authenticator.use(trustIn(identity), quotas));
	const trustIn = (identity: IdentitySeed) => new Trust(identity, (issuer) => keys.unknownKey(issuer));
	const authenticator = new Authenticator(trustIn(keys.identity), limiter, quotas);
	// As long as the authenticator remembers an identity, and no longer.
	const admitted = new WeakMap<Identity, Verdict>();

	const judge = (authorization: unknown, caller: Caller): Verdict => {
		const identity = authenticator.authenticate(onlyValue(authorization), clock.wallSeconds());
		if (identity instanceof Rejection) return refused(identity);
		if (identity.confirmation !== undefined) {
			const stolen = refuseOtherHolder(identity.confirmation, thumbprintOf(caller));
			if (stolen) return refused(stolen);
		}
		const { rate } = identity.quota;
		if (rate !== undefined && !limiter.admit(identity.tenantKey, clock.now(), rate)) {
			return refused(overRate(rate, limiter.bucket));
		}
		const { scopes } = caller;
		if (scopes !== undefined && !scopes.every((scope) => identity.claims.scopes.has(scope))) {
			return refused(insufficientScope(scopes));
		}
		let verdict = admitted.get(identity);
		if (verdict === undefined) {
			verdict = Object.freeze({ ok: true, claims: claimsOf(identity), tenant: identity.tenant });
			admitted.set(identity, verdict);
		}
		return verdict;
	};

	return {
		check(authorization, caller = NOTHING) {
			try {
				return judge(authorization, caller);
			} catch {
				// A list or a certificate that throws when it is read, or a clock that does.
				return refused(NOT_JUDGED);
			}
		},
		ready: keys.ready,
		close: () => keys.close(),
	};
}

/** Says which limit it was, and when to come again. */
function overRate(rate: Rate, bucket: Bucket): Rejection {
	const fields = new RateLimitFields();
	const wait = fields.refused(TENANT_POLICY, rate, bucket);
	return RATE_LIMITED.withHeaders([...fields.fields, 'retry-after', String(wait)]);
}

/** Whom the options name: `issuers`, or the one of the short form. */
function readTrusted({ issuers, jwtPublicKey, issuer, audience }: GateOptions): ReadIssuers {
	if (issuers !== undefined) {
		if (jwtPublicKey === undefined && issuer === undefined && audience === undefined) return readIssuers(issuers);
		const message = 'issuers take the place of jwtPublicKey, issuer and audience; give the one or the others';
		throw new GateError('ERR_GATE_ISSUERS', message);
	}
	const key = readVerificationKey(jwtPublicKey);
	const rules = {
		issuer: readExpectation('issuer', 'ERR_GATE_ISSUER', issuer),
		audience: readExpectation('audience', 'ERR_GATE_AUDIENCE', audience),
	};
	return { seeds: [issuerWithKey(key, rules)], remotes: [] };
}

const NOTHING: Caller = {};

const NOT_JUDGED = TOKEN_INVALID.because('could not be judged: the value, the certificate or the clock threw');

/**
 * The gates below tell "none" (`undefined`) from what they cannot trust (`null`): more than one value, or something that is no
 * string, as JavaScript may give.
 */
function onlyValue(authorization: unknown): string | null | undefined {
	if (typeof authorization === 'string') return authorization;
	if (authorization === null || authorization === undefined) return undefined;
	if (!Array.isArray(authorization)) return null;
	if (authorization.length === 0) return undefined;
	const [only]: unknown[] = authorization;
	return authorization.length === 1 && typeof only === 'string' ? only : null;
}

function ownClock(): Clock {
	return systemClock(process.hrtime.bigint());
}

/** `undefined` is refused: the check must not vanish because an environment variable is not set. */
function readExpectation(name: string, code: GateErrorCode, value: string | null): string | undefined {
	if (value === null) return undefined;
	if (typeof value === 'string' && value !== '') return value;
	throw new GateError(code, `${name} must be a non-empty string, or null to do without the check`);
}
