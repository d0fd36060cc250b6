import { isIP } from 'node:net';
import { parseHostPort } from '../../config/authority.ts';
import { durationMs } from '../../config/units.ts';
import { parseUpstream } from '../../config/upstream.ts';
import { quote } from '../../config/wording.ts';
import { defineCommand, Malformed, type ValueOption } from '../command.ts';
import { DEVELOPMENT_FOLDER, parseFileName } from '../options.ts';
import { RUN_OPTIONS } from '../run-options.ts';

/** Names of the folder's own files, which no client may have. */
const RESERVED_NAMES: readonly string[] = ['ca', 'server', 'issuer'];

export const DEVELOPMENT_DIR = {
	flag: 'dir',
	placeholder: 'DIR',
	fallback: DEVELOPMENT_FOLDER,
	about: 'folder made by proxy init',
	candidates: 'folder',
	parse: parseFileName,
} as const satisfies ValueOption;

export const init = defineCommand({
	name: 'init',
	group: 'Set up',
	about: 'make a configuration, certificates and a token key for development',
	details: [
		'Asks no questions and overwrites no file. Writes config.toml, which explains every key and its default. For editors, also writes the JSON Schema of that file. In dev/ it creates a CA, a server certificate, a certificate for a client named alice, and the key that signs tokens.',
		'Use all of this for development only: the keys of the CA and of the issuer are next to the proxy. In production, keep them elsewhere.',
	],
	example: 'proxy init edge --upstream http://127.0.0.1:3000',
	operands: {
		dir: {
			placeholder: 'DIR',
			about: 'folder for the files; default: the working directory',
			optional: true,
			candidates: 'folder',
			parse: parseFileName,
		},
	},
	options: {
		upstream: {
			flag: 'upstream',
			placeholder: 'URL',
			fallback: 'http://127.0.0.1:3000',
			about: 'upstream of its route',
			parse: parseUpstreamUrl,
		},
		hosts: {
			flag: 'host',
			placeholder: 'NAME',
			repeatable: true,
			about: 'another name or IP address for the server certificate',
			parse: parseServerName,
		},
	},
	exitCodes: { 0: 'written', 1: 'a file already exists, or cannot be written' },
	run: async ({ dir = '.', ...values }, context) =>
		(await import('../development/run.ts')).runInit({ dir, ...values }, context),
});

export const pkiClient = defineCommand({
	name: 'pki client',
	group: 'Set up',
	about: 'issue a client certificate from the CA of proxy init, for development',
	details: [
		'Writes NAME.crt and NAME.key next to the CA, and overwrites no file. The certificate is valid for a year.',
	],
	example: 'proxy pki client web --san spiffe://example.org/ns/shop/sa/web',
	operands: {
		name: {
			placeholder: 'NAME',
			about: "the certificate's common name, and the name of its files",
			parse: parseClientName,
		},
	},
	options: {
		sans: {
			flag: 'san',
			placeholder: 'URI',
			repeatable: true,
			about: 'a URI, or dns:NAME, for subjectAltName; routes match it with allow and deny',
			parse: parseSan,
		},
		dir: DEVELOPMENT_DIR,
	},
	exitCodes: { 0: 'issued', 1: 'there is no CA, or a client with that name already exists' },
	run: async (values, context) => (await import('../development/run.ts')).runPkiClient(values, context),
});

export const token = defineCommand({
	name: 'token',
	group: 'Set up',
	about: 'sign a token with the key of proxy init, for development',
	details: [
		'Prints only the token on standard output. Issuer and audience come from the configuration. --claim overrides a default claim, so you can also make a token that is refused: --claim exp=0.',
	],
	example: 'proxy token --sub acme --claim scope=billing:read --ttl 8h',
	options: {
		sub: { flag: 'sub', placeholder: 'SUBJECT', required: true, about: 'the tenant', parse: parseSubject },
		claims: {
			flag: 'claim',
			placeholder: 'NAME=VALUE',
			repeatable: true,
			about: 'another claim; a value that is not JSON is a string',
			parse: parseClaim,
		},
		ttlSeconds: {
			flag: 'ttl',
			placeholder: 'TIME',
			fallback: '1h',
			about: 'lifetime: a number with s, m, h or d',
			parse: parseTtl,
		},
		cert: {
			flag: 'cert',
			placeholder: 'FILE',
			about:
				'bind the token to this client certificate (RFC 8705): it is then valid only on connections that use the certificate',
			candidates: 'file',
			parse: parseFileName,
		},
		config: { ...RUN_OPTIONS.config, about: 'configuration with the issuer and the audience' },
		dir: DEVELOPMENT_DIR,
	},
	conflicts: ({ claims }) => {
		const names = claims.map(([name]) => name);
		const twice = new Set(names.filter((name, i) => names.indexOf(name) !== i));
		return [...twice].map(
			(name) => `--claim: ${quote(name)} is given twice; give it once, a list as ${name}=["a","b"]`,
		);
	},
	exitCodes: { 0: 'printed', 1: 'a file cannot be read, or is invalid' },
	run: async (values, context) => (await import('../development/run.ts')).runToken(values, context),
});

