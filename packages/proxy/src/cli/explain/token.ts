import { bearerToken, MAX_TOKEN_LENGTH } from '@mtls-edge-proxy/gate/gates/bearer.ts';
import {
	claimsOf,
	type ParsedToken,
	parseToken,
	peekIssuer,
	readPayload,
	refuseAudience,
	refuseExpiry,
	refuseIssuer,
	refuseNotBefore,
	verifySignature,
	WRONG_ISS,
} from '@mtls-edge-proxy/gate/gates/jwt.ts';
import { Rejection } from '@mtls-edge-proxy/gate/gates/rejection.ts';
import { refuseClaims } from '@mtls-edge-proxy/gate/gates/required-claims.ts';
import { readTenant } from '@mtls-edge-proxy/gate/gates/tenant-claim.ts';
import type { VerifiedToken } from '@mtls-edge-proxy/gate/gates/token-cache.ts';
import { confirmationOf } from '@mtls-edge-proxy/gate/identity/bound-token.ts';
import type { Issuer, IssuerSeed } from '@mtls-edge-proxy/gate/identity/issuer.ts';
import { readRateClaim } from '@mtls-edge-proxy/gate/identity/quotas.ts';
import type { RevokedTokens } from '@mtls-edge-proxy/gate/identity/revocations.ts';
import type { Trust } from '@mtls-edge-proxy/gate/identity/trust.ts';
import type { Config } from '../../config/config.ts';
import { show } from '../../config/wording.ts';
import { inWords, placeOf, timeOf } from './places.ts';
import type { Check } from './report.ts';

/** Everything that a token is judged with. */
interface TokenJudges {
	readonly trust: Trust;
	readonly issuers: readonly IssuerSeed[];
	readonly revoked: RevokedTokens;
	readonly config: Config;
	/** Wall-clock time, seconds since the epoch. */
	readonly nowSeconds: number;
}

interface TokenReading {
	/** In the order of the authenticator, which stops at the first refusal; this list does not. */
	readonly checks: readonly Check[];
	/** The verified token if it had no fault; `undefined` if unknown. */
	readonly token: VerifiedToken | undefined;
}

/** Runs all checks on a token, including those after a refusal. */
export function readToken(authorization: string | null | undefined, judges: TokenJudges): TokenReading {
	const checks: Check[] = [];
	const token = bearerToken(authorization);
	checks.push(check('bearer', token, bearerWords(authorization)));
	if (token instanceof Rejection) return { checks, token: undefined };
	const parsed = parseToken(token);
	checks.push(check('header', parsed, headerWords(token)));
	if (parsed instanceof Rejection) return { checks, token: undefined };
	const issuer = judges.trust.issuerOf(parsed);
	if (issuer === undefined) {
		const known = judges.issuers.map((one) => show(one.issuer)).join(', ');
		checks.push(refused('issuer', WRONG_ISS, `iss is ${say(peekIssuer(parsed))}; [[issuers]] has ${known}`));
		return { checks, token: undefined };
	}
	const rules = new RulesOf(issuer, judges);
	const key = verifySignature(parsed, issuer);
	checks.push(check('key', key, rules.keyWords(parsed, key)));
	const payload = readPayload(parsed);
	if (payload instanceof Rejection) {
		checks.push(refused('claims', payload, 'the second part is not a readable JSON object'));
		return { checks, token: undefined };
	}
	return { checks, token: readClaims(payload, issuer, rules, judges, checks) };
}

type Payload = Readonly<Record<string, unknown>>;

