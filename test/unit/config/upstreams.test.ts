/** `[[upstreams]]`: a name for several addresses. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { configWarnings } from '../../../packages/proxy/src/config/warnings.ts';
import { MINIMAL } from './minimal.ts';
import { errorIn, parseConfig } from './parse.ts';

/** @param head above the first table. */
const parse = (tables: string, head = '') => parseConfig(`${head}${MINIMAL}${tables}`);
const problemsOf = (tables: string) => errorIn(`${MINIMAL}${tables}`)?.message.split('\n') ?? [];

const TWO = '[[upstreams]]\nname = "billing"\naddresses = ["10.0.0.1:8080", "[fd00::1]:80"]\n';
const DNS = '[[upstreams]]\nname = "billing"\ndns = "billing.internal:8080"\n';
const ROUTE = '[[routes]]\nprefix = "/a"\nupstream = "billing"\n';

describe('an upstream with a name', () => {
	test('has its addresses, in their order, for each route that names it', () => {
		const { routes, upstreams } = parse(`${ROUTE}${TWO}[[routes]]\nprefix = "/b"\nupstream = "billing"`);
		assert.deepEqual(routes[0]!.upstream.addresses, [
			{ authority: '10.0.0.1:8080', host: '10.0.0.1', port: 8080 },
			{ authority: '[fd00::1]:80', host: 'fd00::1', port: 80 },
		]);
		assert.equal(routes[0]!.upstream.name, 'billing');
		assert.equal(routes[0]!.upstream, routes[1]!.upstream);
		assert.deepEqual(upstreams, [routes[0]!.upstream]);
	});

	test('has its own probe settings, or those at the top of the file', () => {
		const { routes } = parse(
			`${TWO}health_path = "/own"\nupstream_idle_timeout_secs = 9\n${ROUTE}`,
			'unhealthy_after = 3\n',
		);
		const { health, idleTimeoutMs } = routes[0]!.upstream;
		assert.deepEqual(health, { path: '/own', timeoutMs: 2_000, unhealthyAfter: 3, healthyAfter: 1 });
		assert.equal(idleTimeoutMs, 9_000);
	});

	test('may get its addresses from DNS', () => {
		const { routes } = parse(`${DNS}dns_server = "[::1]:53"\ndns_refresh_secs = 0.5\n${ROUTE}`);
		const source = {
			authority: 'billing.internal:8080',
			host: 'billing.internal',
			port: 8080,
			hostField: 'billing.internal:8080',
		};
		assert.deepEqual(routes[0]!.upstream.dns, { ...source, server: '[::1]:53', refreshMs: 500 });
		assert.deepEqual(routes[0]!.upstream.addresses, []);
	});

	test('may choose the protocol (auto) only over TLS', () => {
		const auto = `${TWO}protocol = "auto"\n`;
		assert.equal(parse(`${auto}[upstreams.tls]\n${ROUTE}`).routes[0]!.upstream.protocol, 'auto');
		const [problem, ...others] = problemsOf(`${auto}${ROUTE}`);
		assert.match(problem!, /:11: upstreams\[0\]\.protocol: is "auto", .*ALPN.* add \[upstreams\.tls\], or write "h2"/);
		assert.deepEqual(others, []);
	});

	test('is in Host without the final dot of its name', () => {
		const { dns } = parse(`${DNS.replace('billing.internal:', 'billing.internal.:')}${ROUTE}`).routes[0]!.upstream;
		assert.deepEqual([dns!.host, dns!.hostField], ['billing.internal.', 'billing.internal:8080']);
	});

	test('has limits if one is set, and then a queue', () => {
		const limitsOf = (keys: string) => parse(`${TWO}${keys}\n${ROUTE}`).routes[0]!.upstream.limits;
		assert.equal(limitsOf(''), undefined);
		assert.deepEqual(limitsOf('max_requests = 9'), {
			maxRequests: 9,
			maxConnections: undefined,
			queue: 0,
			queueTimeoutMs: 5_000,
		});
		assert.deepEqual(limitsOf('max_connections = 2\nqueue = 7\nqueue_timeout_secs = 0.5'), {
			maxRequests: undefined,
			maxConnections: 2,
			queue: 7,
			queueTimeoutMs: 500,
		});
	});

	test('defaults to least requests, one retry and equal weights', () => {
		const group = (tables: string) => parse(`${tables}${ROUTE}`).routes[0]!.upstream;
		assert.deepEqual(group(TWO).balancing, { balance: 'least-requests', slowStartMs: 0, retries: 1 });
		const own = group(`${TWO}balance = "hash"\nslow_start_secs = 1.5\nretries = 0\n`);
		assert.deepEqual(own.balancing, { balance: 'hash', slowStartMs: 1_500, retries: 0 });
		const weighed = group(
			TWO.replace('"[fd00::1]:80"', '{ address = "[fd00::1]:80", weight = 3 }, { address = "a:1" }'),
		);
		assert.deepEqual(weighed.addresses, [
			{ authority: '10.0.0.1:8080', host: '10.0.0.1', port: 8080 },
			{ authority: '[fd00::1]:80', host: 'fd00::1', port: 80, weight: 3 },
			{ authority: 'a:1', host: 'a', port: 1, weight: 1 },
		]);
	});

	test('causes a warning if no route uses it', () => {
		const [warning] = configWarnings(parse(TWO)).filter(({ key }) => key?.startsWith('upstreams'));
		assert.match(`${warning?.key}: ${warning?.message}`, /^upstreams\[0\].name: no route uses it/);
	});

	const second = (address: string) => TWO.replace('"[fd00::1]:80"', address);
	for (const [what, tables, problem] of [
		[
			'a name without an upstream',
			ROUTE,
			/upstream: there is no \[\[upstreams\]\] with the name "billing"; write one, or "http:\/\/billing"/,
		],
		['a misspelt name', `${TWO.replace('billing', 'biling')}${ROUTE}`, /did you mean "biling"\?/],
		[
			'a duplicate name',
			`${TWO}${TWO}${ROUTE}`,
			/upstreams\[1\].name: "billing" is already the name of upstreams\[0\] on line 9/,
		],
		[
			'a name that could be an address',
			TWO.replace('billing', 'a.b'),
			/name: must be a name of letters, digits, "-" and "_" \(got "a.b"\)/,
		],
		['an empty list', TWO.replace(/\[".*\]/, '[]'), /addresses: must be a list of addresses, at least one/],
		[
			'an address without a port',
			TWO.replace(':8080', ''),
			/addresses\[0\]: must be host:port \(got "10.0.0.1"\): the port is missing/,
		],
		[
			'a URL as an address',
			TWO.replace('"10', '"http://10'),
			/addresses\[0\]: must be host:port \(got "http:\/\/10.0.0.1:8080"\): it is a URL; write it as "10.0.0.1:8080"/,
		],
		[
			'an https:// URL as a DNS name',
			DNS.replace('billing.internal:8080', 'https://billing.internal/'),
			/dns: must be host:port .*: it is a URL; write it as "billing.internal:443", and a table \[upstreams.tls\] below/,
		],
		[
			'a password in an address',
			TWO.replace('"10', '"http://u:hunter2@10'),
			/addresses\[0\]: must be host:port \(got "http:\/\/\*\*\*@10.0.0.1:8080"\): user info is not sent to upstreams; write it as/,
		],
		[
			'a password in an address of a route, without a scheme',
			'[[routes]]\nprefix = "/"\nupstream = "u:hunter2@10.0.0.1:8080"\n',
			/upstream: must be http.* \(got "\*\*\*@10.0.0.1:8080"\)/,
		],
		[
			'TLS of a route',
			`${TWO}${ROUTE}[routes.tls]\nca_path = "ca.pem"\n`,
			/routes\[0\].tls: unknown key; it belongs in \[\[upstreams\]\]/,
		],
		[
			'a number as an address',
			second('8080'),
			/addresses\[1\]: must be "host:port" or { address = "host:port", weight = 2 } \(got the number 8080\); write it as/,
		],
		[
			'a weight without an address',
			second('{ weight = 2 }'),
			/:\d+: upstreams\[0\].addresses\[1\].address: is missing; write it as "10.0.0.1:8080"/,
		],
		[
			'a weight of 0',
			second('{ address = "b:1", weight = 0 }'),
			/:\d+: upstreams\[0\].addresses\[1\].weight: must be a whole number, at least 1 \(got 0\); set it to 1 or more/,
		],
		[
			'an unknown key of an address',
			second('{ address = "b:1", wieght = 2 }'),
			/:\d+: upstreams\[0\].addresses\[1\].wieght: unknown key; the keys of an address are address and weight/,
		],
		[
			'a duplicate address with a weight',
			second('{ address = "10.0.0.1:8080", weight = 2 }'),
			/addresses\[1\]: "10.0.0.1:8080" is duplicated/,
		],
		[
			'an unknown balance',
			`${TWO}balance = "least-connections"\n`,
			/balance: must be "least-requests", "round-robin" or "hash" \(got "least-connections"\); leave it out for "least-requests"/,
		],
		[
			'11 retries',
			`${TWO}retries = 11\n`,
			/retries: must be a whole number of retries, at most 10 \(got 11\); set it to 10 or less, or leave it out for 1/,
		],
		[
			'a key of the upstream in one of its routes',
			`${TWO}${ROUTE}health = false`,
			/routes\[0\].health: applies to all routes to \[\[upstreams\]\] "billing"; move it there/,
		],
		['dns and addresses', `${TWO}dns = "a.b:80"\n${ROUTE}`, /dns: conflicts with addresses; keep one of the two/],
		[
			'neither dns nor addresses',
			`[[upstreams]]\nname = "billing"\n${ROUTE}`,
			/addresses: is missing; set it to a list of addresses, or set dns/,
		],
		['dns_server without dns', `${TWO}dns_server = "127.0.0.1:53"\n${ROUTE}`, /dns_server: needs dns; set dns/],
		[
			'an IP address as a DNS name',
			DNS.replace('billing.internal', '10.0.0.1'),
			/dns: must be host:port .*: it is an IP address/,
		],
		[
			'a DNS server by its name',
			`${DNS}dns_server = "localhost:53"\n`,
			/dns_server: must be the address and the port of a DNS/,
		],
		['a queue without a limit', `${TWO}queue = 5\n${ROUTE}`, /queue: needs max_requests or max_connections; set one/],
		[
			'a limit of 0',
			`${TWO}max_requests = 0\n${ROUTE}`,
			/max_requests: must be a whole number of requests in flight, at least 1/,
		],
	] as const) {
		test(`refuses ${what}`, () => {
			const message = problemsOf(tables).join('\n');
			assert.match(message, problem);
			assert.doesNotMatch(message, /hunter2/);
		});
	}
});
