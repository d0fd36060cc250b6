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

/** `14 UNAVAILABLE`. @param code one that gRPC has. */
export function grpcStatusInWords(code: number): string {
	return `${code} ${GRPC_STATUS_NAMES[code]}`;
}

/** What 5xx is to HTTP: the server has failed. The other codes are answers, such as NOT_FOUND, or the client's own doing. */
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
