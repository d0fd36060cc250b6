import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { X509Certificate } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { before, describe, test } from 'node:test';
import { CrlError, isIssuedBy, maySignCrls, readCrl } from '../../../../packages/proxy/src/control/crl/crl.ts';
import { issueCrl } from '../../../fixtures/crl.ts';
import { type TestPki, temporaryFolder, testPki } from '../../../fixtures/pki.ts';

let pki: TestPki;
let ca: X509Certificate;
before(async () => {
	pki = await testPki();
	ca = new X509Certificate(pki.ca.certPem);
});

const refusalOf = async (der: Buffer): Promise<string> => {
	try {
		await readCrl(der);
		return 'none';
	} catch (error) {
		assert.ok(error instanceof CrlError, `${error}`);
		return error.message;
	}
};

const hex = (serials: readonly Buffer[]) => serials.map((serial) => serial.toString('hex').toUpperCase());

/** DER of an element. */
const element = (tag: number, ...content: Uint8Array[]) => {
	const bytes = Buffer.concat(content);
	return Buffer.concat([Buffer.from([tag, bytes.length]), bytes]);
};

describe('a CRL', () => {
	test('is read whole', async () => {
		const crl = await readCrl(await issueCrl(pki.ca, { serials: ['00AB01', '7f', '0100'], nextUpdate: 24 }));
		assert.deepEqual(hex(crl.serials), ['00AB01', '7F', '0100']);
		assert.equal(crl.covers, 'all');
		assert.ok(Math.abs(crl.nextUpdate - (Date.now() / 1000 + 24 * 3600)) < 60);
		assert.ok(Math.abs(crl.thisUpdate - (Date.now() / 1000 - 3600)) < 60);
		assert.deepEqual((await readCrl(await issueCrl(pki.ca))).serials, []);
	});

	test('belongs to a CA by name and signature', async () => {
		const crl = await readCrl(await issueCrl(pki.ca, { serials: ['01'] }));
		assert.equal(isIssuedBy(crl, ca), true);
		// The same name, another key; another name.
		assert.equal(isIssuedBy(crl, new X509Certificate(pki.otherCa.certPem)), false);
		assert.equal(isIssuedBy(crl, new X509Certificate((await pki.issueAuthority('Elsewhere')).certPem)), false);
		const der = await issueCrl(pki.ca, { serials: ['0102030405'] });
		der[der.indexOf(Buffer.from('0102030405', 'hex'))]! ^= 4;
		assert.equal(isIssuedBy(await readCrl(der), ca), false);
	});

	test('is refused if it does not list all revocations by itself', async () => {
		const some = { serials: ['01'] };
		const point = (...members: Buffer[]) => element(0x30, ...members);
		const yes = Buffer.from([0xff]);
		const cases: [reason: RegExp, der: Buffer][] = [
			[
				/^is a delta CRL.*give the complete CRL$/,
				await issueCrl(pki.ca, { extensions: [['2.5.29.27', element(2, yes), true]] }),
			],
			[
				/^is an indirect CRL.*give the CRL of each CA/,
				await issueCrl(pki.ca, { extensions: [['2.5.29.28', point(element(0x84, yes)), true]] }),
			],
			[/^is an indirect CRL/, await issueCrl(pki.ca, { ...some, entryExtensions: [['2.5.29.29', point(), true]] })],
			[
				/^covers only some reasons.*give the complete CRL$/,
				await issueCrl(pki.ca, { extensions: [['2.5.29.28', point(element(0x83, Buffer.from([1, 0x40]))), true]] }),
			],
			[
				/attribute certificates/,
				await issueCrl(pki.ca, { extensions: [['2.5.29.28', point(element(0x85, yes)), true]] }),
			],
			[
				/^has a critical extension \(1\.2\.3\.4\)/,
				await issueCrl(pki.ca, { extensions: [['1.2.3.4', point(), true]] }),
			],
			[
				/^has a critical extension \(1\.2\.3\.4\)/,
				await issueCrl(pki.ca, { ...some, entryExtensions: [['1.2.3.4', point(), true]] }),
			],
			[/^has no nextUpdate/, await issueCrl(pki.ca, { nextUpdate: undefined })],
		];
		for (const [reason, der] of cases) assert.match(await refusalOf(der), reason);
		const harmless = { extensions: [['1.2.3.4', point(), false]] } as const;
		assert.equal(await refusalOf(await issueCrl(pki.ca, harmless)), 'none');
	});

	test('is refused for a serial number that is not DER: it would match no certificate', async () => {
		const der = (await issueCrl(pki.ca, { serials: ['6B6B'] })).toString('hex');
		const withSerial = (serial: string) => refusalOf(Buffer.from(der.replace('02026b6b', `0202${serial}`), 'hex'));
		for (const serial of ['0001', 'ff80']) assert.match(await withSerial(serial), /^is not readable/, serial);
		for (const serial of ['0080', 'ff7f', '0100']) assert.equal(await withSerial(serial), 'none', serial);
	});

	test('may cover a part of the certificates', async () => {
		const covers = async (tag: number) => {
			const value = element(0x30, element(tag, Buffer.from([0xff])));
			return (await readCrl(await issueCrl(pki.ca, { extensions: [['2.5.29.28', value, true]] }))).covers;
		};
		assert.deepEqual([await covers(0x81), await covers(0x82)], ['users', 'authorities']);
	});

	test('a CRL with any byte damaged is refused without another effect', async () => {
		const der = await issueCrl(pki.ca, { serials: ['0102030405', '0607'] });
		for (let at = 0; at < der.length; at++) {
			assert.notEqual(await refusalOf(der.subarray(0, at)), 'none', `cut at ${at}`);
			for (const bit of [0x01, 0x20, 0x80]) {
				const damaged = Buffer.from(der);
				damaged[at]! ^= bit;
				// What can still be read is not signed by anybody.
				if ((await refusalOf(damaged)) === 'none')
					assert.equal(isIssuedBy(await readCrl(damaged), ca), false, `byte ${at}`);
			}
		}
		assert.match(await refusalOf(Buffer.concat([der, Buffer.from([0])])), /^is not readable; replace the file$/);
	});

	test('a CRL of a CA that may not sign CRLs is reported', async () => {
		assert.equal(maySignCrls(ca), true);
		assert.equal(maySignCrls(new X509Certificate(pki.server.certPem)), false);
	});
});

