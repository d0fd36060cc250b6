import assert from 'node:assert/strict';
import { isIPv4, isIPv6 } from 'node:net';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { forwarded } from '../../../packages/proxy/src/gates/forwarding.ts';
import { isAuthority } from '../../../packages/proxy/src/gates/headers.ts';

/** RFC 7239 section 4, RFC 9110 section 5.6: the pairs of one element, their values unquoted. */
function parse(value: string): [name: string, value: string, isQuoted: boolean][] {
	const pair =
		/([!#$%&'*+\-.^_`|~\w]+)=(?:([!#$%&'*+\-.^_`|~\w]+)|"((?:[\t \x21\x23-\x5b\x5d-\x7e]|\\[\t \x21-\x7e])*)")(?:;|$)/gy;
	const pairs = [...value.matchAll(pair)];
	assert.equal(pairs.map(([all]) => all).join(''), value, 'no grammar of RFC 7239');
	return pairs.map(([, name, token, quoted]) => [
		name!,
		token ?? quoted!.replaceAll(/\\(.)/g, '$1'),
		quoted !== undefined,
	]);
}

describe('Forwarded (RFC 7239)', () => {
	it('quotes IPv6, ports and what else is no token, and nothing more', () => {
		for (const [ip, authority, value] of [
			['192.0.2.7', 'api.example', 'for=192.0.2.7;host=api.example;proto=https'],
			['192.0.2.7', 'api.example:8443', 'for=192.0.2.7;host="api.example:8443";proto=https'],
			['2001:db8::7', 'api.example', 'for="[2001:db8::7]";host=api.example;proto=https'],
			['::1', '[::1]:8443', 'for="[::1]";host="[::1]:8443";proto=https'],
			['fe80::1%eth0', undefined, 'for="[fe80::1]";proto=https'],
			['192.0.2.7', undefined, 'for=192.0.2.7;proto=https'],
			['192.0.2.7', 'a,for=1.2.3.4', 'for=192.0.2.7;host="a,for=1.2.3.4";proto=https'],
			['192.0.2.7', 'a;proto=http', 'for=192.0.2.7;host="a;proto=http";proto=https'],
			['192.0.2.7', 'a:', 'for=192.0.2.7;host="a:";proto=https'],
		] as const) {
			assert.equal(forwarded(ip, authority), value);
		}
	});

	it('says one address, one host and one scheme, whatever the client has asked for', () => {
		const ip = fc.oneof(fc.ipV4(), fc.ipV6());
		const authority = fc.option(fc.stringMatching(/^[A-Za-z0-9._~!$&'()*+,;=%:[\]-]{1,30}$/).filter(isAuthority), {
			nil: undefined,
		});
		fc.assert(
			fc.property(ip, authority, (address, asked) => {
				const pairs = parse(forwarded(address, asked));
				const [[first, node, isQuoted]] = pairs as [[string, string, boolean]];
				assert.equal(first, 'for');
				if (isIPv4(address)) assert.deepEqual([node, isQuoted], [address, false]);
				else assert.ok(isQuoted && isIPv6(node.slice(1, -1)) && node === `[${address}]`, node);
				const rest = asked === undefined ? [] : [['host', asked]];
				assert.deepEqual(
					pairs.slice(1).map(([name, value]) => [name, value]),
					[...rest, ['proto', 'https']],
				);
			}),
			{ numRuns: 2000 },
		);
	});
});