function readClaims(
	payload: Payload,
	issuer: Issuer,
	words: RulesOf,
	{ revoked, nowSeconds }: TokenJudges,
	checks: Check[],
): VerifiedToken | undefined {
	const { rules } = issuer;
	const { leewaySeconds } = rules;
	const expiry = refuseExpiry(payload, leewaySeconds, nowSeconds);
	checks.push(check('exp', expiry, words.time('exp', payload.exp)));
	const notBefore = refuseNotBefore(payload, leewaySeconds, nowSeconds);
	checks.push(check('nbf', notBefore, words.time('nbf', payload.nbf)));
	checks.push(check('iss', refuseIssuer(payload, rules.issuer), words.issuer(payload.iss)));
	checks.push(check('aud', refuseAudience(payload, rules.audience), words.audience(payload.aud)));
	for (const claim of rules.requiredClaims) {
		checks.push(check(`claim ${claim.name}`, refuseClaims(payload, [claim]), words.required(payload, claim)));
	}
	const tenant = readTenant(payload, rules.tenantClaim);
	checks.push(check('tenant', tenant, words.tenant(payload, tenant)));
	const confirmation = confirmationOf(payload, rules.certificateBound);
	checks.push(check('cnf', confirmation instanceof Rejection ? confirmation : undefined, words.bound(confirmation)));
	const claimedRps = readRateClaim(payload, rules.rateClaim);
	if (rules.rateClaim !== undefined) checks.push(check('rate claim', claimedRps, words.rate(payload)));
	if (tenant instanceof Rejection) return undefined;
	const claims = claimsOf(payload, tenant);
	const named = rules.tenantPrefix + tenant;
	const revocation = revoked.refuse({ claims, tenant: named });
	checks.push(check('revocation', revocation, revocation === undefined ? words.notRevoked() : words.revoked()));
	return {
		claims,
		tenant: named,
		leewaySeconds,
		confirmation: confirmation instanceof Rejection ? undefined : confirmation,
		claimedRps: claimedRps instanceof Rejection ? undefined : claimedRps,
		// No owner: this token is never remembered.
		vouchedBy: '',
	};
}

function check(name: string, said: unknown, detail: string): Check {
	return said instanceof Rejection ? refused(name, said, detail) : { name, verdict: 'ok', detail };
}

function refused(name: string, { reason }: Rejection, detail: string): Check {
	return { name, verdict: 'refused', reason, detail };
}

function bearerWords(authorization: string | null | undefined): string {
	if (authorization === undefined) return 'there is no authorization field: give --token, --token-file or --header';
	if (authorization === null) return 'there are two authorization fields; send one';
	const space = authorization.indexOf(' ');
	if (space === -1) return 'the field is not "Bearer TOKEN": it has no space';
	const token = authorization.slice(space + 1);
	return `a token of ${token.length} characters, at most ${MAX_TOKEN_LENGTH}`;
}

/** The header in printable words; it is not verified. */
function headerWords(token: string): string {
	const parts = token.split('.');
	if (parts.length !== 3) return `a JWT has three parts with dots between them; this token has ${parts.length}`;
	let header: Payload;
	try {
		header = JSON.parse(Buffer.from(parts[0]!, 'base64url').toString()) as Payload;
	} catch {
		return 'the first part is not JSON in base64url';
	}
	const members = ['alg', 'kid', 'typ', 'crit', 'b64'].filter((name) => Object.hasOwn(header ?? {}, name));
	return members.length === 0 ? 'no alg' : members.map((name) => `${name} ${say(header[name])}`).join(', ');
}

/** A value of a token on one line. */
function say(value: unknown): string {
	if (value === undefined) return 'absent';
	if (Array.isArray(value)) return `[${value.slice(0, 5).map(say).join(', ')}${value.length > 5 ? ', …' : ''}]`;
	return typeof value === 'object' && value !== null ? 'an object' : show(value);
}

/** An issuer's rules in words, each with its place in the configuration. */
class RulesOf {
	readonly #issuer: Issuer;
	readonly #judges: TokenJudges;
	/** `jwt`, `issuers[1]`. */
	readonly #table: string;
	readonly #seed: IssuerSeed;

	constructor(issuer: Issuer, judges: TokenJudges) {
		this.#issuer = issuer;
		this.#judges = judges;
		const nth = judges.issuers.findIndex((seed) => seed.issuer === issuer.rules.issuer);
		this.#table = judges.config.jwt === undefined ? `issuers[${nth}]` : 'jwt';
		this.#seed = judges.issuers[Math.max(nth, 0)]!;
	}