export const schema = defineCommand({
	name: 'schema',
	group: 'Set up',
	about: 'print the JSON Schema of the configuration file, for editors',
	details: [
		'Editors that use taplo (such as VS Code with Even Better TOML) complete and check a file that begins with "#:schema ./config.schema.json" and has the schema next to it. Write that schema with: proxy schema > config.schema.json. The command proxy check also finds errors that a schema cannot describe.',
	],
	example: 'proxy schema',
	exitCodes: { 0: 'printed' },
	run: async (_, { print }) => {
		const { configSchemaText } = await import('../../config/json-schema.ts');
		print(configSchemaText());
		return 0;
	},
});

/** @returns the text unchanged, if it is a valid upstream. */
export function parseUpstreamUrl(text: string): string {
	const upstream = parseUpstream(text);
	if (typeof upstream === 'string') throw new Malformed(upstream);
	return text;
}

/** A name for a server's certificate: a host name or an IP literal. */
export function parseServerName(text: string): string {
	if (isIP(text) !== 0) return text;
	const parsed = parseHostPort(text);
	if (typeof parsed !== 'string' && parsed.port === undefined) return parsed.host;
	throw new Malformed(`must be a host name or an IP address (got ${quote(text)}); for example edge.internal`);
}

/** The common name of a client and the name of its files. */
export function parseClientName(text: string): string {
	if (!/^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/.test(text)) {
		throw new Malformed(
			`must be 1 to 64 letters, digits, '.', '_' or '-' (got ${quote(text)}); its files have the same name`,
		);
	}
	if (RESERVED_NAMES.includes(text)) {
		throw new Malformed(`is the name of existing files (got ${quote(text)}); choose another one`);
	}
	return text;
}

/** `spiffe://…` or another URI, or `dns:NAME`, reduced to the name. */
export function parseSan(text: string): string {
	const [, dns] = /^dns:([A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*)$/i.exec(text) ?? [];
	if (dns !== undefined) return dns;
	// OpenSSL's prefix of a name looks like the scheme of a URI, and no route would ever match such a name.
	const isPrefixed = /^(dns|uri|ip|email|rid|dirname|othername):/i.test(text);
	// Only what an IA5String can hold (RFC 5280 section 4.2.1.6).
	if (/^[a-z][a-z0-9+.-]*:[\x21-\x7e]+$/i.test(text) && !isPrefixed && URL.canParse(text)) return text;
	throw new Malformed(`must be a URI or dns:NAME (got ${quote(text)}); for example spiffe://example.org/ns/pay/sa/web`);
}

/** The subject of a token. */
export function parseSubject(text: string): string {
	if (text !== '') return text;
	throw new Malformed('must not be empty; name the tenant');
}

/** `k=v`: a JSON value if `v` is one, otherwise a text: `admin=true`, `rps=50`, `aud=["a","b"]`, `scope=read write`. */
export function parseClaim(text: string): readonly [name: string, value: unknown] {
	const at = text.indexOf('=');
	if (at < 1) throw new Malformed(`must be NAME=VALUE (got ${quote(text)}); for example scope=read`);
	const value = text.slice(at + 1);
	try {
		return [text.slice(0, at), JSON.parse(value)];
	} catch {
		return [text.slice(0, at), value];
	}
}

/** A development token that lives longer would be forgotten somewhere. */
const MAX_TTL_SECONDS = 366 * 86_400;

/** `90s`, `15m`, `1h` or `7d` as seconds. */
export function parseTtl(text: string): number {
	const seconds = /^\d{1,8}[smhd]$/.test(text) ? durationMs(text)! / 1000 : Number.NaN;
	if (seconds >= 1 && seconds <= MAX_TTL_SECONDS) return seconds;
	throw new Malformed(`must be a number with s, m, h or d, at most a year (got ${quote(text)}); for example 1h`);
}
