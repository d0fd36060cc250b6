import type { X509Certificate } from 'node:crypto';
import { readRegularFile } from '@mtls-edge-proxy/gate/shared/regular-file.ts';
import { readCertificates } from '@mtls-edge-proxy/gate/tls/certificates.ts';
import { ConfigError } from '../../config/error.ts';
import { inspect } from '../../control/files/inspection.ts';
import type { StatusPage } from '../../control/status/view.ts';
import type { Address } from '../options.ts';
import { askMetrics } from '../running/metrics-client.ts';
import { explain } from './explain.ts';
import { toJson } from './json.ts';
import type { RequestSpec } from './request.ts';
import type { RunningStatus } from './route-gates.ts';
import { toText } from './text.ts';

/** `proxy explain`: why a request is refused, or what its upstream gets. */

/** Values of the command line; `undefined`: not given. */
export interface ExplainOptions {
	/** Path of the configuration file. */
	readonly config: string;
	readonly method: string;
	/** Request target: path, and query if any. */
	readonly path?: string | undefined;
	/** `https://host/path`, instead of `path`. */
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
	/** Metrics listener of a running proxy, which gives the state of the upstream. */
	readonly metrics?: Address | undefined;
	readonly http2: boolean;
	readonly offline: boolean;
	readonly json: boolean;
}

interface ExplainOutput {
	readonly print: (text: string) => void;
	/** Gets the reason why a request cannot be explained. */
	readonly complain: (text: string) => void;
	/** Whether `print` goes to a terminal with colours. */
	readonly color: boolean;
	/** Default: the system's clock, which OpenSSL always uses for certificates. */
	readonly now?: () => Date;
}

const PASSES = 0;
const REFUSED = 1;
const USAGE = 2;
const FAULTY_FILE = 3;

/** The placeholder for an unknown address of the client. */
const SOME_CLIENT = '[client address]';
const SOME_HOST = 'proxy.example';

/** @returns the exit code: 0 passes; 1 refused or undecided; 2 an option cannot be used; 3 the configuration has errors. */
export async function runExplain(options: ExplainOptions, output: ExplainOutput): Promise<number> {
	const now = output.now?.() ?? new Date();
	const { config, method, headers, bodyBytes, http2, offline } = options;
	const problems: string[] = [];
	const token = await readToken(options, problems);
	const clientChain = await readChain(options.clientCert, problems);
	const metricsPage = await readMetrics(options.metrics, problems);
	const status = metricsPage === undefined ? undefined : await readStatus(options.metrics!);
	const { files, problems: found } = await inspect(config, now);
	if (problems.length > 0) {
		output.complain(problems.join('\n'));
		return USAGE;
	}
	if (files === undefined) {
		output.complain(new ConfigError(config, found).message);
		return FAULTY_FILE;
	}
	const spec: RequestSpec = {
		method,
		...readTarget(options),
		protocol: http2 ? 'h2' : 'http/1.1',
		headers,
		token,
		bodyBytes,
	};
	const peer = options.peer ?? SOME_CLIENT;
	const settings = { clientChain, peer, offline, nowSeconds: now.getTime() / 1000, metricsPage, status };
	const result = toJson(await explain(files, spec, settings), token === undefined ? [] : [token]);
	output.print(options.json ? `${JSON.stringify(result)}\n` : toText(result, output.color));
	return result.outcome === 'passes' ? PASSES : REFUSED;
}

/** The target stays as typed: a normalised URL would lose the dot segments in question. */
function readTarget({ path, url = '' }: ExplainOptions): Pick<RequestSpec, 'target' | 'authority'> {
	if (path !== undefined) return { target: path, authority: SOME_HOST };
	const [, authority = SOME_HOST, rest = ''] = /^https:\/\/([^/?#]+)([^#]*)/i.exec(url) ?? [];
	return { target: rest.startsWith('/') ? rest : `/${rest}`, authority };
}

async function readToken({ token, tokenFile }: ExplainOptions, problems: string[]): Promise<string | undefined> {
	if (tokenFile === undefined) return token;
	try {
		const bytes =
			tokenFile === '/dev/stdin' ? await readStdin() : await readRegularFile(tokenFile, { maxBytes: MAX_TOKEN_FILE });
		return bytes.toString('latin1').trim();
	} catch (error) {
		problems.push(`--token-file: ${tokenFile}: cannot be read: ${(error as Error).message}`);
		return undefined;
	}
}

/** The gate refuses tokens of more than 8 KiB; reading more here lets the command show that refusal. */
const MAX_TOKEN_FILE = 64 * 1024;

/** Standard input may be a pipe; the proxy's other files may not. */
async function readStdin(): Promise<Buffer> {
	const chunks: Buffer[] = [];
	let bytes = 0;
	for await (const chunk of process.stdin) {
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

async function readMetrics(metrics: Address | undefined, problems: string[]): Promise<string | undefined> {
	if (metrics === undefined) return undefined;
	try {
		const { status, body } = await askMetrics(metrics, '/metrics', METRICS_MS, MAX_METRICS_PAGE);
		if (status === 200) return body;
		problems.push(`--metrics: answers ${status} to GET /metrics; is that the --metrics-bind of the proxy?`);
	} catch (error) {
		problems.push(`--metrics: ${(error as Error).message}`);
	}
	return undefined;
}

/** Reads why a breaker is open or a name has no address: no metric says it. `undefined` without a status page. */
async function readStatus(metrics: Address): Promise<RunningStatus | undefined> {
	try {
		const { status, body } = await askMetrics(
			metrics,
			'/status.json?show=trouble&rows=200',
			METRICS_MS,
			MAX_METRICS_PAGE,
		);
		const { dns, upstreams } = status === 200 ? (JSON.parse(body) as Partial<StatusPage>) : {};
		return { dns: Array.isArray(dns) ? dns : [], upstreams: Array.isArray(upstreams?.items) ? upstreams.items : [] };
	} catch {
		return undefined;
	}
}

const METRICS_MS = 5_000;
/** Thousands of upstreams fit. */
const MAX_METRICS_PAGE = 64 * 1024 * 1024;
