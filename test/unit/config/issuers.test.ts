import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { parseJwksUrl } from '../../../packages/gate/src/jwks/jwks-url.ts';
import { configWarnings } from '../../../packages/proxy/src/config/warnings.ts';
import { errorIn, parseConfig } from './parse.ts';

const TLS = '[tls]\ncert_path = "c"\nkey_path = "k"\nclient_ca_path = "a"\n';
const parse = (text: string) => parseConfig(`${TLS}${text}`);

function problemsIn(text: string): string[] {
	const lines = errorIn(`${TLS}${text}`)?.message.split('\n') ?? [];
	return lines.map((line) => line.replace(/^config\.toml:/, ''));
}

const GOOD = '[[issuers]]\nissuer = "https://a.test"\njwks_path = "a.json"\n';

describe('[[issuers]]', () => {
	it('replace [jwt]; only the name and the keys have no default', () => {
		const { jwt, issuers, issuerFiles, reloadsIdentity, stateDir } = parse(GOOD);
		assert.deepEqual([jwt, reloadsIdentity, stateDir], [undefined, true, undefined]);
		assert.deepEqual(issuers, [
			{
				issuer: 'https://a.test',
				rules: {
					issuer: 'https://a.test',
					audience: undefined,
					algorithms: ['RS256'],
					leewaySeconds: 60,
					tenantClaim: ['sub'],
					requiredClaims: [],
					tenantPrefix: '',
					certificateBound: 'if-present',
					rateClaim: undefined,
				},
				keys: { type: 'file', key: 'issuers[0].jwks_path' },
			},
		]);
		const file = { key: 'issuers[0].jwks_path', path: 'a.json', content: 'keys', algorithms: ['RS256'] };
		assert.deepEqual(issuerFiles, [file]);
	});

	it('accept every key', () => {
		const { issuers, issuerFiles } = parse(`
			[[issuers]]
			issuer = "https://a.test"
			audience = ["edge", "other"]
			algorithms = ["ES256", "EdDSA"]
			leeway_secs = 0
			jwks_url = "https://a.test/keys"
			jwks_ca_path = "ca.pem"
			refresh_secs = 30
			max_stale_secs = 3600.5
			tenant_prefix = "a:"
			tenant_claim = ["org", "id"]
			required_claims = { org = "acme", env = ["prod", 7, true] }
			[[issuers]]
			issuer = "http://127.0.0.1:8080"
			audience = "edge"
			discovery = true
			tenant_prefix = "b:"
			tenant_claim = "azp"
			required_claims = ["email"]
		`);
		const [first, second] = issuers;
		assert.deepEqual(first!.rules, {
			issuer: 'https://a.test',
			audience: ['edge', 'other'],
			algorithms: ['ES256', 'EdDSA'],
			leewaySeconds: 0,
			tenantClaim: ['org', 'id'],
			requiredClaims: [
				{ name: 'org', values: ['acme'] },
				{ name: 'env', values: ['prod', 7, true] },
			],
			tenantPrefix: 'a:',
			certificateBound: 'if-present',
			rateClaim: undefined,
		});
		const times = { refreshMs: 30_000, maxStaleMs: 3_600_500 };
		const url = 'https://a.test/keys';
		const network = { type: 'network', key: 'issuers[0].jwks_url', url, caKey: 'issuers[0].jwks_ca_path', ...times };
		assert.deepEqual(first!.keys, network);
		assert.deepEqual(
			issuerFiles.map(({ key, content }) => [key, content]),
			[['issuers[0].jwks_ca_path', 'authorities']],
		);
		assert.deepEqual(second!.keys, {
			type: 'network',
			key: 'issuers[1].discovery',
			url: undefined,
			caKey: undefined,
			refreshMs: 300_000,
			maxStaleMs: 86_400_000,
		});
		assert.deepEqual(second!.rules.requiredClaims, [{ name: 'email', values: undefined }]);
		assert.deepEqual([second!.rules.tenantClaim, second!.rules.audience], [['azp'], ['edge']]);
	});

	it('are refused with line, key and remedy, all problems at once', () => {
		const cases: readonly [text: string, ...problems: RegExp[]][] = [
			['', /^ jwt\.jwks_path: is missing; set it to the file/],
			['[jwt]\nissuer = "x"', /^5: jwt\.jwks_path: is missing/],
			['issuers = 1', /tls\.issuers: unknown key/],
			[`[jwt]\njwks_path = "j"\n${GOOD}`, /^5: jwt: conflicts with \[\[issuers\]\]/],
			['[[issuers]]', /^5: issuers\[0\]\.issuer: is missing/, /^5: issuers\[0\]: has no keys; give one of/],
			['[[issuers]]\nissuer = ""\njwks_path = "j"', /^6: issuers\[0\]\.issuer: must be the "iss"/],
			[`${GOOD}discovery = true`, /^8: issuers\[0\]\.discovery: conflicts with jwks_path/],
			[`${GOOD}public_key_path = "p"`, /^7: issuers\[0\]\.jwks_path: conflicts with public_key_path/],
			[`${GOOD}refresh_secs = 1`, /^8: issuers\[0\]\.refresh_secs: is only for jwks_url and discovery/],
			[`${GOOD}jwks_ca_path = "c"`, /^8: issuers\[0\]\.jwks_ca_path: is only for jwks_url/],
			[
				`${GOOD}algorithms = ["RS256", "HS256"]`,
				/^8: issuers\[0\]\.algorithms\[1\]: must be one of .*"HS256".*anyone could sign/,
			],
			[`${GOOD}algorithms = ["none"]`, /anyone could sign/],
			[`${GOOD}algorithms = []`, /must name an algorithm/],
			[`${GOOD}algorithms = "RS256"`, /must be a list of algorithms/],
			[`${GOOD}leeway_secs = -1`, /from 0 to 600/],
			[`${GOOD}audience = []`, /empty list/],
			[`${GOOD}audience = [1]`, /audience\[0\]: must be the "aud"/],
			[`${GOOD}tenant_prefix = "a b"`, /visible characters of ASCII/],
			[`${GOOD}tenant_claim = ["org", ""]`, /tenant_claim\[1\]: must be the name of a claim/],
			[`${GOOD}required_claims = { a = [] }`, /required_claims\.a: is an empty list; write the names/],
			[`${GOOD}required_claims = [1]`, /a list of names, or a table/],
			[`${GOOD}required_claims = 1`, /a list of names, or a table/],
			[`${GOOD}jwks_uri = "x"`, /unknown key; did you mean jwks_url\?/],
			['[[issuers]]\nissuer = "a"\njwks_url = "http://issuer.test/"', /http:\/\/ is only for 127\.0\.0\.1/],
			[
				'[[issuers]]\nissuer = "a"\ndiscovery = true',
				/^7: issuers\[0\]\.discovery: needs an issuer that is an https:\/\//,
			],
			[
				'[[issuers]]\nissuer = "a"\njwks_url = "https://a.test/"\nmax_stale_secs = 10',
				/^8: issuers\[0\]\.max_stale_secs: is 10, less than refresh_secs \(300\)/,
			],
			[
				`${GOOD}tenant_prefix = "a"\n${GOOD}tenant_prefix = "b"`,
				/^10: issuers\[1\]\.issuer: "https:\/\/a\.test" is already issuers\[0\] on line 6/,
			],
		];
		for (const [text, ...problems] of cases) {
			const found = problemsIn(text);
			for (const problem of problems)
				assert.ok(
					found.some((line) => problem.test(line)),
					`${text}: ${found}`,
				);
		}
	});

	it('accept max_stale_secs that equals refresh_secs', () => {
		assert.deepEqual(problemsIn('[[issuers]]\nissuer = "a"\njwks_url = "https://a.test/"\nmax_stale_secs = 300'), []);
	});

	it('need prefixes that do not begin one another, so that no two tenants share a name', () => {
		const two = (a: string, b: string) =>
			problemsIn(`${GOOD}${a}\n[[issuers]]\nissuer = "b"\njwks_path = "b"\n${b}`).join('\n');
		assert.equal(two('tenant_prefix = "a:"', 'tenant_prefix = "b:"'), '');
		assert.match(two('', ''), /issuers\[0\]\.tenant_prefix: is missing[\s\S]*issuers\[1\]\.tenant_prefix: is missing/);
		assert.match(two('', 'tenant_prefix = "b:"'), /issuers\[0\]\.tenant_prefix: is missing: tenants of two issuers/);
		assert.match(
			two('tenant_prefix = "a"', 'tenant_prefix = "a"'),
			/issuers\[1\]\.tenant_prefix: "a" is the beginning/,
		);
		assert.match(
			two('tenant_prefix = "ab"', 'tenant_prefix = "a"'),
			/issuers\[1\]\.tenant_prefix: "a" is the beginning/,
		);
	});

	it('cause a warning without an audience', () => {
		const [warning] = configWarnings(parse(GOOD));
		assert.deepEqual([warning!.key, warning!.line], ['issuers[0].audience', 5]);
	});

	it('cause a warning about tenants that no token can name', () => {
		const route = (tenants: string) => `[[routes]]\nprefix = "/"\nupstream = "http://a"\ntenants = ${tenants}\n`;
		const warnings = (prefix: string) =>
			configWarnings(
				parse(
					`${GOOD}audience = "a"\n${prefix}\n[[tenants]]\nname = "joe"\nrps = 1\n[[tenants]]\nname = "a/joe"\nrps = 1\n${route('["a/joe", "joe"]')}`,
				),
			).map(({ line, key, message }) => `${line} ${key}: ${message}`);
		const message = `is not the name of any issuer's tenant: their names begin with "a/"; write it with the prefix`;
		assert.deepEqual(warnings('tenant_prefix = "a/"'), [
			`19 routes[0].tenants[1]: ${message}`,
			`11 tenants[0].name: ${message}`,
		]);
		assert.deepEqual(warnings(''), []);
	});
});

describe('where keys may be fetched from', () => {
	it('is HTTPS, or this machine', () => {
		for (const good of ['https://a.test/keys?x=1', 'https://10.0.0.1:8443', 'http://127.0.0.1:1/', 'http://[::1]/x']) {
			assert.ok(parseJwksUrl(good) instanceof URL, good);
		}
		for (const bad of [
			'',
			'a.test/keys',
			'http://a.test/',
			'http://localhost/',
			'http://127.0.0.1.evil.test/',
			'http://[::2]/',
			'https://user:secret@a.test/',
			'https://a.test/#x',
			'file:///etc/passwd',
			'https:///x',
			'ftp://a.test/',
		]) {
			const problem = parseJwksUrl(bad);
			assert.equal(typeof problem, 'string', bad);
			assert.equal(String(problem).includes('secret'), false);
		}
	});
});
