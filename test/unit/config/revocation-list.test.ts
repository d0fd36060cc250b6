import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { issuerKey } from '../../../packages/gate/src/identity/revocations.ts';
import { readRevocationList } from '../../../packages/proxy/src/config/revocation-list.ts';

const HEX = 'ab'.repeat(32);
const problemsOf = (text: string) => readRevocationList(text).problems;

describe('the list of what is revoked', () => {
	it('has each kind, in one spelling', () => {
		const colons = HEX.match(/../g)!.join(':');
		const { list, problems } = readRevocationList(`
			certificates = ["${HEX}", "sha256:${HEX}", "${colons}"]
			serials = [{ issuer = "C = DE, CN = Clients", serial = "00:0a:1b" }, { issuer = "CN=x", serial = "a1b" }]
			tokens = ["jti-1"]
			tenants = ["acme"]
		`);
		assert.deepEqual(problems, []);
		assert.deepEqual(list, {
			certificates: Array(3).fill(HEX.toUpperCase()),
			serials: [
				{ issuer: issuerKey('C=DE, CN=Clients'), serial: '0A1B' },
				{ issuer: issuerKey('CN=x'), serial: '0A1B' },
			],
			tokens: ['jti-1'],
			tenants: ['acme'],
		});
	});

	it('may be empty', () => {
		assert.deepEqual(readRevocationList('# nobody\n').list, { certificates: [], serials: [], tokens: [], tenants: [] });
	});

	it('reports all wrong lines at once', () => {
		const problems = problemsOf(
			[
				'certificates = [',
				`  "${HEX}",`,
				`  "${HEX}0",`,
				']',
				'serials = [{ issuer = "Clients", serial = "xyz" }, "1"]',
				'tokens = "one"',
				'tenants = [""]',
				'tenant = ["a"]',
				'[[other]]',
			].join('\n'),
		);
		assert.deepEqual(problems.map((problem) => /^line \d+: [^:]*/.exec(problem)?.[0]).toSorted(), [
			'line 3: certificates[1]',
			'line 5: serials[0].issuer',
			'line 5: serials[0].serial',
			'line 5: serials[1]',
			'line 6: tokens',
			'line 7: tenants[0]',
			'line 8: tenant',
			'line 9: other',
		]);
		assert.match(problems.join('\n'), /line 3: .* 64 hexadecimal digits .*openssl x509 -noout -fingerprint -sha256/);
		assert.match(problems.join('\n'), /line 8: tenant: unknown key; did you mean tenants\?/);
	});

	it('that is not TOML is refused with its line', () => {
		assert.match(problemsOf('tokens = [\n"a"\n').join(), /^line \d+: is not valid TOML/);
		assert.match(problemsOf('jti-1\njti-2').join(), /^line 2: is not valid TOML/);
	});

	it('knows the line of each name', () => {
		const { about } = readRevocationList(
			'\nserials = [\n{ issuer = "CN=a", serial = "1" },\n\n{ issuer = "CN=b", serial = "1" }]',
		);
		assert.equal(about('serials[0].issuer', 'is odd'), 'line 3: serials[0].issuer: is odd');
		assert.equal(about('serials[1].issuer', 'is odd'), 'line 5: serials[1].issuer: is odd');
	});
});
