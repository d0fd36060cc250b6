import { realpath, stat } from 'node:fs/promises';
import { type Timers, within } from '../timers.ts';

/** A text that identifies the state of a file, by path. */
type Stamps = ReadonlyMap<string, string>;

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
	async #stampsInTime(paths: readonly string[]): Promise<Stamps> {
		return (await within(this.#stamps(paths), STAMP_LIMIT_MS, this.#parts.timers)) ?? new Map();
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
 * Decides, by regular checks, when to read changed files again. Several files that change one after the other are one change, and
 * no file may be read while it is being written. So nothing happens until two consecutive checks find all files unchanged.
 */
export class FileChanges {
	/** The state in which each file was last read. */
	#read: Stamps = new Map();
	#lastLook: Stamps = new Map();

	/** These files are about to be read; others are forgotten. */
	reading(stamps: Stamps): void {
		this.#read = stamps;
	}

	/** From now on watches only these files. New ones are about to be read. */
	follow(paths: readonly string[], stamps: Stamps): void {
		const known = [...this.#read].filter(([path]) => paths.includes(path));
		this.#read = new Map([...stamps, ...known]);
	}

	/**
	 * @param stamps of all watched files.
	 * @returns the files that have changed since they were last read, once all files have stopped changing. They then count as read,
	 *   so a reload that fails because of them is not repeated before the next change.
	 */
	look(stamps: Stamps): string[] {
		const still = differences(stamps, this.#lastLook).length === 0;
		this.#lastLook = stamps;
		const changed = differences(stamps, this.#read);
		if (!still || changed.length === 0) return [];
		this.#read = stamps;
		return changed;
	}
}

function differences(now: Stamps, before: Stamps): string[] {
	return [...now.keys()].filter((path) => now.get(path) !== before.get(path));
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
