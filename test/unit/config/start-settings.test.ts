import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { describeConfig, type JsonSchema, tableOf } from '../../../packages/proxy/src/config/json-schema.ts';
import { parseConfig } from '../../../packages/proxy/src/config/load.ts';
import { KEYS } from '../../../packages/proxy/src/config/schema.ts';
import { changedInVain } from '../../../packages/proxy/src/config/start-settings.ts';
import { MINIMAL } from './minimal.ts';

const TLS = MINIMAL.split('[jwt]')[0]!;

describe('settings that need a restart', () => {
	it('are exactly the keys that the schema marks as read at the start', () => {
		const said = Array.from(KEYS.keys()).flatMap((table) => {
			const facts = tableOf(describeConfig(), table);
			return Object.entries(facts.properties ?? {})
				.filter(([, value]) => String((value as JsonSchema).read ?? facts.read).startsWith('at startup'))
				.map(([key]) => (table === '' ? key : `${table}.${key}`))
				.filter((key) => !KEYS.has(key));
		});
		assert.deepEqual(Object.keys(parseConfig(MINIMAL, 'c').atStart).sort(), said.sort());
		// So that a key does not lose this by mistake: workers and listeners have no way to take these over.
		for (const key of ['tenant_rps', 'state_dir', 'jwt.audience', 'limits.max_header_bytes', 'limiter.store']) {
			assert.ok(said.includes(key), key);
		}
		assert.ok(!said.includes('routes') && !said.includes('tls.cert_path') && !said.includes('jwt.reload'));
	});

	it('are reported with the line of the change, for every type of value', () => {
		for (const [before, after, words] of [
			['', 'tenant_rps = 5', 'tenant_rps (c.toml:1)'],
			['tenant_rps = 5', '', 'tenant_rps (removed from c.toml)'],
			['', '[status]\nhosts = ["a"]', 'status.hosts (c.toml:2)'],
			['[status]\nhosts = ["a"]', '[status]\nhosts = ["a", "b"]', 'status.hosts (c.toml:2)'],
			['[log]\naccess = "all"', '', 'log.access (removed from c.toml)'],
			['', '[limits]\nmax_header_bytes = 300', 'limits.max_header_bytes (c.toml:2)'],
			['', '[metrics]\nbuckets = [1, 2]', 'metrics.buckets (c.toml:2)'],
			['', '[trace]\nendpoint = "http://c/"', 'trace.endpoint (c.toml:2)'],
			['[trace]\nendpoint = "http://c/"', '', 'trace.endpoint (removed from c.toml)'],
			['', '[limiter]\nstore = "redis://s"', 'limiter.store (c.toml:2)'],
			['[limiter]\nstore = "redis://s"', '[limiter]\nstore = ["redis://t"]', 'limiter.store (c.toml:2)'],
		] as const) {
			assert.deepEqual(vain(before + MINIMAL, after + MINIMAL), [words], after);
		}
	});

	it('are not reported if a reload applies the change, or if nothing changed', () => {
		const other = MINIMAL.replaceAll('server', 'other').replace('ca.pem', 'd.pem');
		const routes = '[[routes]]\nprefix = "/"\nupstream = "http://a"\n[[tenants]]\nname = "a"\nrps = 5\n';
		assert.deepEqual(vain(MINIMAL, `health = false\n${other}${routes}`), []);
		assert.deepEqual(vain(MINIMAL, `tenant_rps = 1000\n${MINIMAL}`), [], 'what holds without the key');
		assert.deepEqual(vain('tenant_rps = 5\n[log]\n', `# moved\n\ntenant_rps = 5\n[log]\n`), []);
	});

	it('include those of [jwt] unless it is reloaded or replaced by [[issuers]]', () => {
		const audience = 'audience = "a"\n';
		const line = MINIMAL.split('\n').length;
		assert.deepEqual(vain(MINIMAL, MINIMAL + audience), [`jwt.audience (c.toml:${line})`]);
		assert.deepEqual(vain(MINIMAL, `${MINIMAL}${audience}reload = true\n`), []);
		const issuers = `${TLS}[[issuers]]\nissuer = "https://a.test"\njwks_path = "j"\n`;
		assert.deepEqual(vain(MINIMAL, issuers), []);
		assert.deepEqual(vain(issuers, MINIMAL), [`jwt.jwks_path (c.toml:${line - 1})`]);
	});
});

function vain(before: string, after: string): string[] {
	const parse = (text: string) => parseConfig(text.includes('[tls]') ? text : text + MINIMAL, 'c.toml');
	return changedInVain(parse(before), parse(after)).map(({ words }) => words);
}
