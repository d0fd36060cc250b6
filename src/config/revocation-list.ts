import { z } from 'zod';
import {
	canonicalSerial,
	canonicalThumbprint,
	issuerKey,
	type RevocationList,
	SERIAL,
	THUMBPRINT,
} from '../identity/revocations.ts';
import { suggest } from '../shared/suggest.ts';
import { ConfigError } from './error.ts';
import { expected } from './tables/kinds.ts';
import { parseToml, type TomlDocument, type TomlPath } from './toml.ts';

/** The file of `revoked_path`: what is revoked by hand, for the hour in which no CRL says so yet. */

/**
 * Reads the list; pure.
 *
 * @returns the list, and everything that is wrong with it, each with its line. It is to be used only if nothing is wrong.
 */
export function readRevocationList(text: string): { list: RevocationList | undefined; problems: string[] } {
	let document: TomlDocument;
	try {
		document = parseToml(text, '');
	} catch (error) {
		if (!(error instanceof ConfigError)) throw error;
		return { list: undefined, problems: error.problems.map(({ line, message }) => `line ${line}: ${message}`) };
	}
	const result = revocationList.safeParse(document.root, { reportInput: true });
	if (result.success) return { list: result.data, problems: [] };
	const problems = result.error.issues.flatMap((issue) => {
		const path = issue.path as TomlPath;
		if (issue.code !== 'unrecognized_keys') return [problemAt(document, path, issue.message)];
		return issue.keys.map((key) => problemAt(document, [...path, key], unknownKey(path, key)));
	});
	return { list: undefined, problems };
}

/** Where each entry of a list stands, or a member of it, in the order of the file. */
export function linesOf(text: string, list: string, ...member: string[]): (number | undefined)[] {
	const document = parseToml(text, '');
	const entries = document.root[list];
	if (!Array.isArray(entries)) return [];
	return entries.map((_, i) => document.lineOf([list, i, ...member]) ?? document.lineOf([list]));
}

const certificate = matching(
	THUMBPRINT,
	'the SHA-256 of a certificate, 64 hexadecimal digits',
	'take it from client_sha256 of the access log, or from openssl x509 -noout -fingerprint -sha256',
).transform(canonicalThumbprint);

const ISSUER_ERROR = expected(
	'an issuer\'s name, such as "C=DE, CN=Clients"',
	"write it as the log has it, or openssl x509 -noout -issuer, in single quotes: '…'",
);

const serial = z.strictObject(
	{
		issuer: z
			.string({ error: ISSUER_ERROR })
			.refine((name) => issuerKey(name) !== undefined, { error: ISSUER_ERROR })
			.transform((name) => issuerKey(name)!),
		serial: matching(
			SERIAL,
			'a serial number in hexadecimal',
			'write it as the log has it, or openssl x509 -noout -serial',
		).transform(canonicalSerial),
	},
	{ error: expected('a table', 'write { issuer = "CN=…", serial = "…" }') },
);

const revocationList = z.strictObject({
	certificates: list(certificate, 'thumbprints').default([]),
	serials: list(serial, '{ issuer, serial }').default([]),
	tokens: list(matching(/./s, 'the "jti" of a token', 'take the empty one out'), 'the "jti" of tokens').default([]),
	tenants: list(matching(/./s, 'the name of a tenant', 'take the empty one out'), 'tenants').default([]),
});

const KEYS = { '': Object.keys(revocationList.shape), serials: Object.keys(serial.shape) };

function list<Element extends z.ZodType>(element: Element, of: string) {
	return z.array(element, { error: expected(`a list of ${of}`, 'write it in brackets') });
}

function matching(pattern: RegExp, wanted: string, remedy: string) {
	const error = expected(wanted, remedy);
	return z.string({ error }).regex(pattern, { error });
}

function unknownKey(path: TomlPath, key: string): string {
	const known = path.length === 0 ? KEYS[''] : KEYS.serials;
	const meant = suggest(key, known);
	return meant === undefined ? `unknown key; there are ${known.join(', ')}` : `unknown key; did you mean ${meant}?`;
}

function problemAt(document: TomlDocument, path: TomlPath, message: string): string {
	const line = document.lineOf(path) ?? document.lineOf(path.slice(0, -1));
	const key = path.map((part) => (typeof part === 'number' ? `[${part}]` : `.${part}`)).join('');
	return `line ${line ?? 1}: ${key.replace(/^\./, '')}: ${message}`;
}
