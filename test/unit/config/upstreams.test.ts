/** `[[upstreams]]`: a name for several addresses. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { parseConfig } from '../../../src/config/load.ts';
import { configWarnings } from '../../../src/config/warnings.ts';

const MINIMAL = `
[tls]
cert_path = "server.pem"
key_path = "server.key"
client_ca_path = "ca.pem"
[jwt]
jwks_path = "jwt.pem"
`;

/** @param head above the first table. */
function parse(tables: string, head = '') {
	return parseConfig(`${head}${MINIMAL}${tables}`, 'config.toml');
}

function problemsOf(tables: string): string[] {
	try {
		parse(tables);
	} catch (error) {
		return (error as Error).message.split('\n');
	}
	return [];
}

const TWO = '[[upstreams]]\nname = "billing"\naddresses = ["10.0.0.1:8080", "[fd00::1]:80"]\n';
const ROUTE = '[[routes]]\nprefix = "/a"\nupstream = "billing"\n';

describe('an upstream with a name', () => {
	test('has its addresses, in their order, for each route that names it', () => {
		const { routes, upstreams } = parse(`${ROUTE}${TWO}[[routes]]\nprefix = "/b"\nupstream = "billing"`);
		assert.deepEqual(routes[0]!.group.addresses, [
			{ authority: '10.0.0.1:8080', host: '10.0.0.1', port: 8080 },
			{ authority: '[fd00::1]:80', host: 'fd00::1', port: 80 },
		]);
		assert.equal(routes[0]!.group.name, 'billing');
		assert.equal(routes[0]!.group, routes[1]!.group);
		assert.deepEqual(upstreams, [routes[0]!.group]);
	});

	test('says itself how it is probed, or the top of the file says it', () => {
		const { routes } = parse(
			`${TWO}health_path = "/own"\nupstream_idle_timeout_secs = 9\n${ROUTE}`,
			'unhealthy_after = 3\n',
		);
		const { health, idleTimeoutMs } = routes[0]!.group;
		assert.deepEqual(health, { path: '/own', timeoutMs: 2_000, unhealthyAfter: 3, healthyAfter: 1 });
		assert.equal(idleTimeoutMs, 9_000);
	});

	test('is told of when no route leads there', () => {
		const [warning] = configWarnings(parse(TWO)).filter(({ key }) => key?.startsWith('upstreams'));
		assert.match(`${warning?.key}: ${warning?.message}`, /^upstreams\[0\].name: no route leads there/);
	});

	for (const [what, tables, problem] of [
		[
			'a name that nobody has',
			ROUTE,
			/upstream: there is no \[\[upstreams\]\] with the name "billing"; write one, or "http:\/\/billing"/,
		],
		['a name that is nearly right', `${TWO.replace('billing', 'biling')}${ROUTE}`, /did you mean "biling"\?/],
		[
			'two of one name',
			`${TWO}${TWO}${ROUTE}`,
			/upstreams\[1\].name: "billing" is already the name of upstreams\[0\] on line 10/,
		],
		[
			'a name that could be an address',
			TWO.replace('billing', 'a.b'),
			/name: must be a name of letters, digits, "-" and "_" \(got "a.b"\)/,
		],
		['no addresses', TWO.replace(/\[".*\]/, '[]'), /addresses: must be a list of addresses, at least one/],
		[
			'an address without a port',
			TWO.replace(':8080', ''),
			/addresses\[0\]: must be host:port \(got "10.0.0.1"\): the port is missing/,
		],
		['an address with a scheme', TWO.replace('"10', '"http://10'), /addresses\[0\]: must be host:port/],
		[
			'an address that is there twice',
			TWO.replace('[fd00::1]:80', '10.0.0.1:8080'),
			/addresses\[1\]: "10.0.0.1:8080" is there twice/,
		],
		[
			'what holds for all of its routes beside one of them',
			`${TWO}${ROUTE}health = false`,
			/routes\[0\].health: holds for all that lead to \[\[upstreams\]\] "billing"; move it there/,
		],
		[
			'one pair of brackets',
			TWO.replace('[[upstreams]]', '[upstreams]'),
			/upstreams: must be a list of tables .*write \[\[upstreams\]\]/,
		],
	] as const) {
		test(`refuses ${what}`, () => assert.match(problemsOf(tables).join('\n'), problem));
	}
});
