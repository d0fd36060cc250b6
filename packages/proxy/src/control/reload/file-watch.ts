import { realpath, stat } from 'node:fs/promises';
import type { Timers } from '../timers.ts';
import { FileChanges, type Stamps } from './file-changes.ts';

/**
 * How often files are checked, and how long they must be unchanged before they are read. Certificate and key are usually renewed
 * within a fraction of this time.
 */
export const LOOK_INTERVAL_MS = 1_000;
/** A reload waits no longer than this for a file system that does not answer. */
const STAMP_LIMIT_MS = 5_000;

interface WatchParts {
	/** See `Stamps`. Must not reject. */
	readonly stampOf: (path: string) => Promise<string>;
	readonly timers: Timers;
}

/**
 * Watches files by polling, which works everywhere: notifications (inotify) miss changes that another machine makes on a network
 * file system, end when the watched folder is removed, and run out. A check costs two system calls for each file.
 */
export class FileWatch {
	readonly #parts: WatchParts;
	readonly #changes = new FileChanges();
	#paths: readonly string[];
	/** The last requested stamps. */
	#asked: Promise<unknown> = Promise.resolve();
	#looking = false;
	#stop: (() => void) | undefined;

	constructor(parts: WatchParts, paths: readonly string[]) {
		this.#parts = parts;
		this.#paths = paths;
	}

	/** @param onChange gets the files that have changed since they were last read, once they have stopped changing. */
	start(onChange: (paths: readonly string[]) => void): void {
		this.#stop = this.#parts.timers.every(LOOK_INTERVAL_MS, () => void this.#look(onChange));
	}

	stop(): void {
		this.#stop?.();
	}

	/** Await this before reading the files, so that no later change is missed. Takes at most 5 s. */
	async reading(): Promise<void> {
		this.#changes.reading(await this.#stampsInTime(this.#paths));
	}

	/** The same for a new configuration: from now on only these files are watched. */
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
		// By now other files are watched, which have just been read.
		if (paths !== this.#paths) return;
		const changed = this.#changes.look(stamps);
		if (changed.length > 0) onChange(changed);
	}

	/** Without an answer in time the files count as unknown, so they are read again when there is one. */
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
 * The target of a file's path, and when it last changed. The path is resolved because a symbolic link may switch a whole folder:
 * Kubernetes mounts secrets and configuration maps behind `..data`. The inode number is left out: some file systems in user space
 * give a file a new one each time.
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
