/** The credentials with which a child process is a client of the parent's proxy. The child has no PKI. */
import type { TlsOptions } from '../fixtures/tls-client.ts';

export interface Credentials {
	/** Port of the proxy. */
	readonly port: number;
	readonly caPem: string;
	readonly certPem: string;
	readonly keyPem: string;
	/** Valid tokens, each of another tenant. */
	readonly tokens: readonly string[];
}

export function tlsOptions({ caPem, certPem, keyPem }: Credentials, alpn: 'http/1.1' | 'h2'): TlsOptions {
	return { alpn: [alpn], cert: { certPem, keyPem }, tls: { ca: caPem } };
}

/**
 * Calls `act` at a steady rate. Missed calls are not made up for: an attacker's rate is an upper bound.
 *
 * @returns a function that stops it.
 */
export function pace(perSecond: number, act: () => void): () => void {
	let next = performance.now();
	const timer = setInterval(() => {
		const now = performance.now();
		if (next < now - BEHIND_MS) next = now;
		for (; next <= now; next += 1000 / perSecond) act();
	}, 2);
	return () => clearInterval(timer);
}

const BEHIND_MS = 200;
