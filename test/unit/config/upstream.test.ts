import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { parseUpstream } from '../../../packages/proxy/src/config/upstream.ts';

describe('an upstream address', () => {
	it('is http or https, a host and an optional port', () => {
		const cases: [text: string, authority: string, host: string, port: number][] = [
			['http://localhost:3000', 'localhost:3000', 'localhost', 3000],
			['http://localhost', 'localhost:80', 'localhost', 80],
			['HTTP://API.Example:8080', 'api.example:8080', 'api.example', 8080],
			['http://my_service.internal.', 'my_service.internal.:80', 'my_service.internal.', 80],
			['http://10.0.0.1:65535', '10.0.0.1:65535', '10.0.0.1', 65_535],
			['http://[::1]:1', '[::1]:1', '::1', 1],
			['http://a:00080', 'a:80', 'a', 80],
			['https://a', 'a:443', 'a', 443],
			['HTTPS://[::1]:8443', '[::1]:8443', '::1', 8443],
			['h2c://a:50051', 'a:50051', 'a', 50_051],
			['H2C://a', 'a:80', 'a', 80],
		];
		for (const [text, authority, host, port] of cases) {
			const protocol = /^h2c/i.test(text) ? 'h2' : 'http/1.1';
			assert.deepEqual(parseUpstream(text), {
				address: { authority, host, port },
				tls: /^https/i.test(text),
				protocol,
			});
		}
	});

	it('has one authority for all spellings of an IPv6 address', () => {
		for (const spelling of ['[2001:db8::1]', '[2001:DB8:0:0:0:0:0:1]', '[2001:0db8::0001]']) {
			const address = { authority: '[2001:db8::1]:80', host: '2001:db8::1', port: 80 };
			assert.deepEqual(parseUpstream(`http://${spelling}:80`), { address, tls: false, protocol: 'http/1.1' });
		}
	});

	it('is refused with a remedy that would be accepted', () => {
		const cases: [text: string, remedy: string][] = [
			['localhost:3000', 'http://localhost:3000'],
			['localhost', 'http://localhost'],
			['https://a:1/', 'https://a:1'],
			['tcp://a:1', 'http://a:1'],
			['http://a:1/', 'http://a:1'],
			['http://a:1/path', 'http://a:1'],
			['http://a:1?query', 'http://a:1'],
			['http://a:1#fragment', 'http://a:1'],
			['http://user@a:1', 'http://a:1'],
			['https://user:password@a:1/path', 'https://a:1'],
			['', 'http://localhost:3000'],
			['http://', 'http://localhost:3000'],
			['http://:80', 'http://localhost:3000'],
			['http://a:', 'http://localhost:3000'],
			['http://a:0', 'http://localhost:3000'],
			['http://a:65536', 'http://localhost:3000'],
			['http://a b', 'http://localhost:3000'],
			['http://a%2eb', 'http://localhost:3000'],
			['http://bücher.example', 'http://localhost:3000'],
			['http://a..b', 'http://localhost:3000'],
			['http://::1:80', 'http://localhost:3000'],
			['http://[::1', 'http://localhost:3000'],
			['http://[fe80::1%eth0]', 'http://localhost:3000'],
			['http://a\n', 'http://localhost:3000'],
		];
		for (const [text, remedy] of cases) {
			const problem = parseUpstream(text);
			assert.ok(typeof problem === 'string', `${JSON.stringify(text)} was accepted`);
			assert.equal(/write (?:for example )?"([^"]*)"$/.exec(problem)?.[1], remedy, problem);
			assert.equal(typeof parseUpstream(remedy), 'object');
		}
	});

	it('is one address', () => {
		for (const text of ['http://a:1,http://b:2', 'http://a:1 http://b:2', 'http://a:1;b:2', 'a:1 b:2']) {
			const problem = String(parseUpstream(text));
			assert.match(
				problem,
				/: several addresses go into an \[\[upstreams\]\] table, which the route names; write /,
				text,
			);
		}
		assert.match(String(parseUpstream('http://a:1,http://b:2')), /; write "http:\/\/a:1"$/);
		assert.doesNotMatch(String(parseUpstream('http://u:secret@a:1,http://b')), /secret/);
	});

	it('is never a number that a resolver would read as some other IPv4 address', () => {
		for (const host of [
			'1',
			'127.1',
			'0x7f.1',
			'0177.0.0.1',
			'256.0.0.1',
			'1.2.3.4.5',
			'2130706433',
			'1.2.3.4.',
			'a.0x',
		]) {
			assert.equal(typeof parseUpstream(`http://${host}`), 'string', host);
		}
	});

	it('agrees with the URL standard on everything that it accepts', () => {
		const host = fc.oneof(
			fc.domain(),
			fc.ipV4(),
			fc.ipV6().map((address) => `[${address}]`),
			fc.string(),
		);
		const port = fc.oneof(
			fc.constant(''),
			fc.nat(70_000).map((number) => `:${number}`),
		);
		fc.assert(
			fc.property(host, port, (name, suffix) => {
				const text = `http://${name}${suffix}`;
				const parsed = parseUpstream(text);
				if (typeof parsed === 'string') return;
				const url = new URL(text);
				assert.equal(parsed.address.authority, `${url.hostname}:${url.port || 80}`);
				assert.deepEqual(parseUpstream(`http://${parsed.address.authority}`), parsed);
			}),
		);
	});
});
