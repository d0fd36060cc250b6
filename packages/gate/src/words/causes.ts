import { tlsCause } from './tls-causes.ts';

export { SPEAKS_NO_TLS, UNTRUSTED } from './tls-causes.ts';

/** Failures in words for operators: in logs and in the reasons of refusals. They never quote what a peer has sent. */

/** What a failed connection is called. @param code of the system call, such as `ECONNREFUSED`, or of TLS (`tls-causes.ts`). */
export function connectionCause(error: NodeJS.ErrnoException): string {
	const { code = 'without a code' } = error;
	return WORDS.get(code) ?? tlsCause(error) ?? `connection failed (${code})`;
}

/** @param limitMs of the time that was to be kept. */
export function silenceCause(what: string, limitMs: number): string {
	return `no ${what} within ${limitMs / 1000} s`;
}

/** @param limitMs of the response as a whole. */
export function notOverCause(limitMs: number): string {
	return `response not over within ${limitMs / 1000} s`;
}

/** What an `http://` upstream that speaks TLS is called. */
export const SPEAKS_TLS = 'it speaks TLS on this port';

const WORDS = new Map([
	['ECONNREFUSED', 'connection refused'],
	['ECONNRESET', 'connection reset'],
	['EPIPE', 'connection reset'],
	['ETIMEDOUT', 'connection timed out'],
	['EHOSTUNREACH', 'no route to host'],
	['ENETUNREACH', 'network unreachable'],
	['EHOSTDOWN', 'host down'],
	['EACCES', 'connection forbidden'],
	['EPERM', 'connection forbidden'],
	['ENOTFOUND', 'no such host'],
	['EAI_NONAME', 'no such host'],
	['EAI_NODATA', 'host without an address'],
	['EAI_AGAIN', 'name server does not answer'],
	['EMFILE', 'no file descriptor left'],
	['ENFILE', 'no file descriptor left'],
	['EADDRNOTAVAIL', 'no local port left'],
	['ENOBUFS', 'no memory left'],
	['ENOMEM', 'no memory left'],
]);
