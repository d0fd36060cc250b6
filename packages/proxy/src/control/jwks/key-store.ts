import { createHash, randomUUID } from 'node:crypto';
import { mkdir, open, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { KeptKeys, KeyStore } from '@mtls-edge-proxy/gate/jwks/key-refresher.ts';
import type { RemoteIssuer } from '@mtls-edge-proxy/gate/jwks/remote-issuer.ts';
import type { Logger } from '@mtls-edge-proxy/gate/shared/log.ts';
import { readRegularFile } from '@mtls-edge-proxy/gate/shared/regular-file.ts';

/** The content of a file in `state_dir`. */
interface Kept {
	readonly issuer: string;
	/** `null`: found through the issuer's metadata. */
	readonly url: string | null;
	/** Seconds since the epoch. */
	readonly fetched_at: number;
	/** The JWK Set, as text. */
	readonly jwks: string;
}

/** Room for a key set, quoted within JSON. */
const MAX_BYTES = 4 * 1024 * 1024;

/**
 * Keeps the last good key set of each issuer across restarts, each in its own file of `state_dir`, which is bound to the issuer and
 * its address, and checked again when it is read. A folder that cannot be used costs only the stored sets.
 */
export function createKeyStore(dir: string, log: Logger, disk: SlowDisk = new SlowDisk()): KeyStore {
	return {
		async load(issuer, wallSeconds) {
			const onFault = (file: string, cause: string) => {
				const message = 'keys in state_dir cannot be read; remove the file, or fix its permissions';
				log.warn('proxy::jwks', message, { issuer: issuer.issuer, file, cause });
			};
			try {
				return await disk.run(() => loadKept(dir, issuer, wallSeconds, onFault));
			} catch (error) {
				return void onFault(join(dir, fileName(issuer)), (error as Error).message);
			}
		},
		async save(issuer, text, wallSeconds) {
			const kept: Kept = { issuer: issuer.issuer, url: issuer.url ?? null, fetched_at: wallSeconds, jwks: text };
			try {
				await disk.run(async () => {
					await mkdir(dir, { recursive: true, mode: 0o700 });
					await replace(join(dir, fileName(issuer)), JSON.stringify(kept));
				});
			} catch (error) {
				log.warn(
					'proxy::jwks',
					'keys could not be saved in state_dir: after a restart during an outage of the issuer there are none',
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

/**
 * The last good key set of an issuer; `undefined` if there is none.
 *
 * @param onFault gets each unusable file, with the reason.
 */
export async function loadKept(
	dir: string,
	issuer: RemoteIssuer,
	wallSeconds: number,
	onFault: (file: string, cause: string) => void = () => {},
): Promise<KeptKeys | undefined> {
	const file = join(dir, fileName(issuer));
	const kept = await read(file, issuer);
	if (kept === undefined) return undefined;
	if (typeof kept === 'string') return void onFault(file, kept);
	// No age is negative, even if the clock was set back.
	return { text: kept.jwks, ageMs: Math.max(0, wallSeconds - kept.fetched_at) * 1000, file };
}

function fileName({ issuer, url }: RemoteIssuer): string {
	const id = createHash('sha256')
		.update(JSON.stringify([issuer, url ?? null]))
		.digest('hex');
	return `jwks-${id.slice(0, 32)}.json`;
}

/** @returns `undefined` if there is no file; a text if it cannot be used, which says why and quotes nothing of it. */
async function read(path: string, { issuer, url }: RemoteIssuer): Promise<Kept | string | undefined> {
	let bytes: Buffer;
	try {
		bytes = await readRegularFile(path, { maxBytes: MAX_BYTES });
	} catch (error) {
		const { message, cause } = error as Error;
		return (cause as NodeJS.ErrnoException | undefined)?.code === 'ENOENT' ? undefined : message;
	}
	let kept: unknown;
	try {
		kept = JSON.parse(bytes.toString('utf8'));
	} catch {
		return 'is not JSON';
	}
	if (!isKept(kept)) return 'was not written by this proxy';
	return kept.issuer === issuer && kept.url === (url ?? null) ? kept : 'has the keys of another issuer';
}

function isKept(value: unknown): value is Kept {
	if (typeof value !== 'object' || value === null) return false;
	const { issuer, jwks, fetched_at: fetchedAt } = value as Partial<Record<keyof Kept, unknown>>;
	return typeof issuer === 'string' && typeof jwks === 'string' && Number.isFinite(fetchedAt);
}

/** Replaces a file atomically. Its temporary name is unpredictable, so that no other file is overwritten. */
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

/**
 * Runs file operations in a folder that may hang, such as one on a network. One at a time: each call that hangs holds one of libuv's
 * four threads, which also resolve names and read `/proc`. An operation that takes too long is given up; while it still hangs,
 * further ones fail at once.
 */
export class SlowDisk {
	readonly #limitMs: number;
	/** The current operation, and whether it has been given up. */
	#last: Promise<unknown> = Promise.resolve();
	#hangs = false;

	/** @param limitMs for one operation. */
	constructor(limitMs = LIMIT_MS) {
		this.#limitMs = limitMs;
	}

	/** @throws Error if the work, or other work before it, takes too long. */
	run<Result>(work: () => Promise<Result>): Promise<Result> {
		const result = this.#last.then(() => {
			if (this.#hangs) throw new Error(HANGS);
			return this.#bounded(work());
		});
		this.#last = result.catch(() => {});
		return result;
	}

	#bounded<Result>(working: Promise<Result>): Promise<Result> {
		return new Promise((resolve, reject) => {
			const timer = setTimeout(() => {
				this.#hangs = true;
				reject(new Error(HANGS));
			}, this.#limitMs);
			working
				.finally(() => {
					clearTimeout(timer);
					this.#hangs = false;
				})
				.then(resolve, reject);
		});
	}
}

const LIMIT_MS = 5_000;
const HANGS = 'the file system does not respond';
