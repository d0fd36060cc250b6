import { BAD_REQUEST, type Rejection } from '@mtls-edge-proxy/gate/gates/rejection.ts';

/** `grpc-timeout`: how long a gRPC client waits for the whole call. */

/** Milliseconds of each unit. */
const UNITS = { H: 3_600_000, M: 60_000, S: 1_000, m: 1, u: 1e-3, n: 1e-6 } as const;
/** From the finest to the coarsest. */
const FINEST_FIRST = ['n', 'u', 'm', 'S', 'M', 'H'] as const;

const TIMEOUT = /^[0-9]{1,8}[HMSmun]$/;
/** The largest number that a value can hold. */
const MAX_NUMBER = 99_999_999;

/** @returns milliseconds, with fractions; `undefined`: malformed. */
export function parseGrpcTimeout(value: string): number | undefined {
	if (!TIMEOUT.test(value)) return undefined;
	return Number(value.slice(0, -1)) * UNITS[value.at(-1) as keyof typeof UNITS];
}

const MALFORMED = BAD_REQUEST.because('malformed grpc-timeout');

/** gRPC servers refuse it too: they do not guess a deadline. @param timeout of the request's head. */
export function refuseMalformedTimeout(timeout: number | null | undefined): Rejection | undefined {
	return timeout === null ? MALFORMED : undefined;
}

/** In the finest unit that can hold it, rounded up; never 0, which is not a valid timeout in gRPC. @param ms milliseconds. */
export function grpcTimeoutOf(ms: number): string {
	for (const unit of FINEST_FIRST) {
		const number = Math.max(1, Math.ceil(ms / UNITS[unit]));
		if (number <= MAX_NUMBER) return `${number}${unit}`;
	}
	return `${MAX_NUMBER}H`;
}
