import { createHash, randomUUID } from 'node:crypto';
import { mkdir, open, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { KeyStore } from '../../shared/jwks/key-refresher.ts';
import type { RemoteIssuer } from '../../shared/jwks/remote-issuer.ts';
import type { Logger } from '../../shared/log.ts';
import { readRegularFile } from '../../shared/regular-file.ts';

/** What a file of `state_dir` holds. */
interface Kept {
	readonly issuer: string;
	/** `null`: found by the issuer's metadata. */
	readonly url: string | null;
	/** Seconds since the epoch. */
	readonly fetched_at: number;
	/** The JWK Set, as text. */
	readonly jwks: string;
}

/** A set, quoted within JSON. */
const MAX_BYTES = 4 * 1024 * 1024;

/**
 * Keeps the last good key set of each issuer over a restart, in a file of `state_dir` each: bound to the issuer and its address, and
 * judged anew when it is read. A folder that cannot be used costs the sets and nothing else.
 */
export function createKeyStore(dir: string, log: Logger): KeyStore {
	return {
		load: (issuer, wallSeconds) => loadKept(dir, issuer, wallSeconds),
		async save(issuer, text, wallSeconds) {
			const kept: Kept = { issuer: issuer.issuer, url: issuer.url ?? null, fetched_at: wallSeconds, jwks: text };
			try {
				await mkdir(dir, { recursive: true, mode: 0o700 });
				await replace(join(dir, fileName(issuer)), JSON.stringify(kept));
			} catch (error) {
				log.warn(
					'proxy::jwks',
					'keys not kept in state_dir: a restart during an outage of the issuer would have none',
					{
						issuer: issuer.issuer,
						state_dir: dir,
						cause: (error as NodeJS.ErrnoException).code ?? (error as Error).message,
					},
				);
			}
		},
	};
}

/** The last good key set of an issuer; `undefined` where there is none. */
export async function loadKept(dir: string, issuer: RemoteIssuer, wallSeconds: number) {
	const kept = await read(join(dir, fileName(issuer)));
	if (kept?.issuer !== issuer.issuer || kept.url !== (issuer.url ?? null)) return undefined;
	// A clock that was set back makes nothing younger than now.
	return { text: kept.jwks, ageMs: Math.max(0, wallSeconds - kept.fetched_at) * 1000 };
}

function fileName({ issuer, url }: RemoteIssuer): string {
	const id = createHash('sha256')
		.update(JSON.stringify([issuer, url ?? null]))
		.digest('hex');
	return `jwks-${id.slice(0, 32)}.json`;
}

/** `undefined` for what is not there or is none of ours. */
async function read(path: string): Promise<Kept | undefined> {
	try {
		const kept: unknown = JSON.parse((await readRegularFile(path, { maxBytes: MAX_BYTES })).toString('utf8'));
		return isKept(kept) ? kept : undefined;
	} catch {
		return undefined;
	}
}

function isKept(value: unknown): value is Kept {
	if (typeof value !== 'object' || value === null) return false;
	const { issuer, jwks, fetched_at: fetchedAt } = value as Partial<Record<keyof Kept, unknown>>;
	return typeof issuer === 'string' && typeof jwks === 'string' && Number.isFinite(fetchedAt);
}

/** At no time is there half a file; a name that nobody can foretell, so that nothing else is written over. */
async function replace(path: string, text: string): Promise<void> {
	const fresh = `${path}.${randomUUID()}`;
	try {
		const file = await open(fresh, 'wx', 0o600);
		try {
			await file.writeFile(text);
			await file.sync();
		} finally {
			await file.close();
		}
		await rename(fresh, path);
	} catch (error) {
		await rm(fresh, { force: true });
		throw error;
	}
}
