import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import fc from 'fast-check';
import type { Limits } from '../../../packages/proxy/src/config/config.ts';
import type { ConfigError } from '../../../packages/proxy/src/config/error.ts';
import { loadConfig } from '../../../packages/proxy/src/config/load.ts';
import { KEYS } from '../../../packages/proxy/src/config/schema.ts';
import { DEFAULT_BUCKETS, DEFAULT_GATE_BUCKETS } from '../../../packages/proxy/src/config/tables/metrics.ts';
import { DEFAULT_BALANCING } from '../../../packages/proxy/src/gates/balancing/settings.ts';
import { anyText } from '../../fixtures/any-text.ts';
import { MINIMAL } from './minimal.ts';
import { errorIn, parseConfig as parse } from './parse.ts';

/** What holds for a route unless the file says otherwise. */
const OF_TODAY = {
	trailers: true,
	opening: { failures: 1, tenants: 1 },
	access: undefined,
	certificateHeaders: undefined,
	forwarding: undefined,
	requestLimits: undefined,
	webSocket: undefined,
	rate: undefined,
};
const HEALTH_OF_TODAY = { path: '/health', timeoutMs: 2000, unhealthyAfter: 1, healthyAfter: 1 };

/** The upstream that a route's URL means without other settings. */
function upstreamOfToday(authority: string, host: string, port: number) {
	return {
		name: undefined,
		addresses: [{ authority, host, port }],
		balancing: DEFAULT_BALANCING,
		tls: undefined,
		protocol: 'http/1.1',
		health: HEALTH_OF_TODAY,
		idleTimeoutMs: 4000,
	};
}

