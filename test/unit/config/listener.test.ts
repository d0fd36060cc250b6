import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { configWarnings } from '../../../packages/proxy/src/config/warnings.ts';
import { tableOf } from './table.ts';

const { parse, problemOf } = tableOf('listener');

describe('[listener]', () => {
	it('expects no PROXY protocol, unless the file names its senders', () => {
		assert.deepEqual(parse('').listener, { proxyProtocolFrom: [], proxyProtocolTimeoutMs: 5000 });
	});

	it('takes addresses and ranges, and a time limit', () => {
		const lines = 'proxy_protocol_from = ["10.0.0.0/8", "fd00::/8", "192.0.2.7"]\nproxy_protocol_timeout_secs = 3.5';
		const proxyProtocolFrom = ['10.0.0.0/8', 'fd00::/8', '192.0.2.7'];
		assert.deepEqual(parse(lines).listener, { proxyProtocolFrom, proxyProtocolTimeoutMs: 3500 });
	});

	for (const [lines, message] of [
		['proxy_protocol_from = "10.0.0.0/8"', /:10: listener\.proxy_protocol_from: must be a list of addresses.*; name/],
		['proxy_protocol_from = [10]', /:10: listener\.proxy_protocol_from\[0\]: must be an IP address.*the number 10/],
		['proxy_protocol_from = ["::1", "lb"]', /listener\.proxy_protocol_from\[1\]: must be an IP address.*"lb"/],
		['proxy_protocol_from = ["10.1.2.3/8"]', /listener\.proxy_protocol_from\[0\]: .*write "10\.0\.0\.0\/8"/],
		[`proxy_protocol_from = [${'"::1",'.repeat(257)}]`, /has more than 256 entries; combine them/],
		['proxy_protocol_timeout_secs = 0', /listener\.proxy_protocol_timeout_secs: must be a number of seconds above 0/],
		['proxy_protocol = true', /unknown key; \[listener\] may have proxy_protocol_from, proxy_protocol_timeout_secs/],
	] as const) {
		it(`says what is wrong with ${lines.slice(0, 50)}`, () => assert.match(problemOf(lines), message));
	}

	it('warns of ranges that contain all addresses', () => {
		const warned = (list: string) =>
			configWarnings(parse(`proxy_protocol_from = ${list}`)).filter(({ key }) => key?.startsWith('listener'));
		assert.deepEqual(warned('["0.0.0.0/1", "10.0.0.0/8"]'), []);
		const [warning, ...others] = warned('["10.0.0.0/8", "::/0"]');
		assert.deepEqual([warning?.key, warning?.line, others], ['listener.proxy_protocol_from[1]', 10, []]);
		assert.match(warning!.message, /is every address: .*; name only the load balancers/);
	});
});
