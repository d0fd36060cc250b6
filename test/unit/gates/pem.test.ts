import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { readPem } from '../../../packages/gate/src/gates/pem.ts';

const block = (label: string, body = 'TUlJQg==') => `-----BEGIN ${label}-----\n${body}\n-----END ${label}-----\n`;
const CERT = block('CERTIFICATE');
const TEXT = 'Certificate:\n    Data:\n        Version: 3 (0x2)\n    X509v3 Subject Alternative Name: - DNS:a-b--c\n';

const labelsOf = (text: string) => {
	const blocks = readPem(text);
	assert.ok(typeof blocks !== 'string', String(blocks));
	return blocks.map(({ label }) => label);
};

describe('a PEM text', () => {
	it('is split into its blocks, in order, each with its line', () => {
		assert.deepEqual(readPem(`# mine\n${CERT}\n${block('EC PRIVATE KEY', 'AAAA\nBBBB')}`), [
			{ label: 'CERTIFICATE', text: CERT, line: 2 },
			{ label: 'EC PRIVATE KEY', text: block('EC PRIVATE KEY', 'AAAA\nBBBB'), line: 6 },
		]);
	});

	const whole: [what: string, text: string, labels: string[]][] = [
		['nothing', '', []],
		['only text', TEXT, []],
		['dashes in text', '- a list\n---\n----\n', []],
		['text before, between and behind', `${TEXT}${CERT}${TEXT}${CERT}the end`, ['CERTIFICATE', 'CERTIFICATE']],
		['line ends of Windows', `${TEXT}${CERT}`.replaceAll('\n', '\r\n'), ['CERTIFICATE']],
		['no line break at the end', CERT.trimEnd(), ['CERTIFICATE']],
		['blanks behind the dashes', CERT.replaceAll('-----\n', '----- \t\n'), ['CERTIFICATE']],
		[
			'the headers of an encrypted key (RFC 1421)',
			block('RSA PRIVATE KEY', 'Proc-Type: 4,ENCRYPTED\nDEK-Info: AES-256-CBC,00\n\nAAAA'),
			['RSA PRIVATE KEY'],
		],
		['any label', block('TRUSTED CERTIFICATE') + block('X509 CRL'), ['TRUSTED CERTIFICATE', 'X509 CRL']],
	];
	for (const [what, text, labels] of whole) it(`may have ${what}`, () => assert.deepEqual(labelsOf(text), labels));

	const broken: [what: string, text: string, problem: RegExp][] = [
		['a block without its end', CERT.slice(0, 40), /^the block that begins on line 1 is truncated; replace the file$/],
		[
			'an END line cut short',
			`${CERT}${CERT.slice(0, -4)}`,
			/^the block that begins on line 4 is truncated or damaged on/,
		],
		['a BEGIN line cut short', `${CERT}-----BEGIN CERTI`, /^line 4 is a truncated or damaged line of a PEM block;/],
		['the first dashes of a BEGIN line', `${CERT}---`, /^line 4 is a truncated/],
		['an END line without its block', `${TEXT}-----END CERTIFICATE-----\n`, /^line 5 is a truncated/],
		[
			'a block inside another',
			`${CERT.slice(0, 30)}\n${CERT}`,
			/^the block that begins on line 1 is truncated or damaged on/,
		],
		['another label at the end', CERT.replace('END C', 'END X'), /^the block that begins on line 1 .* on line 3;/],
		['blanks before the dashes', CERT.replace('-----B', ' -----B'), /^line 1 is a truncated/],
		['text before the dashes', `x${CERT}`, /^line 1 is a truncated/],
		['six dashes', CERT.replace('-----B', '------B'), /^line 1 is a truncated/],
		['a block on one line', CERT.replaceAll('\n', ''), /^line 1 is a truncated/],
		['two files put together without a line break', CERT.trimEnd() + CERT, /^the block that begins on line 1 /],
		['line ends that OpenSSL does not know', CERT.replaceAll('\n', '\r'), /^line 1 is a truncated/],
		['a NUL behind the dashes', CERT.replace('-----\n', '-----\0\n'), /^line 1 is a truncated/],
	];
	for (const [what, text, problem] of broken) {
		it(`must not have ${what}`, () => assert.match(String(readPem(text)), problem));
	}

	it('truncated anywhere inside a block is refused, and never read as fewer blocks', () => {
		const text = `${TEXT}${CERT}${CERT}${TEXT}${block('PUBLIC KEY', 'AAAA\nBBBB')}`;
		const blocks = [...text.matchAll(/-----BEGIN[\s\S]*?-----END [A-Z ]+-----/g)];
		for (let cut = 0; cut <= text.length; cut++) {
			const inside = blocks.some((match) => cut > match.index && cut < match.index + match[0].length);
			const before = blocks.filter((match) => match.index + match[0].length <= cut).length;
			const read = readPem(text.slice(0, cut));
			assert.deepEqual(
				typeof read === 'string' ? 'a problem' : read.length,
				inside ? 'a problem' : before,
				`at ${cut}`,
			);
		}
	});

	it('is never quoted', () => {
		const secret = 'c2VjcmV0c2VjcmV0';
		for (const [, text] of broken) {
			assert.doesNotMatch(String(readPem(text.replace('TUlJQg==', secret))), new RegExp(secret));
		}
	});
});