/** What others make: the library above knows ECDSA with SHA-256 as we have made it. */
describe('a CRL made by OpenSSL', () => {
	const kinds: [name: string, ...args: string[]][] = [
		['rsa', '-newkey', 'rsa:2048', '-sha384'],
		['rsa-pss', '-newkey', 'rsa:2048', '-sha256', '-sigopt', 'rsa_padding_mode:pss'],
		['ecdsa', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-384', '-sha512'],
		['ed25519', '-newkey', 'ed25519'],
	];
	for (const [name, ...args] of kinds) {
		test(`is verified: ${name}`, async () => {
			const dir = temporaryFolder(`crl-${name}`);
			const at = (file: string) => join(dir, file);
			const openssl = (command: string, ...more: string[]) =>
				execFileSync('openssl', [...command.split(' '), ...more], { cwd: dir, stdio: 'pipe' });
			openssl('req -x509 -nodes -days 9 -keyout ca.key -out ca.crt', '-subj', '/C=DE/CN=Roots, Inc.', ...args);
			writeFileSync(at('index'), 'R\t991231235959Z\t251231235959Z,keyCompromise\t0AB1\tunknown\t/CN=x\n');
			writeFileSync(at('crlnumber'), '01\n');
			const digest = args.find((arg) => arg.startsWith('-sha'))?.slice(1) ?? 'default';
			writeFileSync(
				at('ca.cnf'),
				`[ca]\ndefault_ca=d\n[d]\ndatabase=index\ncrlnumber=crlnumber\ndefault_md=${digest}\ndefault_crl_days=3\n`,
			);
			const options = args.includes('-sigopt') ? ['-sigopt', 'rsa_padding_mode:pss'] : [];
			openssl('ca -gencrl -config ca.cnf -keyfile ca.key -cert ca.crt -out crl.pem', ...options);
			openssl('crl -in crl.pem -outform DER -out crl.der');
			const crl = await readCrl(readFileSync(at('crl.der')));
			assert.deepEqual(hex(crl.serials), ['0AB1']);
			assert.equal(isIssuedBy(crl, new X509Certificate(readFileSync(at('ca.crt')))), true);
			assert.equal(isIssuedBy({ ...crl, signature: crl.signature.subarray(1) }, ca), false);
		});
	}
});