describe('a valid configuration', () => {
	it('needs only the TLS files and the token key', () => {
		const { atStart, ...config } = parse(MINIMAL);
		assert.equal(atStart.tenant_rps, '1000');
		assert.deepEqual(config, {
			path: 'config.toml',
			lines: {
				tls: 2,
				'tls.cert_path': 3,
				'tls.key_path': 4,
				'tls.client_ca_path': 5,
				jwt: 6,
				'jwt.jwks_path': 7,
			},
			healthIntervalMs: 5000,
			tenantRps: 1000,
			reloadOnChange: false,
			tls: {
				certPath: 'server.pem',
				keyPath: 'server.key',
				clientCaPath: 'ca.pem',
				crlPath: [],
				crlRequired: false,
				endAtExpiry: true,
				endAtCaRemoval: false,
			},
			revokedPath: undefined,
			jwt: {
				jwksPath: 'jwt.pem',
				issuer: undefined,
				audience: undefined,
				certificateBound: 'if-present',
				rateClaim: undefined,
				reload: false,
			},
			issuers: [],
			issuerFiles: [],
			stateDir: undefined,
			tenants: [],
			reloadsIdentity: false,
			upstreams: [],
			routes: [],
			limits: {
				maxRequestBodyBytes: 8_388_608,
				requestBodyTimeoutMs: 30_000,
				upstreamTimeoutMs: 30_000,
				tlsHandshakeTimeoutMs: 10_000,
				firstRequestTimeoutMs: 10_000,
				h2MaxConcurrentStreams: 64,
				shutdownDrainMs: 25_000,
				shutdownDelayMs: 0,
				maxHeaderBytes: 16_384,
				maxBufferedBytes: 1_073_741_824,
				maxBufferedBytesPerTenant: 536_870_912,
				maxConnectionAgeMs: 0,
				rateLimitHeaders: false,
			},
			listener: { proxyProtocolFrom: [], proxyProtocolTimeoutMs: 5000 },
			log: { access: 'off', requestId: false },
			metrics: { buckets: DEFAULT_BUCKETS, gateBuckets: DEFAULT_GATE_BUCKETS },
			limiter: undefined,
			trace: undefined,
			status: {
				tenants: false,
				hosts: [],
				shareBounds: { share: { '401': 0.2, '429': 0.2, '5xx': 0.05, grpc: 0.05, handshakes: 0.2 }, least: 20 },
			},
		});
	});

	it('accepts one CRL file or several, and the related keys', () => {
		const keys = 'crl_required = true\nend_at_expiry = false\nend_at_ca_removal = true';
		const withTls = (lines: string) => parse(MINIMAL.replace('[tls]', `[tls]\n${lines}`)).tls;
		const tls = withTls(`crl_path = "one.crl"\n${keys}`);
		assert.deepEqual(tls.crlPath, ['one.crl']);
		assert.deepEqual([tls.crlRequired, tls.endAtExpiry, tls.endAtCaRemoval], [true, false, true]);
		assert.deepEqual(withTls('crl_path = ["one.crl", "two.crl"]').crlPath, ['one.crl', 'two.crl']);
		const top = parse(
			`revoked_path = "revoked.toml"${MINIMAL}certificate_bound = "required"\n[limits]\nmax_connection_age_secs = 1.5`,
		);
		assert.equal(top.revokedPath, 'revoked.toml');
		assert.equal(top.jwt?.certificateBound, 'required');
		assert.equal(top.limits.maxConnectionAgeMs, 1500);
	});

	it('refuses contradictory CRL settings', () => {
		const withTls = (line: string) => errorOf(MINIMAL.replace('[tls]', `[tls]\n${line}`)).message.split('\n');
		assert.deepEqual(withTls('crl_required = true'), [
			'config.toml:3: tls.crl_required: is true, but there is no tls.crl_path, so no client could connect; set tls.crl_path, or remove this',
		]);
		assert.match(
			withTls('crl_path = []').join(),
			/config.toml:3: tls.crl_path: must be the path of a file, or a list of them/,
		);
		assert.match(withTls('crl_path = ["a", 7]').join(), /config.toml:3: tls.crl_path\[1\]: must be the path of a file/);
		assert.match(
			withTls('crl_path = "https://ca.test/x.crl"').join(),
			/not a URL .*nothing is fetched over the network/,
		);
	});

	it('has the settings of the access log', () => {
		for (const access of ['off', 'errors', 'all']) {
			const { log } = parse(`${MINIMAL}[log]\naccess = "${access}"\nrequest_id = true`);
			assert.deepEqual(log, { access, requestId: true });
		}
	});

	it('carries over every key', () => {
		const { healthIntervalMs, tenantRps, jwt, routes } = parse(`
			health_interval_secs = 7
			default_cooldown_secs = 9
			tenant_rps = 0
			${MINIMAL}
			issuer = "https://issuer.example"
			audience = "edge"
			[[routes]]
			prefix = "/api"
			upstream = "http://API.internal:3000"
			[[routes]]
			prefix = "/"
			upstream = "http://[0:0:0:0:0:0:0:1]"
			cooldown_secs = 1
		`);
		assert.deepEqual({ healthIntervalMs, tenantRps }, { healthIntervalMs: 7000, tenantRps: 0 });
		assert.deepEqual(jwt, {
			jwksPath: 'jwt.pem',
			issuer: 'https://issuer.example',
			audience: 'edge',
			certificateBound: 'if-present',
			rateClaim: undefined,
			reload: false,
		});
		assert.deepEqual(routes, [
			{
				prefix: '/api',
				caseInsensitive: false,
				upstream: upstreamOfToday('api.internal:3000', 'api.internal', 3000),
				cooldownMs: 9000,
				...OF_TODAY,
			},
			{
				prefix: '/',
				caseInsensitive: false,
				upstream: upstreamOfToday('[::1]:80', '::1', 80),
				cooldownMs: 1000,
				...OF_TODAY,
			},
		]);
	});

	it("accepts a route's own limits, with or without units", () => {
		const limitsOf = (keys: string) =>
			parse(`${MINIMAL}[[routes]]\nprefix = "/"\nupstream = "http://a"\n${keys}`).routes[0]!.requestLimits;
		const none = {
			...{ maxBodyBytes: undefined, bodyTimeoutMs: undefined, upstreamTimeoutMs: undefined },
			...{ idleTimeoutMs: undefined, endsAtExpiry: undefined },
		};
		assert.deepEqual(limitsOf('max_body_bytes = "1MiB"\nbody_timeout_secs = "5m"\nupstream_timeout_secs = 0.5'), {
			...none,
			...{ maxBodyBytes: 1024 * 1024, bodyTimeoutMs: 300_000, upstreamTimeoutMs: 500 },
		});
		assert.deepEqual(limitsOf('upstream_timeout_secs = "1h"'), { ...none, upstreamTimeoutMs: 3_600_000 });
		assert.deepEqual(limitsOf('upstream_timeout_secs = 0\nidle_timeout_secs = "1h"\nend_streams_at_expiry = true'), {
			...none,
			...{ upstreamTimeoutMs: 0, idleTimeoutMs: 3_600_000, endsAtExpiry: true },
		});
		for (const wrong of [
			'max_body_bytes = 0',
			'max_body_bytes = "5m"',
			'body_timeout_secs = 0',
			'upstream_timeout_secs = -1',
		]) {
			const key = wrong.split(' ')[0];
			assert.throws(
				() => limitsOf(wrong),
				new RegExp(`config\\.toml:[0-9]+: routes\\[0\\]\\.${key}: must be .*leave it out for limits\\.`),
				wrong,
			);
		}
	});

	it('ends a WebSocket when its token expires, unless the route says otherwise', () => {
		const endsAtExpiry = (keys: string) =>
			parse(`${MINIMAL}[[routes]]\nprefix = "/"\nupstream = "http://a"\nwebsocket = true\n${keys}`).routes[0]!
				.webSocket!.endsAtExpiry;
		assert.deepEqual([endsAtExpiry(''), endsAtExpiry('websocket_end_at_expiry = false')], [true, false]);
	});

	it('accepts min_version "1.3" and the default "1.2"', () => {
		for (const version of ['1.2', '1.3']) {
			const text = MINIMAL.replace('[jwt]', `min_version = "${version}"\n[jwt]`);
			assert.equal(parse(text).tls.minVersion, version);
		}
		for (const wrong of ['"1.1"', '1.3', '"TLSv1.3"', '""']) {
			const text = MINIMAL.replace('[jwt]', `min_version = ${wrong}\n[jwt]`);
			const problem = /config\.toml:6: tls\.min_version: must be "1\.2" or "1\.3" \(got .*\); leave it out for "1\.2"$/;
			assert.throws(() => parse(text), problem);
		}
	});

	it('gives each route its own values, and otherwise those at the top of the file', () => {
		const { routes } = parse(`
			health_path = "/ready?deep=1"
			health_timeout_secs = 0.5
			unhealthy_after = 3
			healthy_after = 2
			upstream_idle_timeout_secs = 1.5
			${MINIMAL}
			[breaker]
			failures = 5
			tenants = 2
			[[routes]]
			prefix = "/a"
			upstream = "http://a"
			[[routes]]
			prefix = "/b"
			upstream = "http://b"
			failures = 100
			tenants = 16
			health_path = "/"
			health_timeout_secs = 10
			unhealthy_after = 1
			healthy_after = 1
			upstream_idle_timeout_secs = 60
			[[routes]]
			prefix = "/c"
			upstream = "http://c"
			health = false
		`);
		const settings = routes.map(({ opening, upstream: { health, idleTimeoutMs } }) => ({
			opening,
			health,
			idleTimeoutMs,
		}));
		const common = { opening: { failures: 5, tenants: 2 }, idleTimeoutMs: 1500 };
		assert.deepEqual(settings, [
			{ ...common, health: { path: '/ready?deep=1', timeoutMs: 500, unhealthyAfter: 3, healthyAfter: 2 } },
			{
				opening: { failures: 100, tenants: 16 },
				idleTimeoutMs: 60_000,
				health: { path: '/', timeoutMs: 10_000, unhealthyAfter: 1, healthyAfter: 1 },
			},
			{ ...common, health: undefined },
		]);
		const asked = (value: string) =>
			parse(`${MINIMAL}[[routes]]\nprefix = "/"\nupstream = "h2c://a"\nhealth_grpc = ${value}`).routes[0]!.upstream
				.health!;
		assert.deepEqual(
			['true', 'false', '"a.v1.B"'].map((value) => asked(value).grpcService),
			['', undefined, 'a.v1.B'],
		);
		for (const value of ['""', '"a b"', '"é"', '1', `"${'a'.repeat(128)}"`]) {
			assert.throws(() => asked(value), /routes\[0\]\.health_grpc/, value);
		}
		const calls = parse(
			`${MINIMAL}[breaker]\ngrpc_statuses = [14, 4]\n[[routes]]\nprefix = "/"\nupstream = "http://a"`,
		);
		assert.deepEqual(calls.routes[0]!.opening, { failures: 1, tenants: 1, grpcStatuses: [14, 4] });
		for (const codes of ['14', '[0]', '[17]', '[14.5]', '["UNAVAILABLE"]', '[14, 14]']) {
			assert.throws(() => parse(`${MINIMAL}[breaker]\ngrpc_statuses = ${codes}`), /breaker\.grpc_statuses/, codes);
		}
		const off = parse(`health = false${MINIMAL}[[routes]]\nprefix = "/"\nupstream = "http://a"\nhealth = true`);
		assert.deepEqual(off.routes[0]!.upstream.health, HEALTH_OF_TODAY);
	});

	it('has the callers of each route, and the certificate headers for its upstream', () => {
		const { routes } = parse(`${MINIMAL}
			[breaker]
			tenants = 3
			[[routes]]
			prefix = "/a"
			upstream = "http://a"
			allow = ["spiffe://example.org/ns/pay/*", "dns:*.billing.internal", "cn:legacy-client"]
			deny = ["dns:old.billing.internal"]
			tenants = ["acme", "eu/acme co"]
			scopes = ["billing:read"]
			client_cert = "chain"
			xfcc = ["uri", "subject"]
			[[routes]]
			prefix = "/b"
			upstream = "http://b"
			tenants = 2
			client_cert = "none"
			[[routes]]
			prefix = "/c"
			upstream = "http://c"
			xfcc = []
		`);
		assert.deepEqual(
			routes.map(({ access, certificateHeaders, opening }) => ({
				access,
				certificateHeaders,
				tenants: opening.tenants,
			})),
			[
				{
					access: {
						allow: ['spiffe://example.org/ns/pay/*', 'dns:*.billing.internal', 'cn:legacy-client'],
						deny: ['dns:old.billing.internal'],
						tenants: ['acme', 'eu/acme co'],
						scopes: ['billing:read'],
					},
					certificateHeaders: { clientCert: 'chain', xfcc: ['uri', 'subject'] },
					tenants: 3,
				},
				// A number is still the breaker's.
				{ access: undefined, certificateHeaders: undefined, tenants: 2 },
				{ access: undefined, certificateHeaders: { clientCert: 'none', xfcc: [] }, tenants: 3 },
			],
		);
	});

	it('has the forwarding rules of each route, or those at the top of the file', () => {
		const { routes } = parse(`x_forwarded_host = true
			x_forwarded_port = 443${MINIMAL}
			[[routes]]
			prefix = "/a"
			upstream = "http://a"
			[[routes]]
			prefix = "/b"
			upstream = "http://b"
			host = "Billing.internal:8080"
			strip_prefix = true
			x_forwarded_host = false
			x_forwarded_port = true
			forwarded = true
			[[routes]]
			prefix = "/c"
			upstream = "http://c"
			host = "client"
			[[routes]]
			prefix = "/d"
			upstream = "http://d"
			host = "upstream"
			strip_prefix = false
			x_forwarded_host = false
			x_forwarded_port = false
			forwarded = false
		`);
		const ofTop = { stripsPrefix: false, forwardedHost: true, forwardedPort: 443, forwarded: false };
		assert.deepEqual(
			routes.map(({ forwarding }) => forwarding),
			[
				{ host: 'upstream', ...ofTop },
				{
					host: { name: 'Billing.internal:8080' },
					stripsPrefix: true,
					forwardedHost: false,
					forwardedPort: true,
					forwarded: true,
				},
				{ host: 'client', ...ofTop },
				// The same as of today.
				undefined,
			],
		);
	});

	it('accepts equal settings of routes to one upstream in different spellings', () => {
		const { routes } = parse(`health_path = "/up"${MINIMAL}
			[[routes]]
			prefix = "/a"
			upstream = "http://x:80"
			health_path = "/up"
			healthy_after = 1
			failures = 2
			[[routes]]
			prefix = "/b"
			upstream = "http://X"
		`);
		assert.deepEqual(
			routes.map(({ opening }) => opening.failures),
			[2, 1],
		);
	});

	it('reads each limit into the field of its name, seconds as milliseconds', () => {
		const cases: [key: string, value: string, field: keyof Limits, expected: number][] = [
			['max_request_body_bytes', '1', 'maxRequestBodyBytes', 1],
			['request_body_timeout_secs', '0.25', 'requestBodyTimeoutMs', 250],
			['upstream_timeout_secs', '2', 'upstreamTimeoutMs', 2000],
			['tls_handshake_timeout_secs', '3', 'tlsHandshakeTimeoutMs', 3000],
			['first_request_timeout_secs', '4', 'firstRequestTimeoutMs', 4000],
			['h2_max_concurrent_streams', '5', 'h2MaxConcurrentStreams', 5],
			['shutdown_drain_secs', '6.5', 'shutdownDrainMs', 6500],
			['shutdown_delay_secs', '7.5', 'shutdownDelayMs', 7500],
			['shutdown_delay_secs', '0', 'shutdownDelayMs', 0],
			['shutdown_delay_secs', '0.0001', 'shutdownDelayMs', 1],
			['max_header_bytes', '8192', 'maxHeaderBytes', 8192],
			['max_buffered_bytes', '1_000_000', 'maxBufferedBytes', 1_000_000],
			['max_buffered_bytes_per_tenant', '2_000_000', 'maxBufferedBytesPerTenant', 2_000_000],
			['min_answer_bytes_per_sec', '0', 'minAnswerBytesPerSec', 0],
			['max_connections', '10', 'maxConnections', 10],
		];
		for (const [key, value, field, expected] of cases) {
			assert.equal(parse(`${MINIMAL}[limits]\n${key} = ${value}`).limits[field], expected, key);
		}
	});

	it('sets reload_on_change', () => {
		assert.equal(parse(`reload_on_change = true${MINIMAL}`).reloadOnChange, true);
	});

	it('gives a tenant half of the memory for bodies, and at least enough for one request', () => {
		const share = (text: string) => parse(`${MINIMAL}[limits]\n${text}`).limits.maxBufferedBytesPerTenant;
		assert.equal(share('max_buffered_bytes = 1_000_000_001'), 500_000_001);
		assert.equal(share('max_buffered_bytes = 1_000\nmax_request_body_bytes = 200'), 600);
		assert.equal(share('max_buffered_bytes = 1_000\nmax_request_body_bytes = 400'), 1000);
		assert.equal(share('max_buffered_bytes = 1_000\nmax_buffered_bytes_per_tenant = 5'), 5);
	});

	it('accepts fractions of a second between probes and never rounds them down to none', () => {
		assert.equal(parse(`health_interval_secs = 0.05${MINIMAL}`).healthIntervalMs, 50);
		assert.equal(parse(`health_interval_secs = 1e-9${MINIMAL}`).healthIntervalMs, 1);
	});

	it('is deeply frozen', () => {
		const config = parse(`${MINIMAL}[[routes]]\nprefix = "/"\nupstream = "http://a"`);
		const parts = [
			config,
			config.tls,
			config.jwt,
			config.limits,
			config.routes,
			config.routes[0],
			config.routes[0]?.upstream,
			config.routes[0]?.upstream.addresses[0],
		];
		assert.deepEqual(
			parts.filter((part) => !Object.isFrozen(part)),
			[],
		);
	});
});

