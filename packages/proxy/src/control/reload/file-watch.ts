import { realpath, stat } from 'node:fs/promises';
import type { Timers } from '../timers.ts';
import { FileChanges, type Stamps } from './file-changes.ts';

/**
 * How often files are looked at; also how long they have to be still before they are read. Certificate and key are two
 * files, which are usually renewed within a fraction of it.
 */
export const LOOK_INTERVAL_MS = 1_000;
/** A reload does not wait for longer for a file system that does not answer. */
const STAMP_LIMIT_MS = 5_000;

export interface WatchParts {
	/** See `Stamps`. Must not reject. */
	readonly stampOf: (path: string) => Promise<string>;
	readonly timers: Timers;
}

/**
 * Watches files by looking at them, since that works everywhere: notifications (inotify) say nothing of what another
 * machine does on a network file system, end with the folder that they were asked of, and run out. A look costs two system
 * calls a file.
 */
export class FileWatch {
	readonly #parts: WatchParts;
	readonly #changes = new FileChanges();
	#paths: readonly string[];
	/** The last stamps that were asked for. */
	#asked: Promise<unknown> = Promise.resolve();
	#looking = false;
	#stop: (() => void) | undefined;

	constructor(parts: WatchParts, paths: readonly string[]) {
		this.#parts = parts;
		this.#paths = paths;
	}

	/** @param onChange gets the files that have changed since they were last read; not before they have come to rest. */
	start(onChange: (paths: readonly string[]) => void): void {
		this.#stop = this.#parts.timers.every(LOOK_INTERVAL_MS, () => void this.#look(onChange));
	}

	stop(): void {
		this.#stop?.();
	}

	/** To be awaited before the files are read, so that nothing that changes later is missed. Takes at most 5 s. */
	async reading(): Promise<void> {
		this.#changes.reading(await this.#stampsInTime(this.#paths));
	}

	/** The same where a new configuration names these: from here on they are watched and no others. */
	async follow(paths: readonly string[]): Promise<void> {
		const fresh = paths.filter((path) => !this.#paths.includes(path));
		this.#changes.follow(paths, await this.#stampsInTime(fresh));
		this.#paths = paths;
	}

	async #look(onChange: (paths: readonly string[]) => void): Promise<void> {
		if (this.#looking) return;
		this.#looking = true;
		const paths = this.#paths;
		const stamps = await this.#stamps(paths);
		this.#looking = false;
		// What others are watched meanwhile was read a moment ago.
		if (paths !== this.#paths) return;
		const changed = this.#changes.look(stamps);
		if (changed.length > 0) onChange(changed);
	}

	/** Where there is no answer in time nothing is known of the files, so that they are read again once there is one. */
	#stampsInTime(paths: readonly string[]): Promise<Stamps> {
		return new Promise((resolve) => {
			const cancel = this.#parts.timers.after(STAMP_LIMIT_MS, () => resolve(new Map()));
			void this.#stamps(paths).then((stamps) => {
				cancel();
				resolve(stamps);
			});
		});
	}

	/** One file at a time: each that hangs holds one of the few threads that all file access and name look-ups share. */
	#stamps(paths: readonly string[]): Promise<Stamps> {
		const stamps = this.#asked.then(async () => {
			const found = new Map<string, string>();
			for (const path of paths) found.set(path, await this.#parts.stampOf(path));
			return found;
		});
		this.#asked = stamps;
		return stamps;
	}
}

/**
 * What a file's path leads to at the moment, and when that last changed. The path is resolved because a whole folder may be
 * exchanged behind a symbolic link: secrets and configuration maps that Kubernetes mounts are reached through `..data`. The
 * inode number is left out: some file systems in user space have another one for a file each time.
 */
export async function stampOf(path: string): Promise<string> {
	try {
		const target = await realpath(path);
		const { size, mtimeNs, ctimeNs } = await stat(target, { bigint: true });
		return `${target} ${size} ${mtimeNs} ${ctimeNs}`;
	} catch (error) {
		return (error as NodeJS.ErrnoException).code ?? (error as Error).message;
	}
}
