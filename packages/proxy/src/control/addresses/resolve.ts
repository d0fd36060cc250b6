import { lookup, Resolver } from 'node:dns/promises';
import { isIP } from 'node:net';
import { readRegularFile } from '@mtls-edge-proxy/gate/shared/regular-file.ts';
import type { DnsSource } from '../../config/config.ts';

export interface Resolved {
	/** IP addresses of both families, at least one, in no particular order. */
	readonly addresses: readonly string[];
	/** The lowest TTL of all records; `undefined` if unknown. */
	readonly ttlMs: number | undefined;
}

/** Rejects with the cause in words, in bounded time. @param abandoned aborts the look-up. */
export type Resolve = (source: DnsSource, abandoned: AbortSignal) => Promise<Resolved>;

/** Limit for one query to one server, ms; each server is asked twice. */
const ANSWER_MS = 2_000;

/** hosts(5) of Linux and macOS. Containers find their `hostAliases` and `extra_hosts` here. */
const HOSTS_PATH = '/etc/hosts';

/**
 * Looks up all addresses of a name: first in the hosts file, as every program of the machine does, so a name in it needs no name server;
 * then in DNS, the only source of a TTL; then, if DNS does not know the name, by the machine's own look-up with its search domains. If a
 * server is configured, only that server is asked.
 *
 * A family without an answer fails the whole look-up, since the other family's addresses are only a part. For the same reason the
 * machine's look-up never replaces a failed DNS: it accepts a single family.
 */
export const resolveName: Resolve = (source, abandoned) => resolveWith(HOSTS_PATH, source, abandoned);

export async function resolveWith(
	hostsPath: string,
	{ host, server }: Pick<DnsSource, 'host' | 'server'>,
	abandoned: AbortSignal,
): Promise<Resolved> {
	const written = server === undefined ? await readHosts(hostsPath, host) : [];
	if (written.length > 0) return { addresses: written, ttlMs: undefined };
	// A query sent after the abort would not be cancelled, and would hold up the end of the process.
	abandoned.throwIfAborted();
	const resolver = new Resolver({ timeout: ANSWER_MS, tries: 2 });
	if (server !== undefined) resolver.setServers([server]);
	const cancel = () => resolver.cancel();
	abandoned.addEventListener('abort', cancel, { once: true });
	try {
		const records = (
			await Promise.all([
				present(resolver.resolve4(host, { ttl: true })),
				present(resolver.resolve6(host, { ttl: true })),
			])
		).flat();
		if (records.length > 0) {
			const ttl = Math.min(...records.map(({ ttl: seconds }) => seconds));
			return { addresses: records.map(({ address }) => address), ttlMs: ttl * 1000 };
		}
		if (server !== undefined) throw new Error('the name has no addresses');
		const found = await lookup(host, { all: true });
		return { addresses: found.map(({ address }) => address), ttlMs: undefined };
	} catch (error) {
		throw new Error(causeOf(error as NodeJS.ErrnoException), { cause: error });
	} finally {
		abandoned.removeEventListener('abort', cancel);
	}
}

/** A missing or unreadable file has no names: DNS decides then. */
async function readHosts(path: string, host: string): Promise<string[]> {
	try {
		return hostsFileAddresses((await readRegularFile(path)).toString('latin1'), host);
	} catch {
		return [];
	}
}

/**
 * All addresses that a hosts file (hosts(5)) lists for a name, in the order of its lines.
 *
 * @param host in lower case.
 */
export function hostsFileAddresses(text: string, host: string): string[] {
	const lower = text.toLowerCase();
	// Block lists have hundreds of thousands of lines.
	if (!lower.includes(host)) return [];
	return lower.split('\n').flatMap((line) => {
		if (!line.includes(host)) return [];
		const [address = '', ...names] = line.replace(/#.*/s, '').trim().split(/\s+/);
		return names.includes(host) && isIP(address) !== 0 ? address : [];
	});
}

/** An empty result is an answer as well. */
async function present<Found>(found: Promise<Found[]>): Promise<Found[]> {
	try {
		return await found;
	} catch (error) {
		const { code } = error as NodeJS.ErrnoException;
		if (code === 'ENODATA' || code === 'ENOTFOUND') return [];
		throw error;
	}
}

function causeOf({ code, message }: NodeJS.ErrnoException): string {
	return (code !== undefined && CAUSES[code]) || code || message;
}

const CAUSES: Readonly<Record<string, string>> = {
	ENOTFOUND: 'the name has no addresses',
	EAI_AGAIN: 'no answer from the name server',
	ETIMEOUT: 'no answer from the name server',
	ECONNREFUSED: 'the name server refuses connections',
	ESERVFAIL: 'the name server has failed (SERVFAIL)',
	EREFUSED: 'the name server refuses to answer (REFUSED)',
};
