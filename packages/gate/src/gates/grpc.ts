import { TOKEN_SOURCE } from './grammar.ts';
import type { OwnResponse, Rejection } from './rejection.ts';

/** The part of gRPC over HTTP/2 that a proxy needs: which requests are calls, and how to refuse a call. */

/**
 * Whether a `content-type` makes a POST a gRPC call. gRPC-Web (`application/grpc-web`) is another protocol: everybody except its two
 * ends sees plain HTTP.
 */
export function isGrpc(contentType: string): boolean {
	// The length rules out many content types, and is cheaper than a regular expression.
	if (contentType.length < GRPC.length) return false;
	return GRPC_TYPE.test(contentType);
}

/** Whether a request is a call: only a POST can be one; a WebSocket cannot. @param head `undefined`: it could not be read. */
export function isCall(method: string, head: { readonly isGrpc: boolean } | undefined): boolean {
	return head?.isGrpc === true && method === 'POST';
}

const GRPC = 'application/grpc';
/** With a subtype, such as `+proto`, and parameters (RFC 9110 section 8.3.1). Like all media types it is case-insensitive. */
const GRPC_TYPE = new RegExp(`^${GRPC}(?:\\+${TOKEN_SOURCE})?(?:[ \\t]*;|$)`, 'i');

/** The highest gRPC status code; 0 is OK. */
export const MAX_GRPC_STATUS = 16;
/** The values of `grpc-status`, in numeric order. */
export const GRPC_STATUSES: readonly string[] = Array.from({ length: MAX_GRPC_STATUS + 1 }, (_, code) => String(code));

/**
 * The status of a call, from the trailers of its response, or from the header fields of a response without a body.
 *
 * @param fields names in lower case and values in turn.
 * @returns `undefined` if there is none. An invalid status counts as UNKNOWN, as gRPC clients treat it.
 */
export function grpcStatusIn(fields: readonly string[]): number | undefined {
	for (let i = 0; i < fields.length; i += 2) {
		if (fields[i] !== 'grpc-status') continue;
		const code = GRPC_STATUSES.indexOf(fields[i + 1]!);
		return code === -1 ? CODE.unknown : code;
	}
	return undefined;
}

/** The gRPC status codes that the proxy sends. */
const CODE = {
	unknown: 2,
	deadlineExceeded: 4,
	permissionDenied: 7,
	resourceExhausted: 8,
	unimplemented: 12,
	internal: 13,
	unavailable: 14,
	unauthenticated: 16,
} as const;

/** gRPC status codes by the HTTP status of the refusal. */
const CODES: Readonly<Record<number, number>> = {
	400: CODE.internal,
	401: CODE.unauthenticated,
	403: CODE.permissionDenied,
	404: CODE.unimplemented,
	405: CODE.unimplemented,
	408: CODE.deadlineExceeded,
	413: CODE.resourceExhausted,
	429: CODE.resourceExhausted,
	431: CODE.resourceExhausted,
	500: CODE.internal,
	501: CODE.unimplemented,
	502: CODE.unavailable,
	503: CODE.unavailable,
	504: CODE.deadlineExceeded,
};

/** The gRPC status for a refusal. */
export function grpcStatusOf({ status }: Pick<Rejection, 'status'>): number {
	return CODES[status] ?? CODE.unknown;
}

/** A refusal for gRPC clients: a header field has its status, and no body follows (`Trailers-Only`). */
export function grpcResponse(rejection: Rejection): OwnResponse {
	const headers = [...rejection.headers, ...grpcTrailers(rejection)];
	return { status: 200, headers, contentType: GRPC, body: '' };
}

/** The trailers of a response that the proxy ends early: names and values in turn. */
export function grpcTrailers(why: Pick<Rejection, 'status' | 'body'>): string[] {
	return ['grpc-status', String(grpcStatusOf(why)), 'grpc-message', percentEncoded(why.body)];
}

/** A message for `grpc-message`: UTF-8, percent-encoded except for spaces and visible ASCII other than `%`. */
export function percentEncoded(message: string): string {
	return message.replaceAll(/[^\x20-\x24\x26-\x7e]+/gu, (other) =>
		Buffer.from(other).toString('hex').toUpperCase().replaceAll(/../g, '%$&'),
	);
}
