import { z } from 'zod';
import { MAX_RPS } from '../gates/tenant-limit.ts';
import { breaker } from './tables/breaker.ts';
import { forwardingKeys } from './tables/forwarding.ts';
import { issuer } from './tables/issuers.ts';
import { jwt } from './tables/jwt.ts';
import {
	emptyIfAbsent,
	expected,
	explained,
	file,
	flag,
	folder,
	MAX_SECONDS,
	seconds,
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
import { upstreamTls } from './tables/upstream-tls.ts';
import { upstream } from './tables/upstreams.ts';

/**
 * The whole file: its tables, each in a file of its own, and the keys above the first of them, in the file's own names and
 * units. Unknown keys are reported by `diagnose.ts`.
 */
export const configFile = z.strictObject({
	health_interval_secs: seconds(5).meta(
		explained('interval of the health probes; those of many upstreams are spread over it', { read: 'at start' }),
	),
	...upstreamKeys,
	...forwardingKeys,
	default_cooldown_secs: wholeNumberOr(30, 1, MAX_SECONDS, 'of seconds').describe(
		'how long the breakers of routes that set no `cooldown_secs` stay open before one request is let through',
	),
	tenant_rps: wholeNumberOr(1000, 0, MAX_RPS, 'of requests per second').meta(
		explained('requests per second for each tenant of which nothing else is said, and as many at once; 0: no limit', {
			read: 'at start',
		}),
	),
	reload_on_change: flag('false')
		.default(false)
		.meta(
			explained(
				'watch the configuration and the files of certificates, keys, CAs, revocations and issuers, and reload when they have changed',
				{ read: 'at start' },
			),
		),
	revoked_path: file('revoked certificates, tokens and tenants, TOML')
		.optional()
		.meta(
			explained('TOML file of what is revoked by hand: `certificates`, `serials`, `tokens`, `tenants`', {
				unset: 'none',
			}),
		),
	state_dir: folder('what is to outlive the process')
		.optional()
		.meta(
			explained(
				'folder for what is to outlive the process: the last good keys of issuers; made with mode 0700 if missing',
				{ unset: 'none', read: 'at start' },
			),
		),
	tls: emptyIfAbsent(tls),
	listener: emptyIfAbsent(listener),
	jwt: emptyIfAbsent(jwt),
	issuers: z.array(issuer, { error: expected('a list of tables', 'write [[issuers]], with two brackets') }).default([]),
	breaker: emptyIfAbsent(breaker),
	tenants: z.array(tenant, { error: expected('a list of tables', 'write [[tenants]], with two brackets') }).default([]),
	upstreams: z
		.array(upstream, { error: expected('a list of tables', 'write [[upstreams]], with two brackets') })
		.default([]),
	routes: z.array(route, { error: expected('a list of tables', 'write [[routes]], with two brackets') }).default([]),
	limits: emptyIfAbsent(limits),
	log: emptyIfAbsent(log),
	metrics: emptyIfAbsent(metrics),
	trace: trace.optional(),
	limiter: limiter.optional(),
	status: emptyIfAbsent(status),
});

/** What the file says, with defaults filled in. */
export type ConfigFile = z.output<typeof configFile>;

/** The keys of each table; `''` stands for what comes before the first table header. */
export const KEYS: ReadonlyMap<string, readonly string[]> = new Map([
	['', Object.keys(configFile.shape)],
	['tls', Object.keys(tls.shape)],
	['listener', Object.keys(listener.shape)],
	['jwt', Object.keys(jwt.shape)],
	['issuers', Object.keys(issuer.shape)],
	['limits', Object.keys(limits.shape)],
	['breaker', Object.keys(breaker.shape)],
	['log', Object.keys(log.shape)],
	['metrics', Object.keys(metrics.shape)],
	['trace', Object.keys(trace.shape)],
	['limiter', Object.keys(limiter.shape)],
	['status', Object.keys(status.shape)],
	['tenants', Object.keys(tenant.shape)],
	['upstreams', Object.keys(upstream.shape)],
	['upstreams.tls', Object.keys(upstreamTls.shape)],
	['routes', Object.keys(route.shape)],
]);
