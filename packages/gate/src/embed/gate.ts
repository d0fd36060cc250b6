import { randomBytes } from 'node:crypto';
import { RateLimitFields } from '../gates/rate-limit-fields.ts';
import { insufficientScope, Rejection, TOKEN_INVALID } from '../gates/rejection.ts';
import { grants } from '../gates/scopes.ts';
import type { Principal } from '../gates/token-cache.ts';
import { refuseOtherHolder } from '../identity/bound-token.ts';
import { issuerWithKey } from '../identity/issuer.ts';
import { RevokedTokens } from '../identity/revocations.ts';
import { type IdentitySeed, Trust } from '../identity/trust.ts';
import { TenantLimiter } from '../memory/limiter.ts';
import { tenantKey } from '../memory/tenant-key.ts';
import { Authenticator } from '../shared/authenticator.ts';
import { type Clock, systemClock } from '../shared/clock.ts';
import { refuseOverConcurrency, refuseOverTenantRate } from '../shared/quota-gates.ts';
import {
	type AnyRequest,
	authorizationOf,
	type Caller,
	type CallerCertificate,
	certificateOf,
	thumbprintOf,
} from './caller.ts';
import { type Claims, claimsOf } from './claims.ts';
import { GateError, type GateErrorCode } from './error.ts';
import {
	type Algorithm,
	type CertificateBound,
	type Fetch,
	type FetchInit,
	type FetchResponse,
	type IssuerOptions,
	type ReadIssuers,
	readIssuers,
} from './issuers.ts';
import {
	ANY,
	BOOLEAN,
	checkOptions,
	FUNCTION,
	isPlainObject,
	type Kinds,
	kind,
	milliseconds,
	NARROWING,
} from './options.ts';
import { readQuotas, type TenantOptions } from './quotas.ts';
import { grpcStatusOf, type Refusal, RefusedError, refused } from './refusal.ts';
import { type GateEvent, RemoteKeys, warnOfEvent } from './remote-keys.ts';
import { RevokedCallers, type RevokedOptions, readRevoked } from './revoked.ts';
import { type Slot, takenSlot } from './slot.ts';
import { readKey, type VerificationKey } from './verification-key.ts';

export type {
	Algorithm,
	AnyRequest,
	Caller,
	CallerCertificate,
	CertificateBound,
	Claims,
	Clock,
	Fetch,
	FetchInit,
	FetchResponse,
	GateErrorCode,
	GateEvent,
	IssuerOptions,
	Refusal,
	RevokedOptions,
	Slot,
	TenantOptions,
	VerificationKey,
};
export { authorizationOf, certificateOf, GateError, grpcStatusOf, RefusedError };

/**
 * The proxy's authentication and tenant limit for your own server. Each framework has an adapter: `mtls-edge-gate/node`, `/fastify`,
 * `/hono` or `/fetch`.
 */
export interface Gate {
	/**
	 * Judges one request, and counts it against its tenant's limit if its token is valid. Never throws: a request that cannot be
	 * judged is refused.
	 *
	 * @param authorization the value of the `Authorization` header, best read with `authorizationOf`; `undefined` or `null` if there
	 *   is none. A list has every value of the request. More than one is refused: a later reader might believe another one.
	 * @param caller the client's certificate, for tokens that are bound to one and for revocations, and the scopes that this request needs.
	 *   An explicit `undefined` is refused: it may be a misspelt setting, and would ask for no scope.
	 */
	check(authorization: string | readonly string[] | null | undefined, caller?: Caller): Verdict;
}

/** A gate that may have issuers whose keys come over the network. */
export interface RefreshingGate extends Gate {
	/**
	 * Resolves when each of these issuers has given keys; at once if there are none. Meanwhile tokens of the other issuers are judged.
	 * Rejects with `ERR_GATE_NOT_READY` after `readyTimeoutMs`, counted from the first read of `ready`, and with `ERR_GATE_CLOSED` if the
	 * gate is closed first. After `ERR_GATE_NOT_READY` the gate goes on fetching.
	 */
	readonly ready: Promise<void>;
	/** Stops fetching keys. The gate goes on with the keys that it has. */
	close(): void;
	/**
	 * Replaces the revocation list. It holds at once, also for tokens that the gate remembers.
	 *
	 * @throws {GateError} `ERR_GATE_REVOKED`; the gate then keeps its old list.
	 */
	setRevoked(list: RevokedOptions): void;
}

export type Verdict = Admitted | { readonly ok: false; readonly refusal: Refusal };

/**
 * Frozen. Requests with the same token share one object while the gate remembers the token. A verdict with a `slot` or `headers` belongs
 * to one request.
 */
export interface Admitted {
	readonly ok: true;
	readonly claims: Claims;
	/** The tenant that was counted: the issuer's prefix, then the claim that names the tenant. */
	readonly tenant: string;
	/**
	 * Only for tenants with a `concurrency`: the request's place among those in flight. Release it when the request is over, however it
	 * ends. Adapters do that.
	 */
	readonly slot?: Slot | undefined;
	/** With `rateLimitHeaders`: headers for the response, names in lower case. */
	readonly headers?: Readonly<Record<string, string>> | undefined;
}

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
	/** At least one. Keys from the network are fetched at once and then regularly, until `close`. */
	readonly issuers: readonly IssuerOptions[];
	readonly jwtPublicKey?: undefined;
	readonly issuer?: undefined;
	readonly audience?: undefined;
}

