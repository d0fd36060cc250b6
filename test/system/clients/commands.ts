/** curl, nghttp and h2load, by their command lines. */
import { createHash } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { temporaryFolder } from '../../fixtures/pki.ts';
import { type Edge, edgeFiles, output, tokenOf } from './process.ts';
import type { Report } from './requests.ts';

export function curl(edge: Edge, requests: readonly string[]): Promise<Report[]> {
	return runCurl(edge, requests, edgeFiles(edge).mib, []);
}

/** Eight at once, over one connection if the protocol allows it. */
export function curlParallel(edge: Edge, requests: readonly string[]): Promise<Report[]> {
	return runCurl(edge, requests, edgeFiles(edge).small, ['--parallel', '--parallel-max', '8']);
}

/** @param bytes size of its body. */
export function curlUpload(edge: Edge, bytes: number): Promise<Report[]> {
	const body = join(temporaryFolder('curl'), 'upload');
	writeFileSync(body, Buffer.alloc(bytes));
	return runCurl(edge, ['POST /upload'], body, []);
}

/** `body` is the path of a POST's body. */
async function runCurl(edge: Edge, requests: readonly string[], body: string, flags: string[]): Promise<Report[]> {
	const { ca, cert, key } = edgeFiles(edge);
	const folder = temporaryFolder('curl');
	const common = [
		edge.protocol === 'h2' ? 'http2' : 'http1.1',
		...Object.entries({ cacert: ca, cert, key, header: `Authorization: Bearer ${tokenOf(edge)}` }).map(quoted),
		'write-out = "%{json}\\n"',
	];
	let method = '';
	const config: string[] = [];
	for (const [i, request] of requests.entries()) {
		const [ownMethod, path] = split(request);
		// An option applies to all addresses of a group.
		if (ownMethod !== method) {
			config.push(...(method === '' ? [] : ['next']), ...common);
			if (ownMethod === 'POST') config.push(quoted(['data-binary', `@${body}`]));
			method = ownMethod;
		}
		config.push(quoted(['url', edge.base + path]), quoted(['output', join(folder, String(i))]));
	}
	const lines = await output(
		['curl', '--disable', '--silent', ...flags, '--config', '-'],
		{},
		{
			input: config.join('\n'),
			// Its exit code is that of the last request.
			mayFail: true,
		},
	);
	return lines
		.trim()
		.split('\n')
		.map((line) => reportOfCurl(JSON.parse(line)));
}

interface CurlResult {
	readonly method: string;
	readonly url_effective: string;
	readonly exitcode: number;
	readonly errormsg: string | null;
	readonly http_code: number;
	readonly filename_effective: string;
}

function reportOfCurl(result: CurlResult): Report {
	const request = `${result.method} ${new URL(result.url_effective).pathname}`;
	if (result.exitcode !== 0) return { request, error: result.errormsg ?? `exit code ${result.exitcode}` };
	return { request, status: result.http_code, digest: sha256(readFileSync(result.filename_effective)) };
}

/** All over one connection, as many at once as the proxy allows. */
export async function nghttp(edge: Edge, requests: readonly string[]): Promise<Report[]> {
	const paths = requests.map((request) => split(request)[1]);
	const text = await output([...nghttpCommand(edge), '--stat', '--null-out', ...paths.map((path) => edge.base + path)]);
	// ` 13 +1.02ms +101us 919us 200 12 /path`; the code is 0 without a response.
	const rows = text.matchAll(/^ *\d+ .* (\d+) +\S+ (\/\S*)$/gm);
	return [...rows].map(([, status, path]) => {
		const request = `GET ${path}`;
		return status === '0' ? { request, error: 'no answer' } : { request, status: Number(status) };
	});
}

/** One request, for its response body; a correct body proves a 200. */
export async function nghttpBody(edge: Edge, request: string): Promise<Report[]> {
	const [method, path] = split(request);
	const data = method === 'POST' ? ['--data', edgeFiles(edge).mib] : [];
	const body = await output([...nghttpCommand(edge), ...data, edge.base + path]);
	const { pathname } = new URL(edge.base + path);
	return [{ request: `${method} ${pathname}`, status: 200, digest: sha256(Buffer.from(body, 'latin1')) }];
}

function nghttpCommand(edge: Edge): string[] {
	const { cert, key } = edgeFiles(edge);
	// The proxy's default limit: a client that has not read SETTINGS yet assumes 100, and nghttp repeats nothing.
	const streams = '--peer-max-concurrent-streams=64';
	return ['nghttp', streams, '--cert', cert, '--key', key, '--header', `authorization: Bearer ${edge.pki.token()}`];
}

interface H2loadResult {
	/** Requests with a 2xx status. */
	readonly answered: number;
	/** All others. */
	readonly failed: number;
}

/** h2load has no option for client certificates; a library of the benchmark adds one. */
export async function h2loadPreload(): Promise<string> {
	const library = join(temporaryFolder('h2load'), 'client_cert.so');
	await output([
		'gcc',
		'-shared',
		'-fPIC',
		'-o',
		library,
		resolve(import.meta.dirname, '../../../bench/client_cert.c'),
		'-ldl',
	]);
	return library;
}

export async function h2load(
	edge: Edge,
	preload: string,
	args: readonly string[],
	path: string,
): Promise<H2loadResult> {
	const { cert, key } = edgeFiles(edge);
	const flags = [...(edge.protocol === 'h1' ? ['--h1'] : []), '-H', `authorization: Bearer ${edge.pki.token()}`];
	const text = await output(['h2load', ...flags, ...args, edge.base + path], {
		LD_PRELOAD: preload,
		CLIENT_CERT: cert,
		CLIENT_KEY: key,
	});
	const [, total, answered] = /^requests: (\d+) total[\s\S]*^status codes: (\d+) 2xx/m.exec(text) ?? [];
	if (answered === undefined) throw new Error(`h2load says ${text}`);
	return { answered: Number(answered), failed: Number(total) - Number(answered) };
}

function split(request: string): [method: string, path: string] {
	return request.split(' ') as [string, string];
}

function quoted([name, value]: [string, string] | string[]): string {
	return `${name} = ${JSON.stringify(value)}`;
}

function sha256(bytes: Buffer): string {
	return createHash('sha256').update(bytes).digest('hex');
}
