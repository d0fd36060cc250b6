import {
	CERTIFICATE_FORBIDDEN,
	insufficientScope,
	type Rejection,
	TENANT_FORBIDDEN,
} from '@mtls-edge-proxy/gate/gates/rejection.ts';
import type { VerifiedToken } from '@mtls-edge-proxy/gate/gates/token-cache.ts';
import type { Caller } from './caller.ts';
import type { NameReader } from './certificate-names.ts';
import { type NamePattern, parseNamePattern } from './name-pattern.ts';
import { NameRules } from './name-rules.ts';

/** Who may use a route, as the control plane sends it to the workers. A rule that is `undefined` is not checked. */
export interface RouteAccessSeed {
	/** Patterns of `name-pattern.ts`. */
	readonly allow: readonly string[] | undefined;
	readonly deny: readonly string[] | undefined;
	/** Spelled exactly as in `x-proxy-tenant`. */
	readonly tenants: readonly string[] | undefined;
	/** A token needs all of these scopes (RFC 6749 section 3.3). */
	readonly scopes: readonly string[] | undefined;
}

/** A connection with its client certificate. */
interface CallerSource {
	/** `undefined` once the connection is gone. */
	readonly caller: Caller | undefined;
}

/** Who may use a route: certificates by their names, tenants, tokens by their scopes. Only routes with such rules have one. */
export class RouteAccess {
	readonly #names: NameRules | undefined;
	readonly #tenants: ReadonlySet<string> | undefined;
	readonly #scopes: readonly string[];
	readonly #insufficient: Rejection;

	/**
	 * @param read for seeds with `allow` or `deny`.
	 * @throws Error if a pattern is malformed; the configuration has checked them earlier.
	 */
	constructor({ allow, deny, tenants, scopes = [] }: RouteAccessSeed, read: NameReader | undefined) {
		if (allow !== undefined || deny !== undefined) {
			if (read === undefined) throw new Error('names in certificates cannot be read');
			this.#names = new NameRules(allow?.map(namePattern), (deny ?? []).map(namePattern), read);
		}
		this.#tenants = tenants && new Set(tenants);
		this.#scopes = scopes;
		this.#insufficient = insufficientScope(scopes);
	}

	/** Why this caller with this token may not use the route. */
	refuse(connection: CallerSource, { tenant, claims }: VerifiedToken): Rejection | undefined {
		if (this.#names !== undefined) {
			const { caller } = connection;
			const forbidden = caller === undefined ? NO_CERTIFICATE : caller.judge(this.#names);
			if (forbidden !== undefined) return forbidden;
		}
		if (this.#tenants?.has(tenant) === false) return TENANT_FORBIDDEN;
		if (this.#scopes.length > 0) {
			for (const scope of this.#scopes) if (!claims.scopes.has(scope)) return this.#insufficient;
		}
		return undefined;
	}
}

/** The connection is gone, so its certificate cannot be read any more. */
export const NO_CERTIFICATE = CERTIFICATE_FORBIDDEN.because('no certificate');

function namePattern(text: string): NamePattern {
	const pattern = parseNamePattern(text);
	if ('wanted' in pattern) throw new Error(`${text} is not a name pattern: it must be ${pattern.wanted}`);
	return pattern;
}
