/** Writes configuration files: for the demo, and for tests that vary one key at a time. */

export type TomlValue =
	| string
	| number
	| boolean
	| readonly TomlValue[]
	| { readonly [key: string]: TomlValue | undefined };

/** The file's keys as they are spelled in it. Keys that are `undefined` are left out. */
export interface ConfigTables {
	readonly health_interval_secs?: number;
	readonly health_timeout_secs?: number;
	readonly default_cooldown_secs?: number;
	readonly tenant_rps?: number;
	readonly reload_on_change?: boolean;
	readonly revoked_path?: string | undefined;
	readonly tls: {
		readonly cert_path: string;
		readonly key_path: string;
		readonly client_ca_path: string;
		readonly min_version?: string;
		readonly crl_path?: string | readonly string[] | undefined;
		readonly crl_required?: boolean;
		readonly end_at_expiry?: boolean;
		readonly end_at_ca_removal?: boolean;
	};
	readonly health?: boolean;
	readonly health_path?: string;
	readonly unhealthy_after?: number;
	readonly healthy_after?: number;
	readonly upstream_idle_timeout_secs?: number;
	readonly jwt: {
		readonly jwks_path: string;
		readonly issuer?: string | undefined;
		readonly audience?: string | undefined;
		readonly certificate_bound?: string;
		readonly reload?: boolean;
		readonly rate_claim?: string;
		readonly max_rps?: number;
	};
	readonly listener?: Readonly<Record<string, TomlValue | undefined>>;
	readonly limits?: Readonly<Record<string, TomlValue | undefined>>;
	readonly breaker?: { readonly failures?: number; readonly tenants?: number };
	readonly log?: Readonly<Record<string, TomlValue | undefined>>;
	readonly limiter?: Readonly<Record<string, TomlValue | undefined>>;
	readonly trace?: Readonly<Record<string, TomlValue | undefined>>;
	readonly status?: { readonly tenants?: boolean; readonly hosts?: readonly string[] };
	readonly tenants?: readonly TenantEntry[];
	/** `[[upstreams]]`, by their own keys. */
	readonly upstreams?: readonly Readonly<Record<string, TomlValue | undefined>>[];
	readonly routes: readonly RouteEntry[];
}

export interface TenantEntry {
	readonly name: string;
	readonly rps?: number;
	readonly burst?: number;
	readonly concurrency?: number;
}

export interface RouteEntry {
	readonly prefix: string;
	/** `http://host:port`, or the name of one of `upstreams`. */
	readonly upstream: string;
	readonly cooldown_secs?: number;
	readonly max_body_bytes?: number;
	readonly body_timeout_secs?: number;
	readonly upstream_timeout_secs?: number;
	readonly failures?: number;
	readonly tenants?: number | readonly string[];
	readonly health?: boolean;
	readonly health_path?: string;
	readonly upstream_idle_timeout_secs?: number;
	readonly host?: string;
	readonly strip_prefix?: boolean;
	readonly case_insensitive?: boolean;
	readonly x_forwarded_host?: boolean;
	readonly x_forwarded_port?: boolean | number;
	readonly forwarded?: boolean;
	readonly allow?: readonly string[];
	readonly deny?: readonly string[];
	readonly scopes?: readonly string[];
	readonly client_cert?: string;
	readonly xfcc?: readonly string[];
	readonly rps?: number;
	readonly burst?: number;
}

/** The file's text. Keys outside any table come first, as TOML demands. */
export function renderConfig(config: ConfigTables): string {
	const {
		tls,
		listener,
		jwt,
		limits,
		breaker,
		log,
		limiter,
		trace,
		status,
		tenants = [],
		upstreams = [],
		routes,
		...top
	} = config;
	return [
		keys(top),
		table('[tls]', tls),
		...(listener === undefined ? [] : [table('[listener]', listener)]),
		table('[jwt]', jwt),
		...(limits === undefined ? [] : [table('[limits]', limits)]),
		...(breaker === undefined ? [] : [table('[breaker]', breaker)]),
		...(log === undefined ? [] : [table('[log]', log)]),
		...(limiter === undefined ? [] : [table('[limiter]', limiter)]),
		...(trace === undefined ? [] : [table('[trace]', trace)]),
		...(status === undefined ? [] : [table('[status]', status)]),
		...tenants.map((tenant) => table('[[tenants]]', tenant)),
		...upstreams.map((upstream) => table('[[upstreams]]', upstream)),
		...routes.map((route) => table('[[routes]]', route)),
	].join('\n');
}

function table(header: string, entries: object): string {
	return `${header}\n${keys(entries)}`;
}

function keys(entries: object): string {
	return Object.entries(entries as Record<string, TomlValue | undefined>)
		.filter(([, value]) => value !== undefined)
		.map(([key, value]) => `${key} = ${literal(value!)}\n`)
		.join('');
}

/** A JSON string is a TOML basic string but for DEL, which TOML wants escaped (TOML 1.0, "String"). */
function literal(value: TomlValue): string {
	if (Array.isArray(value)) return `[${value.map(literal).join(', ')}]`;
	if (typeof value === 'object') {
		const entries = Object.entries(value).flatMap(([key, one]) =>
			one === undefined ? [] : `${key} = ${literal(one)}`,
		);
		return `{ ${entries.join(', ')} }`;
	}
	return typeof value === 'string' ? JSON.stringify(value).replaceAll('\x7f', '\\u007f') : String(value);
}