	keyWords({ alg, kid }: ParsedToken, key: unknown): string {
		const { algorithms } = this.#issuer.rules;
		if (!(algorithms as readonly unknown[]).includes(alg)) {
			return `alg is ${say(alg)}; ${this.#place('algorithms')} allows ${algorithms.join(', ')}`;
		}
		const { keys } = this.#seed;
		if (keys === undefined) return 'there are no keys of the issuer';
		const names = keys.keys.map((one) => say(one.kid));
		const set = keys.named ? `the set has kid ${names.slice(0, 8).join(', ')}${names.length > 8 ? ', …' : ''}` : '';
		if (!(key instanceof Rejection))
			return keys.named ? `signed by the key ${say(kid)} of the set` : 'signed by the key';
		if (key.reason === 'signature') {
			const tried = keys.named && kid !== undefined ? `the key ${say(kid)}` : 'any key of the issuer';
			return `not signed by ${tried}${set === '' ? ` (${this.#place('jwks_path')})` : `; ${set}`}`;
		}
		return `kid is ${say(kid)}, alg ${say(alg)}; ${set}`;
	}

	time(name: 'exp' | 'nbf', value: unknown): string {
		if (typeof value !== 'number')
			return name === 'nbf' && value === undefined ? 'absent' : `${say(value)}; must be a number`;
		const { leewaySeconds } = this.#issuer.rules;
		const off = value - this.#judges.nowSeconds;
		const when = off < 0 ? `${inWords(-off)} ago` : `in ${inWords(off)}`;
		return `${timeOf(value)}, ${when}; now ${timeOf(this.#judges.nowSeconds)}, leeway ${leewaySeconds} s`;
	}

	issuer(iss: unknown): string {
		const { issuer } = this.#issuer.rules;
		if (issuer === undefined) return `${say(iss)}; ${this.#table}.issuer is not set: any value passes`;
		return `${say(iss)}; ${this.#place('issuer')} wants ${show(issuer)}`;
	}

	audience(aud: unknown): string {
		const { audience } = this.#issuer.rules;
		if (audience === undefined) return `${say(aud)}; ${this.#table}.audience is not set: the token must have none`;
		return `${say(aud)}; ${this.#place('audience')} wants ${audience.map(show).join(' or ')}`;
	}

	required(
		payload: Payload,
		{ name, values }: { readonly name: string; readonly values: readonly unknown[] | undefined },
	) {
		const wanted = values === undefined ? 'any value' : values.map(show).join(' or ');
		return `${say(Object.hasOwn(payload, name) ? payload[name] : undefined)}; ${this.#place('required_claims')} wants ${wanted}`;
	}

	tenant(payload: Payload, tenant: string | Rejection): string {
		const { tenantClaim, tenantPrefix } = this.#issuer.rules;
		const path = tenantClaim.join('.');
		if (typeof tenant === 'string') return `${show(tenantPrefix + tenant)}, from ${path}`;
		const claim = tenantClaim.length === 1 ? say(payload[tenantClaim[0]!]) : 'invalid';
		return `${path} is ${claim}; must be 1 to 256 visible ASCII characters, without a space at either end`;
	}

	bound(confirmation: Buffer | undefined | Rejection): string {
		const rule = `certificate_bound is "${this.#issuer.rules.certificateBound}"`;
		if (confirmation instanceof Rejection)
			return `${confirmation.reason}; ${this.#place('certificate_bound')}: ${rule}`;
		if (confirmation === undefined) return `not bound to a certificate; ${rule}`;
		return `bound to the certificate sha256:${confirmation.toString('hex').slice(0, 16)}…`;
	}

	rate(payload: Payload): string {
		const { name, maxRps } = this.#issuer.rules.rateClaim!;
		return `${name} is ${say(payload[name])}; must be a whole number of at least 1, and counts up to ${maxRps}`;
	}

	revoked(): string {
		return `named in ${placeOf(this.#judges.config, 'revoked_path')}`;
	}

	notRevoked(): string {
		return this.#judges.config.revokedPath === undefined ? 'there is no revoked_path' : 'not named in revoked_path';
	}

	#place(key: string): string {
		return placeOf(this.#judges.config, `${this.#table}.${key}`);
	}
}