describe('an invalid configuration', () => {
	it('lists the valid values of [log]', () => {
		assert.equal(
			messageOf(`${MINIMAL}[log]\naccess = "some"\nrequest_id = 1`),
			[
				'config.toml:9: log.access: must be "off", "errors" or "all" (got "some"); leave it out for "off"',
				'config.toml:10: log.request_id: must be true or false (got the number 1); leave it out for false',
			].join('\n'),
		);
	});

	it('lists the valid values of [status]', () => {
		const shares = 'problem_401_share = 0\nproblem_5xx_share = 1\nproblem_least = 1\n';
		assert.deepEqual(parse(`${MINIMAL}[status]\ntenants = true\nhosts = ["edge-1.example.com"]\n${shares}`).status, {
			tenants: true,
			hosts: ['edge-1.example.com'],
			shareBounds: { share: { '401': 0, '429': 0.2, '5xx': 1, grpc: 0.05, handshakes: 0.2 }, least: 1 },
		});
		assert.equal(
			messageOf(`${MINIMAL}[status]\nproblem_5xx_share = 33\ntenants = "yes"\nhosts = ["http://edge"]`),
			[
				'config.toml:9: status.problem_5xx_share: must be a number from 0 to 1 (got 33); leave it out for 0.05',
				'config.toml:10: status.tenants: must be true or false (got the string "yes"); leave it out for false',
				'config.toml:11: status.hosts[0]: must be a host name without port (got "http://edge"); write for example "edge-1.example.com"',
			].join('\n'),
		);
	});

	it('reports all problems in the order of the file, with line, key and remedy', () => {
		assert.deepEqual(
			messageOf(`health_interval_secs = 0
tenant_rsp = 5
default_cooldown_secs = "5"
[[routes]]
prefix = "/api"
upstream = "ftp://a:1"
[[routes]]
prefix = "/api"
upstream = "http://b"
cooldown_secs = 0
[[routes]]
upstream = "http://c"
[limits]
max_header_bytes = 1.5
[tls]
cert_path = ""`).split('\n'),
			[
				'config.toml:1: health_interval_secs: must be a number of seconds above 0 (got 0); leave it out for 5',
				'config.toml:2: tenant_rsp: unknown key; did you mean tenant_rps?',
				'config.toml:3: default_cooldown_secs: must be a whole number of seconds, at least 1 (got the string "5"); set it to 1 or more, or leave it out for 30; a duration is a number of seconds, or a string such as "500ms", "30s", "5m", "1h" or "7d"',
				'config.toml:6: routes[0].upstream: must be http://host[:port], https://host[:port] or h2c://host[:port] and nothing more (got "ftp://a:1"): upstreams speak HTTP/1.1 or HTTP/2, plain or over TLS; write "http://a:1" [route "/api"]',
				'config.toml:8: routes[1].prefix: "/api" is already the prefix of routes[0] on line 5; remove one of the two',
				'config.toml:10: routes[1].cooldown_secs: must be a whole number of seconds, at least 1 (got 0); set it to 1 or more, or leave it out for default_cooldown_secs [route "/api"]',
				'config.toml:11: routes[2].prefix: is missing; set it to the paths to route, for example "/api"',
				'config.toml:14: limits.max_header_bytes: must be a whole number of bytes, at least 256 (got 1.5); set it to 256 or more, or leave it out for 16384',
				'config.toml:15: tls.key_path: is missing; set it to the file with the server private key, PEM',
				'config.toml:15: tls.client_ca_path: is missing; set it to the file with the bundle of CAs that client certificates must chain to, PEM',
				'config.toml:16: tls.cert_path: must be the path of a file (got ""); set it to the file with the server certificate chain, PEM, leaf first',
				'config.toml: jwt.jwks_path: is missing; set it to the file with the RSA public key that tokens are verified with, PEM',
			],
		);
	});

	it('has its problems as data', () => {
		const [problem, ...others] = problemsOf(`${MINIMAL}isuer = "x"`);
		assert.deepEqual(problem, { line: 8, key: 'jwt.isuer', message: 'unknown key; did you mean issuer?' });
		assert.deepEqual(others, []);
	});

	it('names every required key of an empty file', () => {
		assert.deepEqual(keysOf(''), ['tls.cert_path', 'tls.key_path', 'tls.client_ca_path', 'jwt.jwks_path']);
	});

	it('names the right table for a key in the wrong one', () => {
		const wrong = `cert_path = "x"${MINIMAL}tenant_rps = 5\n[limits]\ncooldown_secs = 5`;
		assert.deepEqual(
			problemsOf(wrong).map(({ message }) => message),
			[
				'unknown key; it belongs in [tls]',
				'unknown key; it belongs above the first table',
				'unknown key; it belongs in [[routes]]',
			],
		);
	});

	it('lists the keys of a table if none resembles the unknown one', () => {
		const [problem] = problemsOf(`${MINIMAL}"strange key" = 1`);
		assert.equal(problem?.key, 'jwt."strange key"');
		assert.equal(
			problem?.message,
			'unknown key; [jwt] may have jwks_path, issuer, audience, certificate_bound, rate_claim, max_rps, reload',
		);
	});

	it('treats names of JavaScript object members as unknown keys', () => {
		for (const key of ['__proto__', 'constructor', 'toString', 'hasOwnProperty']) {
			assert.deepEqual(keysOf(`${key} = 1${MINIMAL}`), [key]);
			assert.deepEqual(keysOf(`${MINIMAL}[${key}]\npolluted = true`), [key]);
			assert.deepEqual(keysOf(`${MINIMAL}${key}.polluted = true`), [`jwt.${key}`]);
		}
		assert.equal('polluted' in {}, false);
	});

	it('for the wrong kind of table shows the brackets to write', () => {
		assert.match(
			messageOf(`${MINIMAL}[routes]\nprefix = "/"`),
			/:8: routes: must be a list of tables \(got a table\); write \[\[routes\]\]/,
		);
		assert.match(messageOf('[[tls]]\ncert_path = "x"'), /:1: tls: must be a table \(got an array\); write \[tls\]/);
		assert.match(messageOf(`${MINIMAL}[[route]]\nprefix = "/"`), /:8: route: unknown key; did you mean routes\?/);
	});

	it('refuses a URL instead of a path, and names jwks_url if that is possible', () => {
		const url = 'https://issuer.example/.well-known/jwks.json';
		assert.match(
			messageOf(MINIMAL.replace('jwt.pem', url)),
			/:7: jwt\.jwks_path: must be the path of a file, not a URL \(got "https:.*\); use \[\[issuers\]\] with jwks_url instead of \[jwt\] for keys over the network$/,
		);
		assert.match(messageOf(`${MINIMAL}[[issuers]]\njwks_path = "${url}"`), /use jwks_url instead/);
		assert.match(
			messageOf(MINIMAL.replace('ca.pem', 'file:///ca.pem')),
			/:5: tls\.client_ca_path: must be the path of a file, not a URL .* nothing is fetched over the network: save .* name the file$/,
		);
		assert.equal(parse(MINIMAL.replace('ca.pem', './c:/ca.pem')).tls.clientCaPath, './c:/ca.pem');
	});

	it('for several addresses in one URL names [[upstreams]]', () => {
		const route = (upstream: string) => `${MINIMAL}[[routes]]\nprefix = "/"\nupstream = ${upstream}`;
		assert.match(
			messageOf(route('["http://a", "http://b"]')),
			/upstream: must be http:\/\/host\[:port\], https:\/\/host\[:port\] or h2c:\/\/host\[:port\], one address, or the name of an \[\[upstreams\]\] \(got an array\)/,
		);
		assert.match(
			messageOf(route('"http://a:1,http://b:2"')),
			/: several addresses go into an \[\[upstreams\]\] table, which the route names/,
		);
	});

	it('names the expected and the actual type', () => {
		const cases: [line: string, message: RegExp][] = [
			['tenant_rps = "5"', /must be a whole number of requests per second, at least 0 \(got the string "5"\)/],
			['tenant_rps = true', /\(got the boolean true\)/],
			['tenant_rps = 2026-01-01', /\(got a date or time\)/],
			['tenant_rps = [5]', /\(got an array\)/],
			['tenant_rps = nan', /\(got the number NaN\)/],
			[
				'state_dir = "https://a"',
				/must be the path of a folder \(got "https:\/\/a"\); set it to a folder for state that outlives/,
			],
			['reload_on_change = "yes"', /must be true or false \(got the string "yes"\); leave it out for false/],
			['limits = { shutdown_delay_secs = "5" }', /must be a number of seconds, 0 or more \(got the string "5"\)/],
			['tls = 5', /tls: must be a table \(got the number 5\)/],
			['jwt = { jwks_path = 5 }', /jwt\.jwks_path: must be the path of a file \(got the number 5\)/],
		];
		for (const [line, message] of cases) assert.match(messageOf(`${line}\n`), message);
	});

	it('is refused at the edges of every range and accepted right inside', () => {
		const ranges: [key: string, least: number, most: number, step: number][] = [
			['tenant_rps', 0, 10_000_000, 1],
			['default_cooldown_secs', 1, 2_147_483, 1],
			['health_interval_secs', 0.001, 2_147_483, 0.001],
			['limits.upstream_timeout_secs', 0.001, 2_147_483, 0.001],
			['limits.shutdown_delay_secs', 0, 2_147_483, 0.001],
			['limits.max_request_body_bytes', 1, 2 ** 40, 1],
			['limits.max_header_bytes', 256, 1024 * 1024, 1],
			['limits.h2_max_concurrent_streams', 1, 2 ** 30, 1],
			['limits.max_connections', 1, 2 ** 30, 1],
		];
		for (const [key, least, most, step] of ranges) {
			for (const inside of [least, most]) parse(`${key} = ${inside}${MINIMAL}`);
			for (const outside of [least - step, most + 1, -1e300, 1e300, '9223372036854775807']) {
				assert.deepEqual(keysOf(`${key} = ${outside}${MINIMAL}`), [key], `${key} = ${outside}`);
			}
		}
	});

	it('refuses an empty claim or path instead of treating it as absent', () => {
		const [issuer, audience, ...others] = problemsOf(`${MINIMAL}issuer = ""\naudience = ""`);
		assert.deepEqual(others, []);
		assert.match(issuer!.message, /"iss" that tokens must carry .+; leave it out for tokens of any issuer$/);
		assert.match(audience!.message, /"aud" that tokens must carry .+; leave it out for tokens that have no "aud"$/);
		assert.deepEqual(keysOf(`${MINIMAL}audience = []`), ['jwt.audience']);
		assert.deepEqual(keysOf(MINIMAL.replace('ca.pem', 'ca\\u0000.pem')), ['tls.client_ca_path']);
	});

	it('reports mistakes in the callers of a route, with the remedy', () => {
		const cases: [line: string, key: string, message: RegExp][] = [
			['allow = []', 'allow', /is an empty list; leave it out for every certificate that "deny" does not name/],
			['allow = "dns:a"', 'allow', /must be a list of names of client certificates \(got the string "dns:a"\)/],
			['allow = ["dns:a", 1]', 'allow[1]', /must be "spiffe:.+ \(got the number 1\); write each name as a string/],
			['allow = ["dns:a", "a"]', 'allow[1]', /must be "spiffe:.+ \(got "a"\); name the kind, for example "dns:a"/],
			[
				'deny = ["spiffe://a/pay-*"]',
				'deny[0]',
				/must be a name .+ \(got "spiffe:.+"\); "\*" does not match a part of a segment/,
			],
			['deny = []', 'deny', /is an empty list; leave it out for none/],
			['tenants = []', 'tenants', /is an empty list; leave it out for all of them/],
			['tenants = 0', 'tenants', /must be a whole number of tenants, at least 1 \(got 0\)/],
			['tenants = "acme"', 'tenants', /must be a list of tenants \(got the string "acme"\)/],
			['tenants = ["a", 1]', 'tenants[1]', /must be a tenant as in x-proxy-tenant.+\(got the number 1\); write each/],
			['tenants = [" a"]', 'tenants[0]', /must be a tenant as in x-proxy-tenant.+\(got " a"\)/],
			['scopes = []', 'scopes', /is an empty list; leave it out for tokens of any scope/],
			['scopes = ["a b"]', 'scopes[0]', /must be a scope \(RFC 6749 section 3\.3\).+\(got "a b"\); write each scope/],
			[
				'client_cert = "yes"',
				'client_cert',
				/must be "none", "leaf" or "chain" \(got "yes"\); leave it out for "none"/,
			],
			['xfcc = true', 'xfcc', /must be a list of "cert", .+ or "dns" \(got the boolean true\)/],
			['xfcc = ["hash"]', 'xfcc[0]', /must be "cert", .+ or "dns" \(got "hash"\)/],
		];
		for (const [line, key, message] of cases) {
			const problems = problemsOf(`${MINIMAL}[[routes]]\nprefix = "/a"\nupstream = "http://a"\n${line}`);
			assert.equal(problems.length, 1, line);
			assert.equal(problems[0]!.key, `routes[0].${key}`);
			assert.equal(problems[0]!.line, 11, line);
			assert.match(problems[0]!.message, message);
		}
	});

	it('finds all routes that share a prefix, even if something else is wrong with them', () => {
		const routes = '[[routes]]\nprefix = "/a"\n[[routes]]\nprefix = "/b"\n'.repeat(3);
		const messages = problemsOf(MINIMAL + routes)
			.map(({ line, message }) => `${line} ${message}`)
			.filter((message) => message.includes('already'));
		assert.deepEqual(messages, [
			'13 "/a" is already the prefix of routes[0] on line 9; remove one of the two',
			'15 "/b" is already the prefix of routes[1] on line 11; remove one of the two',
			'17 "/a" is already the prefix of routes[0] on line 9; remove one of the two',
			'19 "/b" is already the prefix of routes[1] on line 11; remove one of the two',
		]);
	});

	it('refuses routes to one upstream with different settings of it, with both lines', () => {
		const text = `health_path = "/up"${MINIMAL}[[routes]]
prefix = "/a"
upstream = "http://x:80"
health = false
[[routes]]
prefix = "/b"
upstream = "http://X"
health_path = "/down"
upstream_idle_timeout_secs = 1
[[routes]]
prefix = "/c"
upstream = "http://y"
health = false
`;
		const both =
			'which leads to the same upstream "x:80"; give both routes one value, or set it at the top of the file';
		assert.deepEqual(messageOf(text).split('\n'), [
			`config.toml:12: routes[1].health: is true here and false for routes[0] on line 11, ${both}`,
			`config.toml:15: routes[1].health_path: is "/down" here and "/up" for routes[0] on line 8, ${both}`,
			`config.toml:16: routes[1].upstream_idle_timeout_secs: is 1 here and 4 for routes[0] on line 8, ${both}`,
		]);
	});

	it('refuses different values of health_grpc for one upstream, and the key on a route to [[upstreams]]', () => {
		const routes = (...values: string[]) =>
			MINIMAL + values.map((own, i) => `[[routes]]\nprefix = "/${i}"\nupstream = "h2c://x"\n${own}\n`).join('');
		for (const other of ['', 'health_grpc = false', 'health_grpc = "x"']) {
			assert.match(
				messageOf(routes('health_grpc = true', other)),
				/routes\[1\]\.health_grpc: is .+ here and true for routes\[0\] .+; give both routes one value$/,
			);
		}
		assert.equal(parse(routes('health_grpc = false', '')).routes.length, 2);
		const group = '[[upstreams]]\nname = "g"\naddresses = ["x:1"]\nprotocol = "h2"\n';
		const route = '[[routes]]\nprefix = "/"\nupstream = "g"\nhealth_grpc = true\n';
		assert.match(messageOf(MINIMAL + group + route), /health_grpc: applies to all routes to .+; move it there$/);
	});

	it('accepts keywords and any valid Host as the host of a route', () => {
		const route = (more: string) => `${MINIMAL}[[routes]]\nprefix = "/"\nupstream = "http://a"\n${more}`;
		for (const host of ['billing.internal', 'a', 'A_b.example.:65535', '10.0.0.1', '[::1]', '[2001:db8::1]:8080']) {
			assert.deepEqual(parse(route(`host = "${host}"`)).routes[0]!.forwarding?.host, { name: host });
		}
		for (const [host, why, remedy] of [
			['Client', 'these words must be lower case', 'client'],
			['https://billing.internal/x', 'it must be a host without scheme and path', 'billing.internal'],
			['billing.internal:0', 'nothing can listen on port 0', 'billing.internal'],
			['a\\r\\nx: y', '"a\\r\\nx" is not a host name', 'billing.internal'],
			['::1', 'an IPv6 address needs brackets, as in [::1]:8443', 'billing.internal'],
		] as const) {
			assert.equal(
				messageOf(route(`host = "${host}"`)),
				`config.toml:11: routes[0].host: must be "upstream", "client" or host[:port] (got "${host}"): ${why}; ` +
					`write for example "${remedy}" [route "/"]`,
			);
		}
		for (const port of ['0', '65536', '1.5', '"443"', '[443]']) {
			assert.match(
				messageOf(route(`x_forwarded_port = ${port}`)),
				/:11: routes\[0\]\.x_forwarded_port: must be true, false or a port from 1 to 65535 \(got .*\); leave it out for the value at the top of the file/,
			);
		}
		assert.match(messageOf(`strip_prefix = true${MINIMAL}`), /strip_prefix: unknown key; it belongs in \[\[routes\]\]/);
	});

	it('names the bounds of what opens a breaker, since tenants are remembered in memory of a fixed size', () => {
		const breaker = messageOf(`${MINIMAL}[breaker]\nfailures = 101\ntenants = 17`);
		assert.match(breaker, /breaker.failures: must be a whole number of failures in a row, at most 100 \(got 101\)/);
		assert.match(
			breaker,
			/breaker.tenants: must be a whole number of tenants, at most 16 \(got 17\); set it to 16 or less/,
		);
		const route = `${MINIMAL}[[routes]]\nprefix = "/"\nupstream = "http://a"\nfailures = 0\ntenants = 1.5`;
		assert.deepEqual(keysOf(route), ['routes[0].failures', 'routes[0].tenants']);
	});

	it('accepts any valid request target as the path of a health check', () => {
		for (const path of ['', 'health', 'http://a/health', '/a b', '/a#b', '/ä', '/a\\n']) {
			assert.deepEqual(keysOf(`health_path = "${path}"${MINIMAL}`), ['health_path'], path);
		}
		assert.match(
			messageOf(`health = "off"${MINIMAL}`),
			/health: must be true or false \(got the string "off"\); leave it out for true/,
		);
	});

	it('never reveals a password in an upstream address', () => {
		const message = messageOf(`${MINIMAL}[[routes]]\nprefix = "/"\nupstream = "http://user:s3cr3t@host:1"`);
		assert.match(message, /user info is not sent to upstreams; write "http:\/\/host:1"/);
		assert.doesNotMatch(message, /s3cr3t/);
	});

	it('refuses with its line a table, list, date or odd number as the value of any key', () => {
		const values = ['{ average = 100 }', '{}', '[]', '[[1]]', '[{ a = 1 }]', '1979-05-27', 'nan', '-inf', '-0', '""'];
		const headers = new Map([...KEYS.keys()].map((table) => [table, `[${table}]`]));
		for (const list of ['issuers', 'tenants', 'upstreams', 'routes']) headers.set(list, `[[${list}]]`);
		headers.set('', '').set('upstreams.tls', '[[upstreams]]\n[upstreams.tls]');
		for (const [table, keys] of KEYS) {
			for (const key of keys) {
				for (const value of values) {
					const text = `${headers.get(table)}\n${key} = ${value}`;
					// The file lacks what it needs, so there always is a problem; anything but a ConfigError is a fault.
					for (const { line, message } of errorOf(text).problems) {
						assert.ok(line !== undefined || message.startsWith('is missing'), `${text}: ${message}`);
					}
				}
			}
		}
	});

	it('refuses a date instead of any table', () => {
		for (const table of KEYS.keys()) {
			if (table === '' || table.includes('.')) continue;
			const [problem] = errorOf(`${table} = 1979-05-27`).problems.filter(({ line }) => line === 1);
			assert.match(problem?.message ?? 'nothing', /got a date or time/, table);
		}
	});

	it('produces one line for each problem, whatever the text', () => {
		const key = fc.oneof(fc.constantFrom(...[...KEYS.values()].flat(), '__proto__'), anyText());
		const scalar = fc.oneof(anyText(), fc.integer(), fc.double(), fc.boolean());
		const inline = fc.constantFrom('{}', '{ average = 100 }', '[{ rps = 1 }]', '[[1], [2]]', '1979-05-27', 'nan');
		const value = fc.oneof(scalar, fc.array(scalar, { maxLength: 2 }));
		const lines = fc
			.dictionary(key, fc.oneof(value.map(quote), inline), { maxKeys: 4 })
			.map((table) => Object.entries(table).map(([name, content]) => `${quote(name)} = ${content}`));
		const header = fc.constantFrom('[tls]', '[jwt]', '[[routes]]', '[limits]', '[routes.x]', '[unknown]');
		const tables = fc.array(fc.tuple(header, lines).map((table) => table.flat()));
		const well = fc.tuple(lines, tables).map((document) => document.flat(2).join('\n'));
		const seen = { syntax: 0, content: 0 };
		fc.assert(
			fc.property(fc.oneof(well, anyText()), (text) => {
				const { problems, message } = errorOf(text);
				assert.equal(message.split('\n').length, problems.length);
				assert.doesNotMatch(message, /[\0-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029]/);
				seen[problems.some((problem) => problem.key === undefined) ? 'syntax' : 'content']++;
			}),
		);
		assert.ok(seen.syntax > 0 && seen.content > 0, JSON.stringify(seen));
	});
});

describe('loading', () => {
	let folder: string;
	before(() => {
		folder = mkdtempSync(join(tmpdir(), 'config-'));
	});
	after(() => rmSync(folder, { recursive: true }));

	const write = (content: string | Uint8Array) => {
		const path = join(folder, 'config.toml');
		writeFileSync(path, content);
		return path;
	};

	it('reads the file and remembers its path', async () => {
		const path = write(MINIMAL);
		assert.equal((await loadConfig(path)).path, path);
	});

	it('accepts a byte order mark and the line ends of Windows', async () => {
		const path = write(`\ufefftenant_rps = 5${MINIMAL}`.replaceAll('\n', '\r\n'));
		assert.equal((await loadConfig(path)).tenantRps, 5);
	});

	it('names the file that it cannot read, and the flag', async () => {
		const path = join(folder, 'absent.toml');
		await assert.rejects(loadConfig(path), {
			name: 'ConfigError',
			message: `${path}: cannot be read: there is no such file; name another file with --config or PROXY_CONFIG, or make one with proxy init`,
		});
		await assert.rejects(loadConfig(folder), /cannot be read: it is a directory;/);
		await assert.rejects(loadConfig('/dev/zero'), /cannot be read: it is a device, not a regular file;/);
	});

	it('refuses a file that is larger than any configuration', async () => {
		await assert.rejects(loadConfig(write(`#${' '.repeat(1024 * 1024)}`)), /cannot be read: it is larger than 1 MiB;/);
	});

	it('reports the position of text that is not UTF-8', async () => {
		const cases: [text: string, line: number, message: string][] = [
			['# caf\xe9\n', 1, 'is not UTF-8 text: byte 6 of the file is 0xe9; save it as UTF-8'],
			['a = 1\n\xc3\xa9\n\n\xff', 4, 'is not UTF-8 text: byte 11 of the file is 0xff; save it as UTF-8'],
			['a\n\xe2\x82', 2, 'is not UTF-8 text: byte 3 of the file is 0xe2; save it as UTF-8'],
		];
		for (const [text, line, message] of cases) {
			await assert.rejects(loadConfig(write(Buffer.from(text, 'latin1'))), { problems: [{ line, message }] });
		}
	});
});

function errorOf(text: string): ConfigError {
	return errorIn(text) ?? assert.fail(`accepted ${JSON.stringify(text)}`);
}

const problemsOf = (text: string) => errorOf(text).problems;
const messageOf = (text: string) => errorOf(text).message;
const keysOf = (text: string) => problemsOf(text).map(({ key }) => key);

/** JSON's way to write strings, numbers and lists is TOML's, but for DEL. */
function quote(value: unknown): string {
	return JSON.stringify(value).replaceAll('\x7f', '\\u007f');
}
