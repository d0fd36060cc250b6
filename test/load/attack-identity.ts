/** What a child process needs to be a client of a proxy that its parent has started: it has no PKI of its own. */
import type { TlsOptions } from '../fixtures/tls-client.ts';

export interface Identity {
	/** Of the proxy. */
	readonly port: number;
	readonly caPem: string;
	readonly certPem: string;
	readonly keyPem: string;
	/** Good ones, of as many tenants. */
	readonly tokens: readonly string[];
}

export function tlsOptions({ caPem, certPem, keyPem }: Identity, alpn: 'http/1.1' | 'h2'): TlsOptions {
	return { alpn: [alpn], cert: { certPem, keyPem }, tls: { ca: caPem } };
}

/**
 * Calls `act` so many times a second, evenly. What cannot be kept up with is not made up for: an attacker's rate is an
 * upper bound.
 *
 * @returns stops it.
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
