import { equal, match, throws } from 'node:assert/strict';
import { describe, it } from 'node:test';
import { MINIMAL } from './minimal.ts';
import { parseConfig } from './parse.ts';

const limits = (text: string) => parseConfig(`${MINIMAL}[limits]\n${text}`).limits;

describe('a duration or size with a unit', () => {
	it('is converted from every unit', () => {
		for (const [text, ms] of [
			['500ms', 500],
			['30s', 30_000],
			['1.5m', 90_000],
			['2h', 7_200_000],
			['1d', 86_400_000],
		] as const) {
			equal(limits(`upstream_timeout_secs = "${text}"`).upstreamTimeoutMs, ms, text);
		}
		for (const [text, bytes] of [
			['1500B', 1_500],
			['64kB', 64_000],
			['64KiB', 65_536],
			['10MB', 10_000_000],
			['1.5GiB', 1_610_612_736],
		] as const) {
			equal(limits(`max_request_body_bytes = "${text}"`).maxRequestBodyBytes, bytes, text);
		}
	});

	it('works in lists of tables, too', () => {
		const { routes } = parseConfig(
			`${MINIMAL}[[routes]]\nprefix = "/a"\nupstream = "http://a.test:1"\ncooldown_secs = "1m"`,
		);
		equal(routes[0]?.cooldownMs, 60_000);
	});

	it('is refused, with the list of units, if it is misspelt, out of range, or not the required whole number', () => {
		for (const text of ['30', '30sec', '30 s', '-1s', '1m30s', '1e3s', 's', '', 'constructor', '99999d', '0s']) {
			throws(() => limits(`upstream_timeout_secs = "${text}"`), /upstream_timeout_secs/, text);
		}
		throws(
			() => limits('upstream_timeout_secs = "30sec"'),
			/:9: limits\.upstream_timeout_secs: must be .*"30sec".*a string such as "500ms", "30s", "5m", "1h" or "7d"/,
		);
		for (const text of ['10', '10mb', '10M', '0.5B', '10 MB']) {
			throws(() => limits(`max_request_body_bytes = "${text}"`), /max_request_body_bytes/, text);
		}
		throws(() => parseConfig(`default_cooldown_secs = "500ms"\n${MINIMAL}`), /whole number of seconds/);
	});

	it('names the line of the key', () => {
		try {
			limits('max_header_bytes = "1TB"');
		} catch (error) {
			return match((error as Error).message, /:9: limits\.max_header_bytes: .*"64KiB"/);
		}
		throw new Error('was accepted');
	});
});
