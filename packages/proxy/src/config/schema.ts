import { MAX_RPS } from '@mtls-edge-proxy/gate/gates/tenant-limit.ts';
import { z } from 'zod';
import { tablesIn } from './diagnose.ts';
import { breaker } from './tables/breaker.ts';
import { forwardingKeys } from './tables/forwarding.ts';
import { issuer } from './tables/issuers.ts';
import { jwt } from './tables/jwt.ts';
import {
	emptyIfAbsent,
	file,
	flagOr,
	folder,
	MAX_SECONDS,
	optional,
	seconds,
	tables,
	wholeNumberOr,
} from './tables/kinds.ts';
import { limiter } from './tables/limiter.ts';
import { limits } from './tables/limits.ts';
import { listener } from './tables/listener.ts';
import { log } from './tables/log.ts';
import { metrics } from './tables/metrics.ts';
import { route } from './tables/routes.ts';
import { status } from './tables/status.ts';
import { tenant } from './tables/tenants.ts';
import { tls } from './tables/tls.ts';
import { trace } from './tables/trace.ts';
import { upstreamKeys } from './tables/upstream-keys.ts';
import { upstream } from './tables/upstreams.ts';

/**
 * The whole file: its tables, each in a file of its own, and the keys above the first of them, in the file's own names and
 * units. Unknown keys are reported by `diagnose.ts`.
 */
export const configFile = z.strictObject({
	health_interval_secs: seconds(5).meta({
		description: 'interval of the health probes. If there are many upstreams, their probes are spread over it',
		read: 'at startup',
	}),
	...upstreamKeys,
	...forwardingKeys,
	default_cooldown_secs: wholeNumberOr(30, 1, MAX_SECONDS, 'of seconds').describe(
		'how long a breaker stays open before it admits one request, for routes without `cooldown_secs`',
	),
	tenant_rps: wholeNumberOr(1000, 0, MAX_RPS, 'of requests per second').meta({
		description: 'requests per second, and burst, for each tenant without a limit of its own; 0: no limit',
		read: 'at startup',
	}),
	reload_on_change: flagOr(false).meta({
		description:
			'watch the configuration and the files of certificates, keys, CAs, revocations and issuers, and reload when they change',
		read: 'at startup',
	}),
	revoked_path: optional(
		file('revoked certificates, tokens and tenants, TOML'),
		'TOML file of manual revocations: `certificates`, `serials`, `tokens`, `tenants`',
		'none',
	),
	state_dir: optional(
		folder('state that outlives the process'),
		'folder for state that outlives the process: the last good keys of issuers. The proxy creates it with mode 0700',
		'none',
		'at startup',
	),
	tls: emptyIfAbsent(tls),
	listener: emptyIfAbsent(listener),
	jwt: emptyIfAbsent(jwt),
	issuers: tables('issuers', issuer),
	limits: emptyIfAbsent(limits),
	breaker: emptyIfAbsent(breaker),
	log: emptyIfAbsent(log),
	metrics: emptyIfAbsent(metrics),
	trace: trace.optional(),
	limiter: limiter.optional(),
	status: emptyIfAbsent(status),
	tenants: tables('tenants', tenant),
	upstreams: tables('upstreams', upstream),
	routes: tables('routes', route),
});

/** The content of the file, with defaults filled in. */
export type ConfigFile = z.output<typeof configFile>;

/** All tables of the file, in the order of the schema. */
export const TABLES = tablesIn(configFile);

/** The keys of each table; `''`: the keys above the first table. */
export const KEYS: ReadonlyMap<string, readonly string[]> = new Map(
	Array.from(TABLES, ([name, { keys }]) => [name, keys]),
);
