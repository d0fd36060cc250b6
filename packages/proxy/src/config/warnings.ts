import { refreshDoubt } from '@mtls-edge-proxy/gate/identity/key-refresh.ts';
import { isLoopback } from '@mtls-edge-proxy/gate/jwks/jwks-url.ts';
import { suggest } from '@mtls-edge-proxy/gate/words/suggest.ts';
import { RouteTable } from '../gates/routes.ts';
import { withoutSlash } from '../gates/strip-prefix.ts';
import type { RequestLimitsSeed } from '../shared/limits.ts';
import type { Config, UpstreamConfig } from './config.ts';
import { type ConfigProblem, problemAt } from './error.ts';
import { prefixDoubt } from './prefix.ts';
import { isAsStrict } from './strip-conflicts.ts';
import { HOST_WORDS } from './tables/forwarding.ts';
import { nobodysTenant } from './tenant-names.ts';
import { quote } from './wording.ts';

const HOUR_MS = 3_600_000;
const NO_AUDIENCE =
	'is not set: tokens without "aud" are accepted, whichever service they were issued for, and tokens with any "aud" ' +
	'are refused; set it unless this is a local test';

/** Allowed but rarely intended settings; logged at the start and after a reload. */
export function configWarnings(config: Config): ConfigProblem[] {
	const { jwt, issuers, upstreams, routes, tenants, tenantRps, limiter, trace, lines } = config;
	const warnings: ConfigProblem[] = [];
	const warn = (key: string, message: string) => void warnings.push(problemAt(lines, key, message));
	if (jwt !== undefined && jwt.issuer === undefined) {
		warn(
			'jwt.issuer',
			'is not set: tokens of any issuer are accepted if the key matches; set it unless this is a local test',
		);
	}
	const trusted = [
		...(jwt === undefined ? [] : [{ key: 'jwt', audience: jwt.audience, rateClaim: jwt.rateClaim }]),
		...issuers.map(({ rules: { audience, rateClaim } }, i) => ({ key: `issuers[${i}]`, audience, rateClaim })),
	];
	for (const { key, audience, rateClaim } of trusted) {
		if (audience === undefined) warn(`${key}.audience`, NO_AUDIENCE);
		if (rateClaim === undefined || tenantRps !== 0) continue;
		const message = 'limits only tokens that have the claim, because tenant_rps is 0; set tenant_rps, too';
		warn(`${key}.rate_claim`, message);
	}
	if (routes.length === 0) warn('routes', 'there are none, so every request gets 404; add [[routes]]');
	const named = new Set(routes.map(({ upstream }) => upstream.name));
	const warnOfProbes = (at: string, { health, protocol }: UpstreamConfig, remedy: string) => {
		for (const key of ['health_path', 'health_grpc']) {
			if (health !== undefined || lines[`${at}.${key}`] === undefined) continue;
			warn(`${at}.${key}`, 'is never requested, because health = false; remove one of the two');
		}
		if (health?.grpcService === undefined) return;
		const over = 'is over HTTP/2, but requests go over HTTP/1.1';
		if (protocol === 'http/1.1') warn(`${at}.health_grpc`, `${over}; write ${remedy}`);
		if (lines[`${at}.health_path`] === undefined) return;
		warn(`${at}.health_path`, 'has no effect with health_grpc; remove one of the two');
	};
	for (const [i, upstream] of upstreams.entries()) {
		const { name, tls } = upstream;
		warnOfProbes(`upstreams[${i}]`, upstream, 'protocol = "h2"');
		if (!named.has(name)) warn(`upstreams[${i}].name`, 'no route uses it; name it as the upstream of a route');
		if (tls?.verify === false) {
			warn(
				`upstreams[${i}].tls.insecure_skip_verify`,
				'is true: any server at these addresses, or on the way there, can read and change requests and responses; ' +
					'set ca_path, and remove this',
			);
		}
	}
	const warnIf = (key: string, doubt: string | undefined) => doubt !== undefined && warn(key, doubt);
	const table = new RouteTable(routes);
	for (const [i, { prefix, access, forwarding, upstream, webSocket }] of routes.entries()) {
		const bare = withoutSlash(prefix);
		const weaker = bare === prefix || bare === '' ? undefined : table.asWritten(bare);
		if (weaker !== undefined && !isAsStrict(weaker.access ?? {}, access ?? {})) {
			const other = `routes[${routes.indexOf(weaker)}]`;
			warn(
				`routes[${i}].prefix`,
				`${quote(prefix)} does not match ${quote(bare)}, which leads to ${other} with weaker rules, but many upstreams read the ` +
					`two as the same path; write ${quote(bare)}`,
			);
		} else if (bare !== prefix && bare !== '') {
			const message = `${quote(prefix)} matches only paths below it, not ${quote(bare)} itself; write ${quote(bare)} for both`;
			warn(`routes[${i}].prefix`, message);
		}
		if (upstream.name === undefined) warnOfProbes(`routes[${i}]`, upstream, 'h2c:// in upstream');
		for (const key of ['websocket_end_at_expiry', 'websocket_messages_per_sec']) {
			if (webSocket !== undefined || lines[`routes[${i}].${key}`] === undefined) continue;
			warn(`routes[${i}].${key}`, 'has no effect without websocket = true; add that, or remove this');
		}
		warnIf(`routes[${i}].prefix`, prefixDoubt(prefix));
		if (forwarding?.stripsPrefix && withoutSlash(prefix) === '') {
			warn(`routes[${i}].strip_prefix`, 'has no effect with the prefix "/"; leave it out');
		}
		const { host } = forwarding ?? {};
		const meant = typeof host === 'object' ? suggest(host.name, HOST_WORDS) : undefined;
		if (meant !== undefined)
			warn(`routes[${i}].host`, `is sent literally, as a host name; did you mean ${quote(meant)}?`);
		for (const [j, tenant] of access?.tenants?.entries() ?? [])
			warnIf(`routes[${i}].tenants[${j}]`, nobodysTenant(tenant, issuers));
	}
	for (const [i, { name, rate, concurrency }] of tenants.entries()) {
		warnIf(`tenants[${i}].name`, nobodysTenant(name, issuers));
		if (rate === undefined && concurrency === undefined) {
			warn(`tenants[${i}].name`, 'sets no limit for its tenant: add rps or concurrency, or remove the table');
		}
	}
	for (const [i, { keys }] of issuers.entries()) {
		warnIf(`issuers[${i}].max_stale_secs`, keys.type === 'network' ? refreshDoubt(keys) : undefined);
	}
	if (config.listener.proxyProtocolFrom.length === 0 && lines['listener.proxy_protocol_timeout_secs'] !== undefined) {
		warn('listener.proxy_protocol_timeout_secs', 'has no effect: proxy_protocol_from names no load balancer');
	}
	if (trace !== undefined && new URL(trace.endpoint).pathname === '/') {
		warn('trace.endpoint', 'has no path, and the proxy adds none; collectors accept spans at /v1/traces');
	}
	for (const [i, range] of config.listener.proxyProtocolFrom.entries()) {
		if (!range.endsWith('/0')) continue;
		warn(
			`listener.proxy_protocol_from[${i}]`,
			'is every address: any client that reaches the listener could claim any address; name only the load balancers',
		);
	}
	if (
		limiter?.passwordPath !== undefined &&
		limiter.store.some(({ tls, host }) => !tls && !isLoopback(host) && host !== '::1')
	) {
		warn('limiter.password_path', 'goes over the network in clear text; write rediss:// in limiter.store');
	}
	warnOfLimits(config, warn);
	return warnings;
}

