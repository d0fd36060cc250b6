import type { Rejection } from '../../gates/rejection.ts';
import { AnswerFields } from './answer-fields.ts';

/** By code, and only with the headers that the refusal had when it was first given. */
const known = new Map<string, { readonly headers: readonly string[]; readonly fields: AnswerFields }>();

/** Header fields of a refusal; built once for each code whose headers are always the same. */
export function refusalFields({ code, headers, body }: Rejection): AnswerFields {
	const built = known.get(code);
	if (built?.headers === headers) return built.fields;
	const length = String(Buffer.byteLength(body));
	const list = [...headers, 'content-type', 'text/plain; charset=utf-8', 'content-length', length];
	const fields = new AnswerFields(list, built === undefined);
	if (built === undefined) known.set(code, { headers, fields });
	return fields;
}

/** The lines that tell upstreams where the request came from; the same for a whole connection. */
export function forwardedLines(peer: string): string {
	return `x-forwarded-for: ${peer}\r\nx-forwarded-proto: https\r\n`;
}
