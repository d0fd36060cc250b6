import type { Rejection } from '../gates/rejection.ts';

const known = new Map<string, { readonly headers: readonly string[]; readonly fields: readonly string[] }>();

/** Header fields of a refusal, names and values in turn; built once for each code, and anew where its headers are others. */
export function refusalFields({ code, headers, body }: Rejection): readonly string[] {
	const last = known.get(code);
	if (last?.headers === headers) return last.fields;
	const fields = Object.freeze([
		...headers,
		'content-type',
		'text/plain; charset=utf-8',
		'content-length',
		String(Buffer.byteLength(body)),
	]);
	known.set(code, { headers, fields });
	return fields;
}

/** The lines that tell upstreams where the request came from (specification 2.6); the same for a whole connection. */
export function forwardedLines(peer: string): string {
	return `x-forwarded-for: ${peer}\r\nx-forwarded-proto: https\r\n`;
}