/** Warns of the limits of all requests, and of the overrides of routes. */
function warnOfLimits({ limits, routes }: Config, warn: (key: string, message: string) => void): void {
	const { maxRequestBodyBytes, maxBufferedBytes, maxBufferedBytesPerTenant } = limits;
	const isLong = ({ upstreamTimeoutMs = 0 }: RequestLimitsSeed) => upstreamTimeoutMs > HOUR_MS;
	if (isLong(limits)) warn('limits.upstream_timeout_secs', TOO_LONG);
	const tooSmall = 'is less than limits.max_request_body_bytes: the largest allowed bodies never fit';
	if (maxBufferedBytes < maxRequestBodyBytes) warn('limits.max_buffered_bytes', tooSmall);
	if (maxBufferedBytesPerTenant < Math.min(maxRequestBodyBytes, maxBufferedBytes)) {
		warn('limits.max_buffered_bytes_per_tenant', tooSmall);
	}
	for (const [i, { requestLimits: own = {} }] of routes.entries()) {
		if (isLong(own)) warn(`routes[${i}].upstream_timeout_secs`, TOO_LONG);
		const held = Math.min(maxBufferedBytes, maxBufferedBytesPerTenant);
		if ((own.maxBodyBytes ?? 0) <= held) continue;
		const budget = held === maxBufferedBytes ? 'max_buffered_bytes' : 'max_buffered_bytes_per_tenant';
		const message = `is more than limits.${budget} (${held}): in collected mode the largest allowed bodies never fit`;
		warn(`routes[${i}].max_body_bytes`, message);
	}
}

const TOO_LONG =
	'is more than an hour: requests to an upstream that hangs keep their memory and their places for that long; set it just above the slowest legitimate response';