export interface CommonOptions {
	/**
	 * Requests per second for each tenant, which is also the burst after a pause: a whole number from 0 to 1,000,000. 0 or no value means
	 * no limit. The limit belongs to one gate in one process, so let all servers of a process share one gate.
	 */
	readonly tenantRps?: number;
	/** Tenants with a limit of their own. */
	readonly tenants?: readonly TenantOptions[];
	/** Whether responses to admitted requests carry `RateLimit` fields too; a 429 always does. Default `false`. */
	readonly rateLimitHeaders?: boolean;
	/** Revoked certificates, tokens and tenants; `setRevoked` replaces the list. Default: none. */
	readonly revoked?: RevokedOptions;
	/** How long `ready` waits for keys over the network, in ms. Default 30,000. */
	readonly readyTimeoutMs?: number;
	/** Called for each fetch of keys. By default, failed fetches become warnings of the process. */
	readonly onEvent?: (event: GateEvent) => void;
	/** The source of time, for tests. Default: the system's clocks. */
	readonly clock?: Clock;
}

/** How many tenants can be in debt at the same moment; the table takes 1 MiB. A tenant that finds no free slot is refused. */
const LIMITER_SLOTS = 1 << 16;
const READY_MS = 30_000;

/**
 * Creates a gate. It remembers at most 10,000 verified tokens, each for at most 5 minutes and never beyond its `exp` plus 60 s of
 * leeway.
 *
 * @throws {GateError} `ERR_GATE_PUBLIC_KEY`, `ERR_GATE_ISSUER`, `ERR_GATE_AUDIENCE`, `ERR_GATE_ISSUERS`,
 *   `ERR_GATE_TENANT_RPS`, `ERR_GATE_TENANTS`, `ERR_GATE_REVOKED` or `ERR_GATE_OPTIONS`.
 */
export function createGate(given: GateOptions): RefreshingGate {
	const options = checkOptions<CommonOptions & (KeyOptions | IssuersOptions)>('ERR_GATE_OPTIONS', '', given, KINDS);
	const {
		rateLimitHeaders = false,
		revoked = {},
		onEvent = warnOfEvent,
		clock = systemClock(process.hrtime.bigint()),
	} = options;
	const issuers = readTrusted(options);
	const secret = randomBytes(32);
	const keyOf = (tenant: string) => tenantKey(secret, tenant);
	// Allocated for the first tenant with a rate, so that a gate without limits needs no memory for it.
	let limiter: TenantLimiter | undefined;
	const quotas = readQuotas(options.tenantRps, options.tenants, keyOf);
	const revokedAtFirst = readRevoked(revoked);
	const keys = new RemoteKeys(
		issuers,
		{ clock, onEvent, readyTimeoutMs: options.readyTimeoutMs ?? READY_MS },
		(identity) => authenticator.use(trustIn(identity), quotas),
	);
	const trustIn = (identity: IdentitySeed) => new Trust(identity, (issuer) => keys.unknownKey(issuer));
	const authenticator = new Authenticator(trustIn(keys.identity), { keyOf }, quotas);
	let revokedCallers = new RevokedCallers(revokedAtFirst);
	authenticator.refuseRevoked(new RevokedTokens(revokedAtFirst));
	// An entry lives as long as the authenticator remembers the principal.
	const admitted = new WeakMap<Principal, Admitted>();

	const judge = (authorization: unknown, caller: Caller | undefined): Verdict => {
		// A misspelt member or a promise would require nothing: `scope` in place of `scopes` would let everybody in.
		if (!isPlainObject(caller)) return refused(NO_CALLER);
		const { scopes } = caller;
		// An iterator has `every` too, but is exhausted after the first request.
		// An explicit `undefined` may be a misspelt setting.
		if ('scopes' in caller && !Array.isArray(scopes)) return refused(NO_SCOPES);
		for (const key in caller) if (key !== 'certificate' && key !== 'scopes') return refused(NO_SUCH_MEMBER);
		const principal = authenticator.authenticate(onlyValue(authorization), clock.wallSeconds());
		if (principal instanceof Rejection) return refused(principal);
		if (principal.confirmation !== undefined) {
			const stolen = refuseOtherHolder(principal.confirmation, thumbprintOf(caller));
			if (stolen) return refused(stolen);
		}
		if (!revokedCallers.isEmpty) {
			const revoked = revokedCallers.refuse(caller);
			if (revoked) return refused(revoked);
		}
		const { rate, slots } = principal.quota;
		const report = rateLimitHeaders ? new RateLimitFields() : undefined;
		if (rate !== undefined) {
			limiter ??= new TenantLimiter(TenantLimiter.allocate(secret, LIMITER_SLOTS), 0);
			const overRate = refuseOverTenantRate(limiter, principal, clock.now(), report);
			if (overRate) return refused(overRate);
		}
		if (scopes !== undefined && !grants(principal.claims.scopes, scopes)) {
			return refused(withReport(insufficientScope(scopes), report));
		}
		let verdict = admitted.get(principal);
		if (verdict === undefined) {
			verdict = Object.freeze({ ok: true, claims: claimsOf(principal), tenant: principal.tenant });
			admitted.set(principal, verdict);
		}
		if (slots === undefined && report === undefined) return verdict;
		// Last, so that every request that takes a slot is admitted and releases it.
		const tooMany = slots && refuseOverConcurrency(slots, report);
		if (tooMany) return refused(tooMany);
		return Object.freeze({ ...verdict, slot: slots && takenSlot(slots), headers: report && headersOf(report) });
	};

	return {
		check(authorization, ...given) {
			try {
				return judge(authorization, given.length === 0 ? NOTHING : given[0]);
			} catch {
				// Reading the list, the certificate or the clock threw.
				return refused(NOT_JUDGED);
			}
		},
		get ready() {
			return keys.ready;
		},
		close: () => keys.close(),
		setRevoked(list) {
			const next = readRevoked(list);
			authenticator.refuseRevoked(new RevokedTokens(next));
			revokedCallers = new RevokedCallers(next);
		},
	};
}

