import {
	canonicalSerial,
	canonicalThumbprint,
	issuerKey,
	type RevocationList,
	SERIAL,
	THUMBPRINT,
} from '@mtls-edge-proxy/gate/identity/revocations.ts';
import { z } from 'zod';
import { diagnose, tablesIn } from './diagnose.ts';
import { ConfigError, type ConfigProblem, problemAt } from './error.ts';
import { expected, READING } from './tables/kinds.ts';
import { parseToml, type TomlDocument } from './toml.ts';

/** The file of `revoked_path`: revocations by hand, until a CRL has them. */

/** The result of reading the list. */
export interface RevocationReading {
	/** `undefined` if there are problems. */
	readonly list: RevocationList | undefined;
	/** Each with its line and key. */
	readonly problems: readonly string[];
	/** A message about one key of the list: `line 3: tenants[0]: …`. */
	readonly about: (key: string, message: string) => string;
}

/** Reads the list; pure. */
export function readRevocationList(text: string): RevocationReading {
	let document: TomlDocument;
	try {
		document = parseToml(text, '');
	} catch (error) {
		if (!(error instanceof ConfigError)) throw error;
		const problems = error.problems.map(({ line, message }) => `line ${line}: ${message}`);
		return { list: undefined, problems, about: (key, message) => `${key}: ${message}` };
	}
	const inWords = ({ line = 1, key, message }: ConfigProblem) => `line ${line}: ${key}: ${message}`;
	const about = (key: string, message: string) => inWords(problemAt(document.lines, key, message));
	const { data, error } = revocationList.safeParse(document.root, READING);
	const problems = diagnose(document, error?.issues ?? [], TABLES);
	return { list: data, problems: problems.map(inWords), about };
}

const certificate = matching(
	THUMBPRINT,
	'the SHA-256 of a certificate, 64 hexadecimal digits',
	'copy it from client_sha256 in the access log, or from openssl x509 -noout -fingerprint -sha256',
).transform(canonicalThumbprint);

const ISSUER_ERROR = expected(
	'an issuer\'s name, such as "C=DE, CN=Clients"',
	"write it as the log shows it, or as printed by openssl x509 -noout -issuer, in single quotes: '…'",
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
			'write it as the log shows it, or as printed by openssl x509 -noout -serial',
		).transform(canonicalSerial),
	},
	{ error: expected('a table', 'write { issuer = "CN=…", serial = "…" }') },
);

const revocationList = z.strictObject({
	certificates: list(certificate, 'thumbprints').default([]),
	serials: list(serial, '{ issuer, serial }').default([]),
	tokens: list(matching(/./s, 'the "jti" of a token', 'remove the empty one'), 'the "jti" of tokens').default([]),
	tenants: list(matching(/./s, 'the name of a tenant', 'remove the empty one'), 'tenants').default([]),
});

const TABLES = tablesIn(revocationList);

function list<Element extends z.ZodType>(element: Element, of: string) {
	return z.array(element, { error: expected(`a list of ${of}`, 'write it in brackets') });
}

function matching(pattern: RegExp, wanted: string, remedy: string) {
	const error = expected(wanted, remedy);
	return z.string({ error }).regex(pattern, { error });
}
