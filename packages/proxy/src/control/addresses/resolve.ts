import { lookup, Resolver } from 'node:dns/promises';
import { readRegularFile } from '@mtls-edge-proxy/gate/shared/regular-file.ts';
import type { DnsSource } from '../../config/config.ts';
import { hostsFileAddresses } from './hosts-file.ts';

/** What DNS says of a name. */
export interface Resolved {
	/** IP addresses of both families, at least one, without order. */
	readonly addresses: readonly string[];
	/** The least of all records; `undefined`: unknown. */
	readonly ttlMs: number | undefined;
}

/** Rejects with the cause in words, in bounded time. @param abandoned aborts the look-up. */
export type Resolve = (source: DnsSource, abandoned: AbortSignal) => Promise<Resolved>;

/** For one question to one server, ms; each is asked twice. */
const ANSWER_MS = 2_000;

/** hosts(5): of Linux and macOS, and where containers get their `hostAliases` and `extra_hosts`. */
const HOSTS_PATH = '/etc/hosts';

/**
 * Asks for all addresses of a name: first the file of hosts, as every program of the machine does, so a name in there needs no name server;
 * then DNS, the only source of a TTL; then, for a name that DNS does not know, the machine's own look-up with its search domains. Where a
 * server is named, only that server is asked.
 *
 * A family of which there is no answer fails the whole: half of the addresses are not all of them. Therefore the machine's look-up never
 * replaces a DNS that has failed: it takes one family for the whole.
 */
export const resolveName: Resolve = (source, abandoned) => resolveWith(HOSTS_PATH, source, abandoned);

/** @param hostsPath of the file of hosts. */
export async function resolveWith(
	hostsPath: string,
	{ host, server }: Pick<DnsSource, 'host' | 'server'>,
	abandoned: AbortSignal,
): Promise<Resolved> {
	const written = server === undefined ? await readHosts(hostsPath, host) : [];
	if (written.length > 0) return { addresses: written, ttlMs: undefined };
	// A question that is asked from here on would hear of no abort, and hold up the end of the process.
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

/** A file that is not there, or cannot be read, has no names: then DNS says what there is. */
async function readHosts(path: string, host: string): Promise<string[]> {
	try {
		return hostsFileAddresses((await readRegularFile(path)).toString('latin1'), host);
	} catch {
		return [];
	}
}

/** That there are none is an answer. */
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
	EAI_AGAIN: 'no answer of the name server',
	ETIMEOUT: 'no answer of the name server',
	ECONNREFUSED: 'the name server refuses connections',
	ESERVFAIL: 'the name server has failed (SERVFAIL)',
	EREFUSED: 'the name server refuses to answer (REFUSED)',
};
