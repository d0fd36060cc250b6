/** `[upstreams.tls]`, and `https://` in the URL of a route. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { configWarnings } from '../../../packages/proxy/src/config/warnings.ts';
import { MINIMAL } from './minimal.ts';
import { errorIn, parseConfig } from './parse.ts';

const GROUP = '[[upstreams]]\nname = "billing"\naddresses = ["10.0.0.1:8443"]\n';
const ROUTE = '[[routes]]\nprefix = "/a"\nupstream = "billing"\n';
const tlsOf = (table: string) => parseConfig(`${MINIMAL}${GROUP}${table}${ROUTE}`).routes[0]!.upstream.tls;
const DEFAULTS = {
	key: 'upstreams[0].tls',
	caPath: undefined,
	serverName: undefined,
	certPath: undefined,
	keyPath: undefined,
	minVersion: undefined,
	verify: true,
};

describe('TLS to the addresses of an upstream', () => {
	test('is off without its table, which may be empty', () => {
		assert.equal(tlsOf(''), undefined);
		assert.deepEqual(tlsOf('[upstreams.tls]\n'), DEFAULTS);
	});

	test('has its own CAs, name, certificate and version', () => {
		const text =
			'ca_path = "ca.pem"\nserver_name = "Billing.Internal"\ncert_path = "c.pem"\nkey_path = "k.pem"\nmin_version = "1.3"\n';
		assert.deepEqual(tlsOf(`[upstreams.tls]\n${text}`), {
			...DEFAULTS,
			caPath: 'ca.pem',
			serverName: 'billing.internal',
			certPath: 'c.pem',
			keyPath: 'k.pem',
			minVersion: '1.3',
		});
		for (const [written, name] of [
			['10.0.0.1', '10.0.0.1'],
			['::1', '::1'],
			['[::1]', '::1'],
		]) {
			assert.equal(tlsOf(`[upstreams.tls]\nserver_name = "${written}"\n`)?.serverName, name);
		}
	});

	test('belongs to the upstream above it', () => {
		const other = '[[upstreams]]\nname = "other"\naddresses = ["10.0.0.1:8443"]\n';
		const { upstreams } = parseConfig(`${MINIMAL}${other}${GROUP}[upstreams.tls]\n${ROUTE}`);
		assert.deepEqual(
			upstreams.map(({ tls }) => tls?.key),
			[undefined, 'upstreams[1].tls'],
		);
	});

	test('without verification causes a warning', () => {
		const config = parseConfig(`${MINIMAL}${GROUP}[upstreams.tls]\ninsecure_skip_verify = true\n${ROUTE}`);
		assert.equal(config.routes[0]!.upstream.tls?.verify, false);
		const [warning] = configWarnings(config).filter(({ key }) => key?.endsWith('insecure_skip_verify'));
		assert.match(`${warning?.line}: ${warning?.message}`, /^12: is true: any server at these addresses/);
	});

	for (const [table, problem] of [
		['cert_path = "c.pem"', /:12: upstreams\[0\]\.tls\.cert_path: needs key_path: .*set both, or neither/],
		['key_path = "k.pem"', /key_path: needs cert_path: /],
		[
			'ca_path = "ca.pem"\ninsecure_skip_verify = true',
			/:13: upstreams\[0\]\.tls\.insecure_skip_verify: is true, so ca_path would have no effect; remove one/,
		],
		['server_name = "a:1"', /must be a host name or an IP address, without a port \(got "a:1"\)/],
		['min_version = "1.1"', /must be "1.2" or "1.3" \(got "1.1"\)/],
		['client_ca_path = "ca.pem"', /unknown key; it belongs in \[tls\]/],
	] as const) {
		test(`refuses ${table}`, () => {
			assert.match(errorIn(`${MINIMAL}${GROUP}[upstreams.tls]\n${table}\n${ROUTE}`)?.message ?? '', problem);
		});
	}
});

describe('an https:// upstream of a route', () => {
	test("is verified against Node's CAs and its host name", () => {
		const { upstream: group } = parseConfig(`${MINIMAL}[[routes]]\nprefix = "/"\nupstream = "https://a"\n`).routes[0]!;
		assert.deepEqual(group.tls, { ...DEFAULTS, key: undefined });
		assert.deepEqual(group.addresses, [{ authority: 'a:443', host: 'a', port: 443 }]);
	});

	test('cannot be plain for another route', () => {
		const routes =
			'[[routes]]\nprefix = "/a"\nupstream = "https://a:80"\n[[routes]]\nprefix = "/b"\nupstream = "http://a"\n';
		assert.match(
			errorIn(`${MINIMAL}${routes}`)?.message ?? '',
			/:13: routes\[1\]\.upstream: is http:\/\/ here and https:\/\/ for routes\[0\] on line 10, for the same upstream "a:80"/,
		);
	});
});
