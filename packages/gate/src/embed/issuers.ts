import type { webcrypto } from 'node:crypto';
import { ALGORITHMS, type Algorithm, fitsAlgorithm } from '../gates/algorithm.ts';
import type { ClaimValue, RequiredClaim } from '../gates/required-claims.ts';
import { CERTIFICATE_BOUND, type CertificateBound } from '../identity/bound-token.ts';
import { DEFAULT_RULES, type IssuerRules, type IssuerSeed } from '../identity/issuer.ts';
import { type KeySetSeed, readJwks } from '../identity/key-set.ts';
import { type Fetch, type FetchInit, type FetchResponse, systemFetch } from '../jwks/fetch-keys.ts';
import { parseJwksUrl } from '../jwks/jwks-url.ts';
import type { RemoteIssuer } from '../jwks/remote-issuer.ts';
import { GateError } from './error.ts';
import {
	ANY,
	checkOptions,
	isName,
	isPlainObject,
	type Kinds,
	kind,
	NAME,
	NARROWING,
	narrowing,
	required,
} from './options.ts';
import { isRps, MAX_TENANT_RPS } from './quotas.ts';
import { readKey, type VerificationKey } from './verification-key.ts';

export type { Algorithm, CertificateBound, Fetch, FetchInit, FetchResponse };

/** A trusted issuer. Its keys come from one of `publicKey`, `jwks`, `jwksUrl` and `discovery`. */
export interface IssuerOptions {
	/** The `iss` of its tokens; it picks the issuer before any key is tried. */
	readonly issuer: string;
	/** The accepted `aud`, or a list of them; a token must carry one. `null` refuses tokens that carry any. */
	readonly audience: string | readonly string[] | null;
	/** Default `['RS256']`. */
	readonly algorithms?: readonly Algorithm[];
	/** One key, for tokens with any `kid`. */
	readonly publicKey?: VerificationKey;
	/** A JWK Set: its text, or the parsed object. `kid` chooses among its keys. */
	readonly jwks?: string | { readonly keys: readonly (webcrypto.JsonWebKey & { readonly kid?: string })[] };
	/** The URL of the JWK Set: `https:`, or `http:` on the loopback address. */
	readonly jwksUrl?: string | URL;
	/** Takes the URL of the set from the issuer's metadata (RFC 8414, OpenID Connect Discovery). */
	readonly discovery?: boolean;
	/**
	 * Fetches `jwksUrl`, or the URLs of `discovery`, for example with your own CAs. It must verify certificates and must not follow
	 * redirects. Default: Node's `fetch`.
	 */
	readonly fetch?: Fetch;
	/** Time between two fetches in ms, unless the response's `Cache-Control` says otherwise. Default 300,000. */
	readonly refreshMs?: number;
	/** How long keys stay valid while the issuer cannot be reached, in ms. Default 86,400,000 (a day). */
	readonly maxStaleMs?: number;
	/** The tolerance for `exp` and `nbf` in ms, 0 to 600,000. Default 60,000. */
	readonly leewayMs?: number;
	/** Put before the tenant of each token. With several issuers, each needs one, and none may be the beginning of another. Default: none. */
	readonly tenantPrefix?: string;
	/** The claim that names the tenant, or the path of names that leads to it. Default `sub`. */
	readonly tenantClaim?: string | readonly string[];
	/** Claims that tokens must have: a list of names, or an object of names with the required value or a list of accepted values. */
	readonly requiredClaims?: readonly string[] | Readonly<Record<string, ClaimValue | readonly ClaimValue[]>>;
	/** Whether tokens must be bound to the client's certificate (RFC 8705). Default `'if-present'`. */
	readonly certificateBound?: CertificateBound;
	/** The claim that says how many requests per second the tenant may make: a whole number, at least 1. */
	readonly rateClaim?: string;
	/** The upper bound for `rateClaim`: a larger claim counts as this. Default 1,000,000. */
	readonly maxRps?: number;
}

/** Issuers in the form that the gate uses. */
export interface ReadIssuers {
	/** Seeds of issuers with keys from the network have no keys yet. */
	readonly seeds: readonly IssuerSeed[];
	readonly remotes: readonly FetchedIssuer[];
}

