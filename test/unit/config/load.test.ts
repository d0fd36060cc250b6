import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import fc from 'fast-check';
import type { Limits } from '../../../src/config/config.ts';
import { ConfigError } from '../../../src/config/error.ts';
import { loadConfig, parseConfig } from '../../../src/config/load.ts';
import { KEYS } from '../../../src/config/schema.ts';
import { MINIMAL } from './minimal.ts';

const parse = (text: string) => parseConfig(text, 'config.toml');

describe('a configuration that is right', () => {
	it('needs only the TLS files and the token key', () => {
		assert.deepEqual(parse(MINIMAL), {
			path: 'config.toml',
			healthIntervalMs: 5000,
			tenantRps: 1000,
			tls: { certPath: 'server.pem', keyPath: 'server.key', clientCaPath: 'ca.pem' },
			jwt: { publicKeyPath: 'jwt.pem', issuer: undefined, audience: undefined },
			routes: [],
			limits: {
				maxRequestBodyBytes: 8_388_608,
				requestBodyTimeoutMs: 30_000,
				upstreamTimeoutMs: 30_000,
				tlsHandshakeTimeoutMs: 10_000,
				firstRequestTimeoutMs: 10_000,
				h2MaxConcurrentStreams: 64,
				shutdownDrainMs: 25_000,
				maxHeaderBytes: 16_384,
				maxBufferedBytes: 1_073_741_824,
				maxConnections: undefined,
			},
			log: { access: 'off', requestId: false },
		});
	});

	it('says what is logged of requests', () => {
		for (const access of ['off', 'errors', 'all']) {
			const { log } = parse(`${MINIMAL}[log]\naccess = "${access}"\nrequest_id = true`);
			assert.deepEqual(log, { access, requestId: true });
		}
	});

	it('carries every key over', () => {
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
		assert.deepEqual(jwt, { publicKeyPath: 'jwt.pem', issuer: 'https://issuer.example', audience: 'edge' });
		assert.deepEqual(routes, [
			{
				prefix: '/api',
				upstream: { authority: 'api.internal:3000', host: 'api.internal', port: 3000 },
				cooldownMs: 9000,
			},
			{ prefix: '/', upstream: { authority: '[::1]:80', host: '::1', port: 80 }, cooldownMs: 1000 },
		]);
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
			['max_header_bytes', '8192', 'maxHeaderBytes', 8192],
			['max_buffered_bytes', '1_000_000', 'maxBufferedBytes', 1_000_000],
			['max_connections', '10', 'maxConnections', 10],
		];
		for (const [key, value, field, expected] of cases) {
			assert.equal(parse(`${MINIMAL}[limits]\n${key} = ${value}`).limits[field], expected, key);
		}
	});

	it('accepts fractions of a second between probes and never rounds them down to none', () => {
		assert.equal(parse(`health_interval_secs = 0.05${MINIMAL}`).healthIntervalMs, 50);
		assert.equal(parse(`health_interval_secs = 1e-9${MINIMAL}`).healthIntervalMs, 1);
	});

	it('is frozen through and through', () => {
		const config = parse(`${MINIMAL}[[routes]]\nprefix = "/"\nupstream = "http://a"`);
		const parts = [
			config,
			config.tls,
			config.jwt,
			config.limits,
			config.routes,
			config.routes[0],
			config.routes[0]?.upstream,
		];
		assert.deepEqual(
			parts.filter((part) => !Object.isFrozen(part)),
			[],
		);
	});

	it('may write its routes as one inline list', () => {
		const { routes } = parse(`routes = [{ prefix = "/a", upstream = "http://a:1" }]${MINIMAL}`);
		assert.deepEqual(
			routes.map(({ prefix }) => prefix),
			['/a'],
		);
	});
});

