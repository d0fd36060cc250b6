import type { Rejection } from '../gates/rejection.ts';

const known = new Map<string, readonly string[]>();

/** Header fields of a refusal, names and values in turn; built once for each code. */
export function refusalFields(rejection: Rejection): readonly string[] {
	let fields = known.get(rejection.code);
	if (fields === undefined) {
		fields = Object.freeze([
			...rejection.headers,
			'content-type',
			'text/plain; charset=utf-8',
			'content-length',
			String(Buffer.byteLength(rejection.body)),
		]);
		known.set(rejection.code, fields);
	}
	return fields;
}

/** The lines that tell upstreams where the request came from (specification 2.6); the same for a whole connection. */
export function forwardedLines(peer: string): string {
	return `x-forwarded-for: ${peer}\r\nx-forwarded-proto: https\r\n`;
}