export interface FetchedIssuer extends RemoteIssuer {
	readonly fetch: Fetch;
}

/**
 * @throws {GateError} `ERR_GATE_ISSUERS`, or `ERR_GATE_PUBLIC_KEY` for an invalid key.
 *
 * @internal
 */
export function readIssuers(options: readonly IssuerOptions[]): ReadIssuers {
	if (!Array.isArray(options) || options.length === 0) throw wrong('issuers', 'must be a list of at least one issuer');
	const read = options.map((one: IssuerOptions, i) => readIssuer(one, `issuers[${i}]`));
	for (const [i, { seed }] of read.entries()) {
		const others = read.slice(0, i).map((other) => other.seed);
		if (others.some(({ issuer }) => issuer === seed.issuer)) throw wrong(`issuers[${i}].issuer`, 'is duplicated');
		// `a` and `bob`, `ab` and `ob` would be one tenant.
		const isShared = ({ tenantPrefix }: IssuerSeed) =>
			tenantPrefix.startsWith(seed.tenantPrefix) || seed.tenantPrefix.startsWith(tenantPrefix);
		if (others.some(isShared)) {
			throw wrong(
				`issuers[${i}].tenantPrefix`,
				"must not equal or begin another issuer's prefix: tenants of two issuers could get the same name",
			);
		}
	}
	return { seeds: read.map(({ seed }) => seed), remotes: read.flatMap(({ remote }) => remote ?? []) };
}

const KINDS: Kinds<IssuerOptions> = {
	issuer: required(NAME),
	audience: required(
		kind(
			'must be a non-empty string, a list of them, or null',
			(value) => value === null || isName(value) || areNames(value),
		),
	),
	algorithms: narrowing(
		`must be a list of algorithms from ${ALGORITHMS.join(', ')}`,
		(value) => areNames(value) && value.every((one) => ALGORITHMS.includes(one as Algorithm)),
	),
	publicKey: ANY,
	jwks: ANY,
	jwksUrl: ANY,
	discovery: kind('must be a boolean', (value) => typeof value === 'boolean'),
	fetch: narrowing('must be a function', (value) => typeof value === 'function'),
	refreshMs: narrowing('must be a number', (value) => typeof value === 'number'),
	maxStaleMs: narrowing('must be a number', (value) => typeof value === 'number'),
	// A string would pass the comparisons, and `exp + '60'` would be a time far in the future.
	leewayMs: narrowing(
		'must be a number of ms from 0 to 600,000',
		(ms) => typeof ms === 'number' && ms >= 0 && ms <= 600_000,
	),
	tenantPrefix: narrowing(
		'must be up to 64 visible characters of ASCII',
		(value) => typeof value === 'string' && /^[\x21-\x7e]{0,64}$/.test(value),
	),
	tenantClaim: narrowing('must be the name of a claim, or the path of names to it', (value) =>
		areNames([value].flat()),
	),
	requiredClaims: NARROWING,
	certificateBound: narrowing(`must be one of ${CERTIFICATE_BOUND.join(', ')}`, (value) =>
		CERTIFICATE_BOUND.includes(value as CertificateBound),
	),
	rateClaim: narrowing('must be the name of a claim', isName),
	maxRps: narrowing(`must be a whole number from 1 to ${MAX_TENANT_RPS}`, isRps),
};

function readIssuer(given: IssuerOptions, place: string): { seed: IssuerSeed; remote?: FetchedIssuer } {
	const options = checkOptions<IssuerOptions>('ERR_GATE_ISSUERS', place, given, KINDS);
	const { issuer, audience, algorithms = DEFAULT_RULES.algorithms, leewayMs = 60_000 } = options;
	const { tenantPrefix = '', tenantClaim = 'sub', certificateBound = DEFAULT_RULES.certificateBound } = options;
	const { requiredClaims = [], rateClaim, maxRps } = options;
	if (maxRps !== undefined && rateClaim === undefined) throw wrong(`${place}.maxRps`, NO_RATE_CLAIM);
	const rules: IssuerRules = {
		issuer,
		audience: audience === null ? undefined : [audience].flat(),
		algorithms,
		leewaySeconds: leewayMs / 1000,
		tenantPrefix,
		tenantClaim: [tenantClaim].flat(),
		requiredClaims: readRequired(requiredClaims, `${place}.requiredClaims`),
		certificateBound,
		rateClaim: rateClaim === undefined ? undefined : { name: rateClaim, maxRps: maxRps ?? MAX_TENANT_RPS },
	};
	const remote = readRemote(options, rules, place);
	const keys = remote === undefined ? readKeys(options, algorithms, place) : undefined;
	return { seed: { ...rules, keys, remote: remote !== undefined }, ...(remote && { remote }) };
}

