import { http } from '../../shared/node-http.ts';
import { certificates, type Findings } from './findings.ts';

/** Contents of the files of `[trace]`. */
export interface TraceFiles {
	/** PEM; `undefined`: Node's CAs. */
	readonly ca: string | undefined;
	/** Sent with each request to the collector. Secrets. */
	readonly headers: Readonly<Record<string, string>>;
}

export async function judgeTraceFiles(found: Findings): Promise<TraceFiles> {
	const { caPath, headersPath } = found.files.trace ?? {};
	const ca = await found.file('trace.ca_path', caPath).parsed(certificates);
	const headers = await found.file('trace.headers_path', headersPath).parsed(readHeaderLines);
	return { ca, headers: headers ?? {} };
}

/** Fields that the exporter sets. */
const OWN = new Set(['content-type', 'content-length', 'content-encoding', 'transfer-encoding', 'host', 'connection']);

/**
 * Lines of `name: value`; empty ones and those that begin with `#` are left out.
 *
 * @throws {Error} naming the line without quoting it.
 */
export function readHeaderLines(text: string): Record<string, string> {
	const headers: Record<string, string> = {};
	for (const [i, line] of text.split(/\r?\n/).entries()) {
		if (line.trim() === '' || line.startsWith('#')) continue;
		const colon = line.indexOf(':');
		const name = line.slice(0, colon).trim().toLowerCase();
		const value = line.slice(colon + 1).trim();
		if (colon === -1 || value === '' || !isField(name, value)) {
			throw new Error(`has no header field on line ${i + 1}; write each as "name: value"`);
		}
		if (OWN.has(name)) throw new Error(`has on line ${i + 1} a field that the exporter sets; remove it`);
		if (Object.hasOwn(headers, name)) throw new Error(`has on line ${i + 1} a duplicate field; remove one`);
		headers[name] = value;
	}
	return headers;
}

function isField(name: string, value: string): boolean {
	try {
		http.validateHeaderName(name);
		http.validateHeaderValue(name, value);
		return name !== '__proto__';
	} catch {
		return false;
	}
}