describe('a configuration that is wrong', () => {
	it('says what [log] may say', () => {
		assert.equal(
			messageOf(`${MINIMAL}[log]\naccess = "some"\nrequest_id = 1`),
			[
				'config.toml:9: log.access: must be "off", "errors" or "all" (got "some"); leave it out for "off"',
				'config.toml:10: log.request_id: must be true or false (got the number 1); leave it out for false',
			].join('\n'),
		);
	});

	it('is reported whole, in the order of the file, with line, key and remedy', () => {
		assert.deepEqual(
			messageOf(`health_interval_secs = 0
tenant_rsp = 5
default_cooldown_secs = "5"
[[routes]]
prefix = "/api"
upstream = "https://a:1"
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
				'config.toml:3: default_cooldown_secs: must be a whole number of seconds, at least 1 (got the string "5"); set it to 1 or more, or leave it out for 30',
				'config.toml:6: routes[0].upstream: must be http://host[:port] and nothing more (got "https://a:1"): upstreams are spoken to in plain HTTP/1.1; write "http://a:1" [route "/api"]',
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

	it('has its problems as data, too', () => {
		const [problem, ...others] = problemsOf(`${MINIMAL}isuer = "x"`);
		assert.deepEqual(problem, { line: 8, key: 'jwt.isuer', message: 'unknown key; did you mean issuer?' });
		assert.deepEqual(others, []);
	});

	it('names every required key of an empty file', () => {
		assert.deepEqual(keysOf(''), ['tls.cert_path', 'tls.key_path', 'tls.client_ca_path', 'jwt.jwks_path']);
	});

	it('says where a key belongs that stands in the wrong table', () => {
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

	it('lists what a table may have when no known key resembles the unknown one', () => {
		const [problem] = problemsOf(`${MINIMAL}"strange key" = 1`);
		assert.equal(problem?.key, 'jwt."strange key"');
		assert.equal(problem?.message, 'unknown key; [jwt] may have jwks_path, issuer, audience');
	});

	it('takes keys that mean something to JavaScript for unknown like any other', () => {
		for (const key of ['__proto__', 'constructor', 'toString', 'hasOwnProperty']) {
			assert.deepEqual(keysOf(`${key} = 1${MINIMAL}`), [key]);
			assert.deepEqual(keysOf(`${MINIMAL}[${key}]\npolluted = true`), [key]);
			assert.deepEqual(keysOf(`${MINIMAL}${key}.polluted = true`), [`jwt.${key}`]);
		}
		assert.equal('polluted' in {}, false);
	});

	it('is told what brackets to write', () => {
		assert.match(
			messageOf(`${MINIMAL}[routes]\nprefix = "/"`),
			/:8: routes: must be a list of tables \(got a table\); write \[\[routes\]\]/,
		);
		assert.match(messageOf('[[tls]]\ncert_path = "x"'), /:1: tls: must be a table \(got an array\); write \[tls\]/);
		assert.match(messageOf(`${MINIMAL}[[route]]\nprefix = "/"`), /:8: route: unknown key; did you mean routes\?/);
	});

	it('names the type that was wanted and the one that was found', () => {
		const cases: [line: string, message: RegExp][] = [
			['tenant_rps = "5"', /must be a whole number of requests per second, at least 0 \(got the string "5"\)/],
			['tenant_rps = true', /\(got the boolean true\)/],
			['tenant_rps = 2026-01-01', /\(got a date or time\)/],
			['tenant_rps = [5]', /\(got an array\)/],
			['tenant_rps = nan', /\(got the number NaN\)/],
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

	it('does not take an empty claim or path for one that is left out', () => {
		assert.deepEqual(keysOf(`${MINIMAL}issuer = ""\naudience = ""`), ['jwt.issuer', 'jwt.audience']);
		assert.deepEqual(keysOf(MINIMAL.replace('ca.pem', 'ca\\u0000.pem')), ['tls.client_ca_path']);
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

	it('never reveals a password that stands in an upstream address', () => {
		const message = messageOf(`${MINIMAL}[[routes]]\nprefix = "/"\nupstream = "http://user:s3cr3t@host:1"`);
		assert.match(message, /user info is not sent to upstreams; write "http:\/\/host:1"/);
		assert.doesNotMatch(message, /s3cr3t/);
	});

	it('yields one line for each problem, whatever the text', () => {
		const key = fc.oneof(fc.constantFrom(...[...KEYS.values()].flat(), '__proto__'), fc.string({ unit: 'grapheme' }));
		const scalar = fc.oneof(fc.string({ unit: 'grapheme' }), fc.integer(), fc.double(), fc.boolean());
		const value = fc.oneof(scalar, fc.array(scalar, { maxLength: 2 }));
		const lines = fc
			.dictionary(key, value, { maxKeys: 4 })
			.map((table) => Object.entries(table).map(([name, content]) => `${quote(name)} = ${quote(content)}`));
		const header = fc.constantFrom('[tls]', '[jwt]', '[[routes]]', '[limits]', '[routes.x]', '[unknown]');
		const tables = fc.array(fc.tuple(header, lines).map((table) => table.flat()));
		const well = fc.tuple(lines, tables).map((document) => document.flat(2).join('\n'));
		const seen = { syntax: 0, content: 0 };
		fc.assert(
			fc.property(fc.oneof(well, fc.string({ unit: 'binary' })), (text) => {
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

	it('reads the file and remembers its path', () => {
		const path = write(MINIMAL);
		assert.equal(loadConfig(path).path, path);
	});

	it('does not mind the byte order mark and the line ends of Windows', () => {
		assert.equal(loadConfig(write(`\ufefftenant_rps = 5${MINIMAL}`.replaceAll('\n', '\r\n'))).tenantRps, 5);
	});

	it('names the file that it cannot read, and the flag', () => {
		const path = join(folder, 'absent.toml');
		assert.throws(() => loadConfig(path), {
			name: 'ConfigError',
			message: `${path}: cannot be read: there is no such file; name another file with --config or PROXY_CONFIG`,
		});
		assert.throws(() => loadConfig(folder), /cannot be read: it is a directory;/);
	});

	it('refuses text that is not UTF-8', () => {
		assert.throws(() => loadConfig(write(Uint8Array.of(0x61, 0xff))), /cannot be read: it is not UTF-8 text;/);
	});
});

function errorOf(text: string): ConfigError {
	try {
		parse(text);
	} catch (error) {
		assert.ok(error instanceof ConfigError, String(error));
		return error;
	}
	assert.fail(`accepted ${JSON.stringify(text)}`);
}

const problemsOf = (text: string) => errorOf(text).problems;
const messageOf = (text: string) => errorOf(text).message;
const keysOf = (text: string) => problemsOf(text).map(({ key }) => key);

/** JSON's way to write strings, numbers and lists is TOML's, but for DEL. */
function quote(value: unknown): string {
	return JSON.stringify(value).replaceAll('\x7f', '\\u007f');
}
