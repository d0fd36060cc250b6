/** Names of gRPC's status codes, and whose fault they are. */

/** By code. */
export const GRPC_STATUS_NAMES = [
	'OK',
	'CANCELLED',
	'UNKNOWN',
	'INVALID_ARGUMENT',
	'DEADLINE_EXCEEDED',
	'NOT_FOUND',
	'ALREADY_EXISTS',
	'PERMISSION_DENIED',
	'RESOURCE_EXHAUSTED',
	'FAILED_PRECONDITION',
	'ABORTED',
	'OUT_OF_RANGE',
	'UNIMPLEMENTED',
	'INTERNAL',
	'UNAVAILABLE',
	'DATA_LOSS',
	'UNAUTHENTICATED',
] as const;

export type GrpcStatusName = (typeof GRPC_STATUS_NAMES)[number];

/** For example `14 UNAVAILABLE`. @param code a code of gRPC. */
export function grpcStatusInWords(code: number): string {
	return `${code} ${GRPC_STATUS_NAMES[code]}`;
}

/** The server has failed, like 5xx in HTTP. The other codes are answers, such as NOT_FOUND, or the client's own fault. */
const FAILURES: readonly GrpcStatusName[] = [
	'UNKNOWN',
	'DEADLINE_EXCEEDED',
	'UNIMPLEMENTED',
	'INTERNAL',
	'UNAVAILABLE',
	'DATA_LOSS',
];

/** By code: whether the server has failed. */
export const IS_GRPC_FAILURE: readonly boolean[] = GRPC_STATUS_NAMES.map((name) => FAILURES.includes(name));
