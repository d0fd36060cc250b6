import type { Rejection } from '../gates/rejection.ts';
import { AnswerFields } from './answer-fields.ts';

const known = new Map<string, AnswerFields>();

/** Header fields of a refusal; built once for each code. */
export function refusalFields(rejection: Rejection): AnswerFields {
	let fields = known.get(rejection.code);
	if (fields === undefined) {
		fields = new AnswerFields(
			[
				...rejection.headers,
				'content-type',
				'text/plain; charset=utf-8',
				'content-length',
				String(Buffer.byteLength(rejection.body)),
			],
			true,
		);
		known.set(rejection.code, fields);
	}
	return fields;
}

/** The lines that tell upstreams where the request came from (specification 2.6); the same for a whole connection. */
export function forwardedLines(peer: string): string {
	return `x-forwarded-for: ${peer}\r\nx-forwarded-proto: https\r\n`;
}
