import assert from 'node:assert/strict';
import { X509Certificate } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { before, describe, test } from 'node:test';
import { caId } from '../../../../packages/gate/src/identity/certificate-facts.ts';
import { issuerKey } from '../../../../packages/gate/src/identity/revocations.ts';
import { type ConfigTables, renderConfig } from '../../../../packages/proxy/src/cli/demo/config-file.ts';
import { describeProblem } from '../../../../packages/proxy/src/config/error.ts';
import { inspect, reloadedFiles } from '../../../../packages/proxy/src/control/files/inspection.ts';
import { SerialTable } from '../../../../packages/proxy/src/identity/serial-table.ts';
import { crlPem, issueCrl, issueLongCrl } from '../../../fixtures/crl.ts';
import { type TestPki, testPki } from '../../../fixtures/pki.ts';
import { certify, newKeys } from '../../../fixtures/second-certificates.ts';

let pki: TestPki;
before(async () => {
	pki = await testPki();
});

const binary = (name: string, bytes: Buffer) => {
	const path = join(pki.dir, name);
	writeFileSync(path, bytes);
	return path;
};
const pem = async (...args: Parameters<typeof issueCrl>) => crlPem(await issueCrl(...args));

interface Revocation {
	readonly tls?: Partial<ConfigTables['tls']>;
	readonly revoked?: string;
	/** TOML in place of `[jwt]`. */
	readonly issuers?: string;
}