const NO_RATE_CLAIM = 'is the upper bound of rateClaim, which is not set; set rateClaim, too, or leave this out';
/** Options for keys from the network only. */
const NETWORK_KEYS = ['fetch', 'refreshMs', 'maxStaleMs'] as const;
const SOURCES = ['publicKey', 'jwks', 'jwksUrl', 'discovery'] as const;

function readRemote(options: IssuerOptions, rules: IssuerRules, place: string): FetchedIssuer | undefined {
	const given = SOURCES.filter((source) => options[source] !== undefined && options[source] !== false);
	if (given.length !== 1) throw wrong(place, `must have one of ${SOURCES.join(', ')}, but has ${given.length}`);
	const { issuer, jwksUrl, fetch = systemFetch, refreshMs = 300_000, maxStaleMs = 86_400_000 } = options;
	if (jwksUrl === undefined && options.discovery !== true) {
		const idle = NETWORK_KEYS.find((key) => options[key] !== undefined);
		if (idle !== undefined) throw wrong(`${place}.${idle}`, 'is only for jwksUrl and discovery; leave it out');
		return undefined;
	}
	const url = parseJwksUrl(String(jwksUrl ?? issuer));
	if (typeof url === 'string') {
		throw wrong(`${place}.${jwksUrl === undefined ? 'issuer' : 'jwksUrl'}`, `must be an https:// address: ${url}`);
	}
	if (!(refreshMs > 0 && Number.isFinite(refreshMs))) throw wrong(`${place}.refreshMs`, 'must be above 0');
	if (!(maxStaleMs >= refreshMs && Number.isFinite(maxStaleMs))) {
		throw wrong(`${place}.maxStaleMs`, 'must be at least refreshMs');
	}
	return {
		issuer,
		url: jwksUrl === undefined ? undefined : url.href,
		algorithms: rules.algorithms,
		refreshMs,
		maxStaleMs,
		fetch,
	};
}

function readKeys({ publicKey, jwks }: IssuerOptions, algorithms: readonly Algorithm[], place: string): KeySetSeed {
	if (publicKey !== undefined) {
		const key = readKey(`${place}.publicKey`, publicKey, algorithms);
		const pem = key.export({ type: 'spki', format: 'pem' }) as string;
		const fitting = algorithms.filter((algorithm) => fitsAlgorithm(key, algorithm));
		return { named: false, keys: [{ kid: undefined, pem, algorithms: fitting }] };
	}
	try {
		return readJwks(typeof jwks === 'string' ? jwks : JSON.stringify(jwks), algorithms).seed;
	} catch (error) {
		throw wrong(`${place}.jwks`, (error as Error).message);
	}
}

function readRequired(claims: NonNullable<IssuerOptions['requiredClaims']>, place: string): RequiredClaim[] {
	if (Array.isArray(claims) && claims.every(isName)) return claims.map((name) => ({ name, values: undefined }));
	if (!isPlainObject(claims)) {
		throw wrong(place, 'must be a list of claim names, or an object of claim names and required values');
	}
	return Object.entries(claims).map(([name, value]) => {
		const values: unknown[] = [value].flat();
		if (values.length > 0 && values.every(isClaimValue)) return { name, values };
		throw wrong(`${place}.${name}`, 'must be a string, a number, a boolean, or a non-empty list of these');
	});
}

function isClaimValue(value: unknown): value is ClaimValue {
	return ['string', 'number', 'boolean'].includes(typeof value);
}

function areNames(list: unknown): list is readonly string[] {
	return Array.isArray(list) && list.length > 0 && list.every(isName);
}

function wrong(place: string, message: string): GateError {
	return new GateError('ERR_GATE_ISSUERS', `${place} ${message}`);
}