const CLOCK = kind('must be a clock: an object with the functions now and wallSeconds', (value) => {
	const { now, wallSeconds } = Object(value) as Partial<Clock>;
	return typeof now === 'function' && typeof wallSeconds === 'function';
});

/** Options of the kinds `ANY` and `NARROWING` are checked by the function that reads them. */
const KINDS: Kinds<CommonOptions & KeyOptions> = {
	jwtPublicKey: ANY,
	issuer: ANY,
	audience: ANY,
	issuers: ANY,
	tenantRps: NARROWING,
	tenants: NARROWING,
	rateLimitHeaders: BOOLEAN,
	revoked: NARROWING,
	readyTimeoutMs: milliseconds(1),
	onEvent: FUNCTION,
	clock: CLOCK,
};

/** Adds the `RateLimit` fields to a refusal that is not about a limit. */
function withReport(rejection: Rejection, report: RateLimitFields | undefined): Rejection {
	return report === undefined ? rejection : rejection.withHeaders([...rejection.headers, ...report.fields]);
}

/** `undefined` if the tenant has no limit. */
function headersOf({ fields }: RateLimitFields): Readonly<Record<string, string>> | undefined {
	if (fields.length === 0) return undefined;
	return Object.freeze(Object.fromEntries(fields.flatMap((name, i) => (i % 2 ? [] : [[name, fields[i + 1]!]]))));
}

/** The issuers of the options: `issuers`, or the one of the short form. */
function readTrusted({ issuers, jwtPublicKey, issuer, audience }: GateOptions): ReadIssuers {
	if (issuers !== undefined) {
		if (jwtPublicKey === undefined && issuer === undefined && audience === undefined) return readIssuers(issuers);
		const message = 'issuers replaces jwtPublicKey, issuer and audience; give either issuers or these three';
		throw new GateError('ERR_GATE_ISSUERS', message);
	}
	const key = readKey('jwtPublicKey', jwtPublicKey, ['RS256'], OTHER_ALGORITHMS);
	const rules = {
		issuer: readExpectation('issuer', 'ERR_GATE_ISSUER', issuer),
		audience: readExpectation('audience', 'ERR_GATE_AUDIENCE', audience),
	};
	return { seeds: [issuerWithKey(key, rules)], remotes: [] };
}

const OTHER_ALGORITHMS = '; for other algorithms, give issuers: [{ publicKey, algorithms, … }] instead';
const NOTHING: Caller = {};

const NO_CALLER = TOKEN_INVALID.because('the caller given to check is not a plain object');
const NO_SCOPES = TOKEN_INVALID.because('the scopes given to check are not a list');
const NO_SUCH_MEMBER = TOKEN_INVALID.because(
	'the caller given to check has a member other than certificate and scopes',
);
const NOT_JUDGED = TOKEN_INVALID.because('could not be checked: the value, the certificate or the clock threw');

/**
 * `undefined` means that there is no value. `null` means a value that cannot be trusted: more than one, or not a string, which a
 * JavaScript caller may pass.
 */
function onlyValue(authorization: unknown): string | null | undefined {
	if (typeof authorization === 'string') return authorization;
	if (authorization === null || authorization === undefined) return undefined;
	if (!Array.isArray(authorization)) return null;
	if (authorization.length === 0) return undefined;
	const [only]: unknown[] = authorization;
	return authorization.length === 1 && typeof only === 'string' ? only : null;
}

/** `undefined` is refused: the check must not vanish because an environment variable is unset. */
function readExpectation(name: string, code: GateErrorCode, value: string | null): string | undefined {
	if (value === null) return undefined;
	if (typeof value === 'string' && value !== '') return value;
	throw new GateError(code, `${name} must be a non-empty string, or null to skip the check`);
}
