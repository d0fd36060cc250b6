import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { X509Certificate } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { before, describe, test } from 'node:test';
import { factsOf } from '../../../packages/gate/src/identity/certificate-facts.ts';
import { eitherWayKey, readName } from '../../../packages/gate/src/identity/distinguished-name.ts';
import { issuerKey } from '../../../packages/gate/src/identity/revocations.ts';
import { namesOf } from '../../../packages/proxy/src/data/listener/certificate-names.ts';
import { temporaryFolder } from '../../fixtures/pki.ts';

const dir = temporaryFolder('names');

/** A certificate that has issued itself, made by openssl. @returns its path. */
function certified(file: string, subject: string, ...more: string[]): string {
	const path = join(dir, `${file}.pem`);
	const words = [
		'req',
		'-x509',
		'-newkey',
		'ed25519',
		'-nodes',
		'-keyout',
		join(dir, 'key'),
		'-utf8',
		'-multivalue-rdn',
		'-subj',
		subject,
		'-out',
		path,
		...more,
	];
	execFileSync('openssl', words, { stdio: 'pipe' });
	return path;
}

/**
 * The issuers of these certificates, as openssl prints them. `x509` takes one certificate, and `verify` takes all of them: a process for each
 * costs more than the rest of this file.
 */
function printed(paths: readonly string[], options: readonly string[]): string[] {
	const run = (...words: string[]) => execFileSync('openssl', words, { encoding: 'utf8' });
	// In these two `verify` prints otherwise.
	if (/multiline|compat/.test(options.join()))
		return paths.map((path) => run('x509', '-noout', '-issuer', '-in', path, ...options));
	const all = join(dir, 'all');
	writeFileSync(all, paths.map((path) => readFileSync(path, 'utf8')).join(''));
	const chains = run('verify', '-CAfile', all, '-show_chain', ...options, ...paths);
	return chains
		.split(/^.*: OK\nChain:\ndepth=0: /m)
		.slice(1)
		.map((name) => `issuer=${name}`);
}

function read(path: string): X509Certificate {
	return new X509Certificate(readFileSync(path));
}

const keyOf = (certificate: X509Certificate) => eitherWayKey(readName(factsOf(certificate).issuer));

const FORMS = [
	[],
	['-nameopt', 'oneline'],
	['-nameopt', 'oneline,utf8,-esc_msb'],
	['-nameopt', 'RFC2253'],
	['-nameopt', 'RFC2253,-esc_msb'],
	['-nameopt', 'multiline'],
	['-nameopt', 'multiline,utf8,-esc_msb'],
	['-nameopt', 'oneline,lname'],
	['-nameopt', 'oneline,oid'],
	['-nameopt', 'oneline,show_type'],
	['-nameopt', 'oneline,sep_semi_plus_space'],
	['-nameopt', 'RFC2253,dump_all,dump_der'],
	['-nameopt', 'compat'],
];

describe("an issuer's name", () => {
	const names: Record<string, string> = {
		plain: '/C=DE/O=Clients/CN=CA',
		comma: '/C=DE/O=Foo, Inc./CN=x',
		'plus and several values': '/C=DE/O=A\\+B/OU=one+CN=two',
		'not ASCII': '/C=DE/O=Müller/CN=日本 😀',
		'blanks and signs': '/CN=#1 "best" <CA>;a\\\\b',
		'looks like two': '/O=a\\/CN=b/CN=x\\+CN=y',
		'leading blank': '/O= x /CN=#abcd',
		'other types': '/DC=example/DC=clients/UID=7/emailAddress=a@b.example/1.2.3.4=x',
		long: `/O=${'long '.repeat(12)}/OU=${'longer, '.repeat(7)}/OU=${'ü'.repeat(60)}/OU=${'y'.repeat(64)}/CN=z`,
	};
	let paths: string[];
	let texts: string[][];
	before(() => {
		paths = Object.entries(names).map(([what, subject]) => certified(what.replaceAll(' ', '-'), subject));
		texts = FORMS.map((form) => printed(paths, form));
	});
	for (const [i, what] of Object.keys(names).entries()) {
		test(`is read as openssl prints it and as the log writes it: ${what}`, () => {
			const certificate = read(paths[i]!);
			for (const [form, all] of texts.entries()) {
				assert.equal(all.length, paths.length);
				const text = all[i]!;
				assert.equal(issuerKey(text), keyOf(certificate), `${FORMS[form]}: ${text}`);
			}
			assert.equal(issuerKey(String(namesOf(certificate).issuer)), keyOf(certificate));
			assert.equal(issuerKey(certificate.issuer), keyOf(certificate));
		});
	}

	test('is compared without letter case, white space and types of strings', () => {
		const path = certified('printable', '/O=The  Clients/CN=CA 1');
		const spellings = ['o=the clients, cn=ca 1', 'CN=CA 1,O=The Clients', 'O = "THE   CLIENTS" , CN = Ca  1'];
		for (const spelling of spellings) assert.equal(issuerKey(spelling), keyOf(read(path)), spelling);
		assert.notEqual(issuerKey('O=The Clients, CN=CA 2'), keyOf(read(path)));
		assert.notEqual(issuerKey('O=The Clients + CN=CA 1'), keyOf(read(path)));
	});

	test('that matches no form is refused', () => {
		for (const text of [
			'',
			'Clients',
			'CN',
			'=x',
			'CN=x, Inc.',
			'CM=x',
			'CN=#zz, O',
			'CN=x,,O=y',
			'/CM=x',
			'CN=#0c05',
			// As openssl prints it without escapes (`-nameopt utf8,sep_comma_plus_space`).
			'OU=a, OU=b, CN=q"uo\\te',
			'CN="q\\te"',
			'CN=a\\/b',
			'C=DE\nCN=q\\te',
		]) {
			assert.equal(issuerKey(text), undefined, text);
		}
	});
});
