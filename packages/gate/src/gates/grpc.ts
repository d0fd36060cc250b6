import { TOKEN_SOURCE } from './grammar.ts';
import type { OwnResponse, Rejection } from './rejection.ts';

/** gRPC over HTTP/2 as far as a proxy has to know it: which requests are calls, and how a call is refused. */

/**
 * Whether a `content-type` says that a request is a gRPC call, if it is a POST. gRPC-Web (`application/grpc-web`) is another protocol: to everybody but its
 * two ends it is plain HTTP.
 */
export function isGrpc(contentType: string): boolean {
	// Most content types have nothing of it, and an expression costs more than a look at two characters.
	if (contentType.length < GRPC.length) return false;
	return GRPC_TYPE.test(contentType);
}

/** Whether a request is a call: only a POST can be one, and a WebSocket is none. @param head `undefined`: it could not be read. */
export function isCall(method: string, head: { readonly isGrpc: boolean } | undefined): boolean {
	return head?.isGrpc === true && method === 'POST';
}

const GRPC = 'application/grpc';
/** With a subtype, such as `+proto`, and parameters (RFC 9110 section 8.3.1); in any case, as all media types. */
const GRPC_TYPE = new RegExp(`^${GRPC}(?:\\+${TOKEN_SOURCE})?(?:[ \\t]*;|$)`, 'i');

/** The highest status code of gRPC; 0 is OK. */
export const MAX_GRPC_STATUS = 16;
/** `grpc-status` values, in their order. */
export const GRPC_STATUSES: readonly string[] = Array.from({ length: MAX_GRPC_STATUS + 1 }, (_, code) => String(code));

/**
 * The status of a call, from the trailers of its response, or from the fields of a response that has no body.
 *
 * @param fields names in lower case and values in turn.
 * @returns `undefined`: there is none. What is no status of gRPC is UNKNOWN, as it is to gRPC clients.
 */
export function grpcStatusIn(fields: readonly string[]): number | undefined {
	for (let i = 0; i < fields.length; i += 2) {
		if (fields[i] !== 'grpc-status') continue;
		const code = GRPC_STATUSES.indexOf(fields[i + 1]!);
		return code === -1 ? CODE.unknown : code;
	}
	return undefined;
}

/** The status codes of gRPC by which a proxy answers. */
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

/** By the HTTP status of a refusal. */
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

/** The status of gRPC that a refusal is to a call. */
export function grpcStatusOf({ status }: Pick<Rejection, 'status'>): number {
	return CODES[status] ?? CODE.unknown;
}

/** A refusal as gRPC clients read it: its status is among the header fields, and no body follows (`Trailers-Only`). */
export function grpcResponse(rejection: Rejection): OwnResponse {
	const { headers, body } = rejection;
	const status = String(grpcStatusOf(rejection));
	return {
		status: 200,
		headers: [...headers, 'grpc-status', status, 'grpc-message', percentEncoded(body)],
		contentType: GRPC,
		body: '',
	};
}

/** A message as `grpc-message` carries it: UTF-8, of which only visible ASCII and the blank stand for themselves. */
export function percentEncoded(message: string): string {
	return message.replaceAll(/[^\x20-\x24\x26-\x7e]+/gu, (other) =>
		Buffer.from(other).toString('hex').toUpperCase().replaceAll(/../g, '%$&'),
	);
}
