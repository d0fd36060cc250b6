import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { describeProblem } from '../../../packages/proxy/src/config/error.ts';
import { configWarnings } from '../../../packages/proxy/src/config/warnings.ts';
import { MINIMAL } from './minimal.ts';
import { parseConfig } from './parse.ts';

const QUIET = `${MINIMAL}issuer = "i"\naudience = "a"\n[[routes]]\nprefix = "/"\nupstream = "http://a"\n`;
const warningsOf = (text: string) =>
	configWarnings(parseConfig(text)).map((warning) => describeProblem('config.toml', warning));

describe('the warnings about a configuration', () => {
	it('are empty if nothing is doubtful', () => {
		assert.deepEqual(warningsOf(QUIET), []);
	});

	it('name the unchecked claim', () => {
		assert.match(
			warningsOf(QUIET.replace(/issuer.*/, '')).join(),
			/^config\.toml:6: jwt\.issuer: is not set: tokens of any issuer/,
		);
		assert.match(
			warningsOf(QUIET.replace(/audience.*/, '')).join(),
			/^config\.toml:6: jwt\.audience: is not set: .* refused/,
		);
	});

	it('report a file without routes', () => {
		assert.match(
			warningsOf(QUIET.replace(/\[\[routes\]\][\s\S]*/, '')).join(),
			/^config\.toml: routes: there are none, so every request gets 404/,
		);
	});

	it('report bodies that are allowed but never fit', () => {
		const limits = (held: number) => `${QUIET}[limits]\nmax_request_body_bytes = 100\nmax_buffered_bytes = ${held}`;
		assert.deepEqual(warningsOf(limits(100)), []);
		assert.match(warningsOf(limits(99)).join(), /^config\.toml:15: limits\.max_buffered_bytes: is less/);
	});

	it('report keys that one failed fetch would lose', () => {
		const issuers = (times: string) =>
			QUIET.replace(/\[jwt\][\s\S]*?(?=\[\[routes)/, '').concat(
				`[[issuers]]\nissuer = "https://i.test"\naudience = "a"\njwks_url = "https://i.test/keys"\n${times}`,
			);
		assert.deepEqual(warningsOf(issuers('')), []);
		assert.match(
			warningsOf(issuers('refresh_secs = 2\nmax_stale_secs = 5')).join(),
			/: issuers\[0\]\.max_stale_secs: is 5 with refresh_secs of 2: .*set it to at least 12/,
		);
	});

	it('report a share that is too small for the largest body', () => {
		const share = (bytes: number) =>
			`${QUIET}[limits]\nmax_request_body_bytes = 100\nmax_buffered_bytes = 200\nmax_buffered_bytes_per_tenant = ${bytes}`;
		assert.deepEqual(warningsOf(share(100)), []);
		assert.match(warningsOf(share(99)).join(), /limits\.max_buffered_bytes_per_tenant: is less/);
	});

	it('report a prefix with a final slash if the path without it leads to weaker rules', () => {
		const withRoute = (prefix: string, keys: string) =>
			warningsOf(`${QUIET}[[routes]]\nprefix = "${prefix}"\nupstream = "http://a"\n${keys}`);
		assert.deepEqual(withRoute('/admin/', 'scopes = ["admin"]'), [
			'config.toml:14: routes[1].prefix: "/admin/" does not match "/admin", which leads to routes[0] with weaker rules, ' +
				'but many upstreams read the two as the same path; write "/admin"',
		]);
		assert.deepEqual(withRoute('/admin', 'scopes = ["admin"]'), []);
		assert.match(withRoute('/admin/', 'rps = 5').join(), /matches only paths below it, not/);
	});

	it('report strip_prefix with "/", and a host that resembles a keyword', () => {
		assert.deepEqual(warningsOf(`${QUIET}strip_prefix = true\nhost = "clients"`), [
			'config.toml:13: routes[0].strip_prefix: has no effect with the prefix "/"; leave it out',
			'config.toml:14: routes[0].host: is sent literally, as a host name; did you mean "client"?',
		]);
		const fine = 'strip_prefix = true\nhost = "billing.internal"';
		assert.deepEqual(warningsOf(`${QUIET.replace('prefix = "/"', 'prefix = "/a"')}${fine}`), []);
		assert.deepEqual(warningsOf(`${QUIET}host = "client"\nx_forwarded_host = true`), []);
	});

	it('report a prefix with a final slash, which does not match the path without it', () => {
		assert.deepEqual(warningsOf(QUIET.replace('"/"', '"/a/"')), [
			'config.toml:11: routes[0].prefix: "/a/" matches only paths below it, not "/a" itself; write "/a" for both',
		]);
	});

	it('report keys that another key disables', () => {
		assert.match(
			warningsOf(`${QUIET}health = false\nhealth_path = "/up"`).join(),
			/^config\.toml:14: routes\[0\]\.health_path: is never requested/,
		);
		const calls = QUIET.replace('http://', 'h2c://');
		assert.match(
			warningsOf(`${calls}health = false\nhealth_grpc = true`).join(),
			/^config\.toml:14: routes\[0\]\.health_grpc: is never requested/,
		);
		assert.match(
			warningsOf(`${calls}health_grpc = true\nhealth_path = "/up"`).join(),
			/^config\.toml:14: routes\[0\]\.health_path: has no effect/,
		);
		assert.match(
			warningsOf(`${QUIET}[listener]\nproxy_protocol_timeout_secs = 3`).join(),
			/^config\.toml:14: listener\.proxy_protocol_timeout_secs: has no effect/,
		);
	});

	it('report probes by gRPC of an upstream that gets its requests over HTTP/1.1', () => {
		const warning =
			/^config\.toml:13: routes\[0\]\.health_grpc: is over HTTP\/2, but requests go over HTTP\/1\.1; write h2c:/;
		assert.match(warningsOf(`${QUIET}health_grpc = true`).join(), warning);
		const group = (protocol: string) =>
			`${QUIET.replace(/upstream = .+/, 'upstream = "g"')}[[upstreams]]\nname = "g"\naddresses = ["x:1"]\n${protocol}health_grpc = true\n`;
		assert.match(warningsOf(group('')).join(), /upstreams\[0\]\.health_grpc: is over HTTP\/2, .+ protocol = "h2"$/);
		assert.deepEqual(warningsOf(group('protocol = "h2"\n')), []);
	});

	it('report an upstream timeout of more than an hour, and a collector without a path', () => {
		assert.deepEqual(warningsOf(`${QUIET}[limits]\nupstream_timeout_secs = "1h"`), []);
		assert.match(
			warningsOf(`${QUIET}[limits]\nupstream_timeout_secs = 3601`).join(),
			/:14: limits\.upstream_timeout_secs:/,
		);
		assert.deepEqual(warningsOf(`${QUIET}[trace]\nendpoint = "http://c:4318/v1/traces"`), []);
		assert.match(warningsOf(`${QUIET}[trace]\nendpoint = "http://c:4318"`).join(), /:14: trace\.endpoint: has no path/);
	});

	it('report limits of a route that are too long, or too small for any body', () => {
		const route = (keys: string) => warningsOf(`${QUIET}${keys}`);
		assert.deepEqual(route('upstream_timeout_secs = "1h"\nmax_body_bytes = "512MiB"'), []);
		assert.match(
			route('upstream_timeout_secs = "2h"').join(),
			/:13: routes\[0\]\.upstream_timeout_secs: is more than an hour/,
		);
		assert.match(
			route('max_body_bytes = "513MiB"').join(),
			/:13: routes\[0\]\.max_body_bytes: is more than limits\.max_buffered_bytes_per_tenant \(536870912\): in collected mode/,
		);
		assert.match(
			route('max_body_bytes = 200\n[limits]\nmax_request_body_bytes = 50\nmax_buffered_bytes = 100').join(),
			/routes\[0\]\.max_body_bytes: is more than limits\.max_buffered_bytes \(100\)/,
		);
	});

	it('report prefixes that look like patterns, with the prefix to write', () => {
		const cases: [prefix: string, literal: string][] = [
			['/api/*', '/api'],
			['/*', '/'],
			['/users/{id}', '/users'],
			['/users/:id', '/users'],
			['/users/<id>', '/users'],
			['/a.+', '/'],
			['/api/[a-z]', '/api'],
			['/api/v1$', '/api'],
		];
		for (const [prefix, literal] of cases) {
			assert.deepEqual(warningsOf(QUIET.replace('"/"', JSON.stringify(prefix))), [
				`config.toml:11: routes[0].prefix: ${JSON.stringify(prefix)} looks like a glob, a template or a regular ` +
					`expression, but is matched literally; write ${JSON.stringify(literal)} for that path and all paths below it`,
			]);
		}
		for (const prefix of [
			'/',
			'/a.b/c',
			'/a:b',
			'/odata/$metadata',
			'/(a)',
			'/a+b',
			'/.well-known',
			'/@x/~y',
			'/a;b=c',
		]) {
			assert.deepEqual(warningsOf(QUIET.replace('"/"', JSON.stringify(prefix))), [], prefix);
		}
	});
});
