import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import {
	configSchemaText,
	describeConfig,
	type JsonSchema,
	tableOf,
} from '../../../packages/proxy/src/config/json-schema.ts';
import { parseConfig } from '../../../packages/proxy/src/config/load.ts';
import { KEYS } from '../../../packages/proxy/src/config/schema.ts';
import { parseToml } from '../../../packages/proxy/src/config/toml.ts';
import { isBeyondSchema, schemaProblems } from './parse.ts';

describe('the JSON Schema of the configuration', () => {
	it('explains every table and every key, and its default', () => {
		const schema = describeConfig();
		for (const [table, keys] of KEYS) {
			const { properties, required = [], description } = tableOf(schema, table);
			if (table !== '') assert.ok(description, table);
			for (const key of keys) {
				const facts = properties?.[key] as JsonSchema;
				if (KEYS.has(key) && table === '') continue;
				assert.ok(
					facts.description,
					`${table}.${key} has no description: .describe() or .meta({ description: … }) last`,
				);
				const known = required.includes(key) || facts.default !== undefined || facts.unset !== undefined;
				assert.ok(known, `${table}.${key} has neither a default nor unset`);
			}
		}
	});

	it('has only members that editors know', () => {
		assert.doesNotMatch(configSchemaText(), /"(?:unset|noun|read|or)":/);
	});

	it('agrees with the loader on all mistakes that a schema can describe', () => {
		let accepted = 0;
		fc.assert(
			fc.property(configuration, (root) => {
				const text = toToml(root);
				const problems = loaderProblems(text).filter((problem) => !isBeyondSchema(problem));
				assert.equal(problemsIn(text).length === 0, problems.length === 0, `${text}\n${problems}\n${problemsIn(text)}`);
				if (problems.length === 0) accepted++;
			}),
			{ numRuns: 500 },
		);
		// Otherwise the two would agree only on refusals.
		assert.ok(accepted > 50, String(accepted));
	});
});

function problemsIn(text: string): string[] {
	return schemaProblems(parseToml(text, 'c').root);
}

function loaderProblems(text: string): string[] {
	try {
		parseConfig(text, 'c');
		return [];
	} catch (error) {
		return (error as Error).message.split('\n');
	}
}

const seconds = fc.constantFrom<unknown>(0, 0.5, 1, 30, 2_147_483, 2_147_484, -1, 'x');
const count = fc.constantFrom<unknown>(0, 1, 2, 16, 17, 100, 1000, 1001, 1.5, -1, true);
const flag = fc.constantFrom<unknown>(true, true, false, 'yes');
const path = fc.constantFrom<unknown>('a.pem', 'a.pem', 'dir/b.pem', '', 'https://a.test/x', 5);

/** Each key in most of the cases with a value that is valid for the key, so that whole files are accepted now and then. */
function some(keys: Record<string, fc.Arbitrary<unknown>>, required: string[] = []): fc.Arbitrary<object> {
	return fc.record(keys, { requiredKeys: required });
}

function rarely(keys: Record<string, fc.Arbitrary<unknown>>): fc.Arbitrary<object> {
	const names = Object.keys(keys);
	return fc
		.subarray(names, { maxLength: Math.min(2, names.length) })
		.chain((chosen) => fc.record(Object.fromEntries(chosen.map((name) => [name, keys[name]!]))));
}

function both(always: fc.Arbitrary<object>, sometimes: fc.Arbitrary<object>): fc.Arbitrary<object> {
	return fc.tuple(always, sometimes).map(([a, b]) => ({ ...a, ...b }));
}

