import { createServer } from 'node:net';
import { StartError } from './start-error.ts';

export interface ListenAddress {
	/** Host name or IP literal, IPv6 without brackets. */
	readonly host: string;
	/** With 0 the system chooses. */
	readonly port: number;
}

/** `host:port`, IPv6 literals in brackets (RFC 3986 section 3.2.2). */
export function formatAddress({ host, port }: ListenAddress): string {
	return host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`;
}

/**
 * Binds an address for a moment and releases it. The workers' sockets share a port (`SO_REUSEPORT`), and would silently share it
 * with another instance as well: each would get some of the other's connections.
 *
 * @param option the flag that names the address, for the message.
 * @throws StartError if it cannot be bound.
 */
export async function assertFree(address: ListenAddress, option: string): Promise<void> {
	if (address.port === 0) return;
	const server = createServer();
	await new Promise<void>((resolve, reject) => {
		server.once('error', (error) => reject(new StartError(listenProblem(address, option, error))));
		server.listen(address, () => server.close(() => resolve()));
	});
}

export function listenProblem(
	address: ListenAddress,
	option: string,
	error: { readonly code?: string; readonly message: string },
): string {
	const reason = REASONS.get(error.code ?? '') ?? error.message;
	return `cannot listen on ${formatAddress(address)} (${option}): ${reason}`;
}

const REASONS = new Map([
	['EADDRINUSE', 'the address is in use (EADDRINUSE); stop the other process or name another port'],
	['EACCES', 'permission denied (EACCES); ports below 1024 need CAP_NET_BIND_SERVICE'],
	['EADDRNOTAVAIL', 'no interface of this machine has this address (EADDRNOTAVAIL)'],
	['ENOTFOUND', 'no such host name (ENOTFOUND)'],
]);