/** What the start, a reload and `proxy check` all find. */
async function inspected({ tls, revoked, issuers }: Revocation) {
	const text = renderConfig({
		...(revoked !== undefined && { revoked_path: pki.writeFile('revoked.toml', revoked) }),
		tls: { cert_path: pki.server.certPath, key_path: pki.server.keyPath, client_ca_path: pki.caPath, ...tls },
		jwt: { jwks_path: pki.publicKeyPath, issuer: 'i', audience: 'a' },
		routes: [{ prefix: '/', upstream: 'http://127.0.0.1:1' }],
	});
	const path = pki.writeFile('config.toml', issuers === undefined ? text : text.replace(/\[jwt\][^[]*/, issuers));
	const { files, problems, warnings } = await inspect(path, new Date());
	const lines = (found: typeof problems) =>
		found.map((one) => describeProblem('config.toml', one).replaceAll(`${pki.dir}/`, ''));
	return { config: files?.config, clients: files?.tls.clients, problems: lines(problems), warnings: lines(warnings) };
}

describe('the CRLs', () => {
	test('may be one or several, in PEM or DER, in one file or more', async () => {
		const one = pki.writeFile(
			'two.crl',
			(await pem(pki.ca, { serials: ['01'] })) + (await pem(pki.ca, { serials: ['02'] })),
		);
		const other = binary('one.der', await issueCrl(pki.ca, { serials: ['03'] }));
		const { clients, problems, warnings } = await inspected({ tls: { crl_path: [one, other], crl_required: true } });
		assert.deepEqual([problems, warnings], [[], []]);
		assert.equal(clients?.crlRequired, true);
		assert.deepEqual(
			clients.crls.map(({ issuer, serials, covers }) => [
				issuer,
				['01', '02', '03'].filter((one) => new SerialTable(serials).has(Buffer.from(one, 'hex'))),
				covers,
			]),
			[
				['CN=Test CA', ['01'], 'all'],
				['CN=Test CA', ['02'], 'all'],
				['CN=Test CA', ['03'], 'all'],
			],
		);
		assert.equal(clients.crls[0]!.caId, caId(new X509Certificate(pki.ca.certPem)));
	});

	test("may be an intermediate's that only clients send, if its certificate is next to it", async () => {
		const intermediate = await pki.issueAuthority('Somewhere below');
		const text = (await pem(intermediate, { serials: ['01'] })) + (await pem(pki.ca));
		const alone = await inspected({ tls: { crl_path: pki.writeFile('alone.crl', text) } });
		assert.match(
			alone.problems.join('\n'),
			/^config.toml:\d+: tls.crl_path \(alone.crl\): the CRL on line 1 is not signed by a CA of tls.client_ca_path; .* certificate into the same file, too$/,
		);
		const together = await inspected({ tls: { crl_path: pki.writeFile('together.crl', text + intermediate.certPem) } });
		assert.deepEqual([together.problems, together.warnings], [[], []]);
		assert.deepEqual(
			together.clients?.crls.map(({ issuer }) => issuer),
			['CN=Somewhere below', 'CN=Test CA'],
		);
	});

	test('unusable CRLs are named with line and file, all at once', async () => {
		const good = await pem(pki.ca);
		const delta = await pem(pki.ca, { extensions: [['2.5.29.27', Buffer.from([2, 1, 1]), true]] });
		const files = {
			'cut.crl': good.slice(0, -30),
			'delta.crl': `# comment\n${delta}`,
			'foreign.crl': await pem(pki.otherCa),
			'key.crl': good + pki.server.keyPem,
			'cert.crl': pki.ca.certPem,
			'none.crl': 'nothing\n',
		};
		const paths = Object.entries(files).map(([name, text]) => pki.writeFile(name, text));
		paths.push(binary('broken.der', Buffer.from([0x30, 0x82])), '/nowhere/x.crl');
		const { clients, problems } = await inspected({ tls: { crl_path: paths } });
		assert.equal(clients, undefined);
		const wanted = [
			/^config.toml:\d+: tls.crl_path\[0\] \(cut.crl\): the block that begins on line 1 is truncated.*; replace the file$/,
			/tls.crl_path\[1\] \(delta.crl\): the CRL on line 2 is a delta CRL.*; give the complete CRL$/,
			/tls.crl_path\[2\] \(foreign.crl\): the CRL on line 1 is not signed by a CA of tls.client_ca_path/,
			/tls.crl_path\[3\] \(key.crl\): contains a block "PRIVATE KEY" on line \d+, which is not a CRL; remove it$/,
			/tls.crl_path\[4\] \(cert.crl\): contains no CRL/,
			/tls.crl_path\[5\] \(none.crl\): contains no CRL/,
			/tls.crl_path\[6\] \(broken.der\): the CRL is not readable; replace the file$/,
			/tls.crl_path\[7\] \(\/nowhere\/x.crl\): cannot be read: there is no such file$/,
		];
		assert.equal(problems.length, wanted.length, problems.join('\n'));
		for (const line of wanted)
			assert.ok(
				problems.some((problem) => line.test(problem)),
				`${line}: ${problems.join('\n')}`,
			);
	});

	test('CRLs of a CA that does not chain to the bundle are refused, even with its certificate next to them', async () => {
		const stranger = pki.otherCa;
		const text = (await pem(stranger)) + stranger.certPem;
		const { problems } = await inspected({ tls: { crl_path: pki.writeFile('stranger.crl', text) } });
		assert.match(
			problems.join(),
			/tls.crl_path \(stranger.crl\): the CRL on line 1 is not signed by a CA of tls.client_ca_path/,
		);
		// A CA of the bundle has issued it, but it is itself no CA.
		const keys = await newKeys();
		const client = await certify(pki.ca, 'client', keys, { isCa: false });
		const own = pki.writeFile('own.crl', (await pem(client)) + client.certPem);
		assert.match((await inspected({ tls: { crl_path: own } })).problems.join(), /own.crl.* is not signed by a CA/);
		// Through another certificate of the file, in any order.
		const upper = await pki.issueAuthority('Between');
		const lower = await pki.issueAuthority('At the end', upper);
		const chain = pki.writeFile('chain.crl', (await pem(lower)) + lower.certPem + upper.certPem + (await pem(pki.ca)));
		assert.deepEqual((await inspected({ tls: { crl_path: chain } })).problems, []);
	});

	test('may have 300,000 entries and more than 8 MiB, and the loop turns while they are read', async () => {
		const der = await issueLongCrl(pki.ca, 300_000);
		assert.ok(der.length > 8 * 1024 * 1024);
		let turns = 0;
		let immediate = setImmediate(function turn() {
			turns++;
			immediate = setImmediate(turn);
		});
		const { problems, clients } = await inspected({ tls: { crl_path: binary('long.der', der) } });
		clearImmediate(immediate);
		assert.deepEqual(problems, []);
		// A slice has 4 ms, and reading all of it takes longer than 40.
		assert.ok(turns > 10, `${turns} turns`);
		const table = new SerialTable(clients!.crls[0]!.serials);
		const serial = (i: number) => Buffer.from(`01${i.toString(16).padStart(8, '0')}${'00'.repeat(15)}`, 'hex');
		assert.deepEqual(
			[0, 1, 299_999, 300_000].map((i) => table.has(serial(i))),
			[true, true, true, false],
		);
		assert.ok(clients!.crls[0]!.serials.octets.buffer instanceof SharedArrayBuffer, 'workers get it without a copy');
	});

	test('a stale CRL, and a CA without a CRL, cause a warning', async () => {
		const stale = await inspected({
			tls: { crl_path: pki.writeFile('stale.crl', await pem(pki.ca, { thisUpdate: -9, nextUpdate: -1 })) },
		});
		assert.equal(stale.problems.length, 0);
		assert.match(
			stale.warnings.join('\n'),
			/^config.toml:\d+: tls.crl_path \(stale.crl\): the CRL on line 1 has been out of date since .*Z; fetch the next one$/,
		);
		const bundle = pki.writeFile('bundle.crt', pki.ca.certPem + (await pki.issueAuthority('Unlisted')).certPem);
		const crl_path = pki.writeFile('fresh.crl', await pem(pki.ca));
		const missing = await inspected({ tls: { crl_path, client_ca_path: bundle } });
		assert.match(
			missing.warnings.join('\n'),
			/no CRL of the CA "CN=Unlisted" .*: its certificates are not checked for revocation; add its CRL$/,
		);
		const refused = await inspected({ tls: { crl_path, client_ca_path: bundle, crl_required: true } });
		assert.match(
			refused.warnings.join('\n'),
			/no CRL of the CA "CN=Unlisted" .*: its clients are refused; add its CRL$/,
		);
	});

	test('are not reported if the bundle is wrong', async () => {
		const crl_path = pki.writeFile('fresh.crl', await pem(pki.ca));
		const { problems } = await inspected({ tls: { crl_path, client_ca_path: pki.server.keyPath } });
		assert.deepEqual(
			problems.filter((problem) => problem.includes('crl_path')),
			[],
		);
		assert.equal(problems.length, 1);
	});
});

describe('the list of what is revoked', () => {
	test('is read with each reload, as the CRLs are', async () => {
		const crl_path = pki.writeFile('watched.crl', await pem(pki.ca));
		const { config } = await inspected({ tls: { crl_path: [crl_path] }, revoked: '' });
		assert.ok(config !== undefined);
		assert.deepEqual(reloadedFiles(config).slice(-2), [crl_path, join(pki.dir, 'revoked.toml')]);
	});

	test('is named with file and lines if it is wrong', async () => {
		const { problems, clients } = await inspected({ revoked: 'tokens = ["a"]\ncertificates = ["abc"]\n' });
		assert.equal(clients, undefined);
		assert.match(
			problems.join('\n'),
			/^config.toml:1: revoked_path \(revoked.toml\): line 2: certificates\[0\]: must be the SHA-256 of a certificate/,
		);
	});

	test('warns of a name that no CA of the bundle has', async () => {
		const entry = (issuer: string) => `serials = [{ issuer = "${issuer}", serial = "01" }]`;
		assert.deepEqual((await inspected({ revoked: entry('CN = Test CA') })).warnings, []);
		const { warnings, clients } = await inspected({ revoked: entry('CN=Test CA, C=DE') });
		assert.match(
			warnings.join('\n'),
			/revoked_path \(revoked.toml\): line 1: serials\[0\].issuer: is not the name of a CA in tls.client_ca_path, which has "CN=Test CA"; check its spelling/,
		);
		assert.deepEqual(clients?.revoked.serials, [{ issuer: issuerKey('CN=Test CA, C=DE'), serial: '01' }]);
	});

	test('warns of a tenant that no issuer has', async () => {
		const issuers = `[[issuers]]
issuer = "i"
audience = "a"
public_key_path = "${pki.publicKeyPath}"
tenant_prefix = "a/"
`;
		const { warnings, clients } = await inspected({ issuers, revoked: 'tenants = [\n"a/joe",\n"joe"]' });
		const [warning, ...others] = warnings.filter((one) => one.includes('revoked_path'));
		assert.match(
			warning!,
			/line 3: tenants\[1\]: is not the name of any issuer's tenant: their names begin with "a\/"/,
		);
		assert.deepEqual([others, clients?.revoked.tenants], [[], ['a/joe', 'joe']]);
	});

	test('is empty without a file', async () => {
		const { clients, warnings } = await inspected({});
		assert.deepEqual(warnings, []);
		assert.deepEqual(clients, {
			crls: [],
			crlRequired: false,
			revoked: { certificates: [], serials: [], tokens: [], tenants: [] },
			endAtExpiry: true,
			endAtCaRemoval: false,
		});
	});
});