const good = { cert: fc.constant('a.pem') };
const rate = { rps: count, burst: count };
const tls = both(
	some({ cert_path: good.cert, key_path: good.cert, client_ca_path: good.cert }, [
		'cert_path',
		'key_path',
		'client_ca_path',
	]),
	rarely({
		cert_path: path,
		min_version: fc.constantFrom('1.2', '1.3', '1.1'),
		crl_path: fc.constantFrom<unknown>('a', ['a', 'b'], []),
		crl_required: flag,
		end_at_expiry: flag,
		other: path,
	}),
);
const rateClaim = { rate_claim: fc.constantFrom<unknown>('rps', ''), max_rps: count };
const bound = fc.constantFrom('if-present', 'required', 'ignore', 'no');
const jwt = both(
	some({ jwks_path: good.cert }, ['jwks_path']),
	rarely({ jwks_path: path, issuer: path, audience: path, certificate_bound: bound, reload: flag, ...rateClaim }),
);
const issuer = both(
	fc.oneof(
		some({ issuer: fc.constant('https://a.test'), jwks_path: good.cert }, ['issuer', 'jwks_path']),
		some({ issuer: fc.constant('https://a.test'), discovery: fc.constant(true) }, ['issuer', 'discovery']),
		some({ issuer: fc.constant('https://a.test') }),
	),
	rarely({
		audience: fc.constantFrom<unknown>('a', ['a', 'b'], [], ''),
		algorithms: fc.constantFrom<unknown>(['ES256'], ['HS256'], [], 'RS256'),
		leeway_secs: fc.constantFrom<unknown>(0, 60.5, 601, '5'),
		public_key_path: path,
		jwks_url: fc.constantFrom<unknown>('https://a.test/k', 'HTTPS://a.test', 'ftp://a.test', 5),
		discovery: flag,
		jwks_ca_path: path,
		refresh_secs: seconds,
		max_stale_secs: seconds,
		tenant_prefix: fc.constantFrom<unknown>('', 'a:', 'a b', 5),
		tenant_claim: fc.constantFrom<unknown>('sub', ['org', 'id'], [], ['']),
		required_claims: fc.constantFrom<unknown>(['a'], { a: 'b', c: [1, true] }, { a: [] }, 1),
		certificate_bound: bound,
		...rateClaim,
	}),
);
const names = fc.constantFrom<unknown>(['spiffe://a.test/b'], ['dns:a.test', 'cn:x'], [], ['alice'], 'dns:a');
const route = both(
	some(
		{
			prefix: fc.constantFrom('/', '/a', '/a/b'),
			upstream: fc.constantFrom('http://a', 'http://b:80', 'HTTP://[::1]:5', 'http://10.0.0.1'),
		},
		['prefix', 'upstream'],
	),
	rarely({
		prefix: fc.constantFrom<unknown>('a', '/a?b', '/a#', 5),
		upstream: fc.constantFrom<unknown>('a', 'https://a', 'http://a/b', 'http://u@a', 'http://a b', 5),
		allow: names,
		deny: names,
		tenants: fc.oneof(count, fc.constantFrom<unknown>(['a', 'b c'], [' a'], [], 'a')),
		scopes: fc.constantFrom<unknown>(['a'], ['a b'], [], 'a'),
		client_cert: fc.constantFrom('none', 'leaf', 'chain', 'x'),
		xfcc: fc.constantFrom<unknown>([], ['uri'], ['hash'], 'uri'),
		cooldown_secs: count,
		max_body_bytes: count,
		body_timeout_secs: seconds,
		upstream_timeout_secs: seconds,
		failures: count,
		health: flag,
		health_path: fc.constantFrom<unknown>('/h', 'h', '/h#', 5),
		unhealthy_after: count,
		...rate,
	}),
);
const tenant = both(
	some({ name: fc.constantFrom('acme', 'a b') }, ['name']),
	rarely({ name: fc.constantFrom<unknown>('', ' a', 5), concurrency: count, ...rate }),
);
const configuration = both(
	both(
		fc.constant({}),
		fc.oneof(
			some({ tls, jwt }, ['tls', 'jwt']),
			some({ tls, issuers: fc.array(issuer, { minLength: 1, maxLength: 2 }) }, ['tls', 'issuers']),
			some({ tls, jwt, issuers: fc.array(issuer, { maxLength: 1 }) }),
		),
	),
	rarely({
		health_interval_secs: seconds,
		tenant_rps: count,
		health: flag,
		health_path: fc.constantFrom<unknown>('/h', 'h'),
		reload_on_change: flag,
		revoked_path: path,
		state_dir: path,
		default_cooldown_secs: count,
		breaker: rarely({ failures: count, tenants: count, other: count }),
		limits: rarely({
			max_header_bytes: count,
			shutdown_delay_secs: seconds,
			upstream_timeout_secs: seconds,
			rate_limit_headers: flag,
		}),
		listener: rarely({
			proxy_protocol_from: fc.constantFrom<unknown>(['10.0.0.0/8', 'fd00::/8'], ['10.1.2.3/8'], ['lb'], [], '::1', [5]),
			proxy_protocol_timeout_secs: seconds,
		}),
		log: rarely({ access: fc.constantFrom<unknown>('off', 'all', 'some', true), request_id: flag }),
		tenants: fc.array(tenant, { maxLength: 2 }),
		routes: fc.array(route, { minLength: 1, maxLength: 2 }),
		metrics: rarely({ buckets: fc.constantFrom<unknown>([0.5, 1], [1, 0.5], [], [0], [3601], 'x', 1) }),
		other: count,
	}),
);

/** Every value in one line, as inline tables: JSON but for `=`. */
function toToml(root: object): string {
	return Object.entries(root)
		.map(([key, value]) => `${key} = ${literal(value)}\n`)
		.join('');
}

function literal(value: unknown): string {
	if (Array.isArray(value)) return `[${value.map(literal).join(', ')}]`;
	if (typeof value !== 'object' || value === null) return JSON.stringify(value);
	return `{ ${Object.entries(value)
		.map(([key, part]) => `${key} = ${literal(part)}`)
		.join(', ')} }`;
}
