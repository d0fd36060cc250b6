import type { X509Certificate } from 'node:crypto';
import { isIP } from 'node:net';
import { ConfigError } from '../../config/error.ts';
import { quote } from '../../config/wording.ts';
import { inspect } from '../../control/files/inspection.ts';
import { readCertificates } from '../../shared/certificates.ts';
import { readRegularFile } from '../../shared/regular-file.ts';
import { explain } from './explain.ts';
import { toJson } from './json.ts';
import type { RequestSpec } from './request.ts';
import { toText } from './text.ts';

/** `proxy explain`: why a request is refused, or what its upstream gets. */

/** As the command line has them; what is `undefined` was not given. */
export interface ExplainOptions {
	/** Path of the configuration file. */
	readonly config: string;
	readonly method: string;
	/** Request target: path, and query if any. */
	readonly path?: string | undefined;
	/** `https://host/path`, in its place. */
	readonly url?: string | undefined;
	readonly token?: string | undefined;
	/** `-`: standard input. */
	readonly tokenFile?: string | undefined;
	/** PEM: the leaf, then the intermediates that the client sends. */
	readonly clientCert?: string | undefined;
	/** `name: value`. */
	readonly headers: readonly string[];
	readonly bodyBytes?: number | undefined;
	/** The client's address. */
	readonly peer?: string | undefined;
	readonly http2: boolean;
	readonly offline: boolean;
	readonly json: boolean;
}

export interface ExplainOutput {
	readonly print: (text: string) => void;
	readonly complain: (text: string) => void;
	/** Whether `print` goes to a terminal. */
	readonly color: boolean;
	readonly stdin: AsyncIterable<Buffer>;
}

const PASSES = 0;
const REFUSED = 1;
const USAGE = 2;

/** Stands for the address of a client that nobody has named. */
const SOME_CLIENT = '[client address]';
const SOME_HOST = 'proxy.example';

/** @returns the exit code: 0 passes; 1 is refused, or cannot be told; 2 for what cannot be explained, such as a file with mistakes. */
export async function runExplain(options: ExplainOptions, output: ExplainOutput): Promise<number> {
	const problems: string[] = [];
	const asked = await readAsked(options, output.stdin, problems);
	if (asked === undefined) {
		output.complain(problems.join('\n'));
		return USAGE;
	}
	const { spec, clientChain } = asked;
	const now = new Date();
	const { files, problems: found } = await inspect(options.config, now);
	if (files === undefined) {
		output.complain(new ConfigError(options.config, found).message);
		return USAGE;
	}
	const peer = options.peer ?? SOME_CLIENT;
	const settings = { clientChain, peer, offline: options.offline, nowSeconds: now.getTime() / 1000 };
	const result = toJson(await explain(files, spec, settings), spec.token === undefined ? [] : [spec.token]);
	output.print(options.json ? `${JSON.stringify(result)}\n` : toText(result, output.color));
	return result.outcome === 'passes' ? PASSES : REFUSED;
}

interface Asked {
	readonly spec: RequestSpec;
	readonly clientChain: readonly X509Certificate[] | undefined;
}

/** @param problems gets a line for each thing that is wrong. */
async function readAsked(
	options: ExplainOptions,
	stdin: AsyncIterable<Buffer>,
	problems: string[],
): Promise<Asked | undefined> {
	const { method, headers, bodyBytes, http2, peer } = options;
	const where = readTarget(options, problems);
	const token = await readToken(options, stdin, problems);
	const clientChain = await readChain(options.clientCert, problems);
	if (peer !== undefined && isIP(peer) === 0) problems.push(`--peer: must be an IP address, not ${quote(peer)}`);
	if (where === undefined || problems.length > 0) return undefined;
	const protocol = http2 ? 'h2' : 'http/1.1';
	return { spec: { method, ...where, protocol, headers, token, bodyBytes }, clientChain };
}

/** The target stays as it was typed: a URL that were put in order would have lost the dot segments that are asked about. */
function readTarget({ path, url }: ExplainOptions, problems: string[]) {
	if ((path === undefined) === (url === undefined)) {
		problems.push('give either --path, for example --path /api/items, or --url');
		return undefined;
	}
	if (path !== undefined) return { target: path, authority: SOME_HOST };
	const [, authority, rest = ''] = /^https:\/\/([^/?#@\s]+)([^#]*)/i.exec(url!) ?? [];
	if (authority === undefined) {
		problems.push(`--url: must be https://host/path, not ${quote(url!.replace(/[?#].*/s, ''))}`);
		return undefined;
	}
	return { target: rest.startsWith('/') ? rest : `/${rest}`, authority };
}

async function readToken({ token, tokenFile }: ExplainOptions, stdin: AsyncIterable<Buffer>, problems: string[]) {
	if (token !== undefined && tokenFile !== undefined) problems.push('give either --token or --token-file');
	if (tokenFile === undefined) return token;
	try {
		const bytes =
			tokenFile === '-' ? await readAll(stdin) : await readRegularFile(tokenFile, { maxBytes: MAX_TOKEN_FILE });
		return bytes.toString('latin1').trim();
	} catch (error) {
		problems.push(`--token-file: ${tokenFile}: cannot be read: ${(error as Error).message}`);
		return undefined;
	}
}

/** Tokens have 8 KiB at most; what is longer is refused by the gate, and that can be shown, too. */
const MAX_TOKEN_FILE = 64 * 1024;

async function readAll(stdin: AsyncIterable<Buffer>): Promise<Buffer> {
	const chunks: Buffer[] = [];
	let bytes = 0;
	for await (const chunk of stdin) {
		bytes += chunk.length;
		if (bytes > MAX_TOKEN_FILE) throw new Error(`it is longer than ${MAX_TOKEN_FILE} bytes`);
		chunks.push(chunk);
	}
	return Buffer.concat(chunks);
}

async function readChain(path: string | undefined, problems: string[]): Promise<X509Certificate[] | undefined> {
	if (path === undefined) return undefined;
	try {
		return readCertificates((await readRegularFile(path)).toString());
	} catch (error) {
		problems.push(`--client-cert: ${path}: ${(error as Error).message}`);
		return undefined;
	}
}
