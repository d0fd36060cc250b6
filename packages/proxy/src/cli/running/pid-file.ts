/**
 * The file of `--pid-file`: the number of the process and a line feed, nothing else, so that `kill -HUP "$(cat FILE)"` and
 * every supervisor can read it.
 *
 * A file may outlive its process, and its number may belong to another one by then. So a number counts only if such a
 * process is alive, its command line can be the proxy's, and it did not start after the file was written.
 */
import { readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { quote } from '../../config/wording.ts';
import { StartError } from '../../control/start-error.ts';
import { mayBeProxy, type ProcessEntry, readProcess } from './process-table.ts';

interface PidFile {
	/** Lets others find this process. The file is removed when the process exits, except by SIGKILL. */
	publish(): void;
}

/**
 * Claims the file for this process, before anything else starts. Problems with the folder appear now, because the new file
 * is first written next to its final place.
 *
 * @throws StartError if a live proxy has the file, it is another kind of file, or it cannot be written.
 */
export function claimPidFile(path: string, mainPath: string): PidFile {
	refuseForeign(path, mainPath);
	const draft = `${path}.${process.pid}.new`;
	orStartError(path, () => {
		rmSync(draft, { force: true });
		writeFileSync(draft, `${process.pid}\n`, { mode: 0o644, flag: 'wx' });
	});
	process.on('exit', () => {
		try {
			rmSync(draft, { force: true });
			// A process that has taken the file over keeps it.
			if (readPidFile(path) === process.pid) rmSync(path, { force: true });
		} catch {
			// A leftover file names a dead process and is ignored.
		}
	});
	return {
		publish: () => {
			// Another proxy may have claimed it while this one was starting.
			refuseForeign(path, mainPath);
			orStartError(path, () => renameSync(draft, path));
		},
	};
}

function refuseForeign(path: string, mainPath: string): void {
	const pid = orStartError(path, () => readPidFile(path));
	if (pid === 'no pid') {
		throw new StartError(`--pid-file: ${quote(path)} exists, but does not contain a process number; name another file`);
	}
	if (pid === undefined || pid === process.pid) return;
	if (namesProxy(path, pid, mainPath) === undefined) return;
	throw new StartError(
		`--pid-file: ${quote(path)} belongs to process ${pid}, a running proxy; stop it (proxy drain --wait --pid-file ${path}) or name another file`,
	);
}

/** @returns the number; `undefined` if the file is absent or empty. */
export function readPidFile(path: string): number | 'no pid' | undefined {
	let text: string;
	try {
		text = readFileSync(path, 'latin1');
	} catch (error) {
		if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
		throw error;
	}
	return parsePid(text);
}

export function parsePid(text: string): number | 'no pid' | undefined {
	if (text.trim() === '') return undefined;
	return /^\s*[1-9]\d{0,9}\s*$/.test(text) ? Number(text) : 'no pid';
}

/** @returns the process that wrote the file; `undefined` if it has ended. */
export function namesProxy(
	path: string,
	pid: number,
	mainPath: string,
	read: (pid: number) => ProcessEntry | undefined = readProcess,
): ProcessEntry | undefined {
	const entry = read(pid);
	// Its process may remove it at this moment.
	const file = statSync(path, { throwIfNoEntry: false });
	return entry !== undefined && file !== undefined && isWriter(entry, file.mtimeMs, mainPath) ? entry : undefined;
}

/** File system clocks are coarse, and the start of a process is a difference of two clocks. */
const CLOCK_GRAIN_MS = 2_000;

/** @param writtenMs when the file was written, ms since the epoch. */
export function isWriter(entry: ProcessEntry, writtenMs: number, mainPath: string): boolean {
	if (entry.startedMs !== undefined && entry.startedMs > writtenMs + CLOCK_GRAIN_MS) return false;
	return mayBeProxy(entry, mainPath);
}

function orStartError<T>(path: string, act: () => T): T {
	try {
		return act();
	} catch (error) {
		const { code = '', message } = error as NodeJS.ErrnoException;
		throw new StartError(`--pid-file: cannot use ${quote(path)}: ${REASONS.get(code) ?? message}`);
	}
}

const REASONS = new Map([
	['ENOENT', 'its folder does not exist; create it, or name another file'],
	['ENOTDIR', 'its folder is a file; name another path'],
	['EISDIR', 'it is a folder; name a file in it'],
	['EACCES', 'permission denied (EACCES); let the user of the proxy write to its folder'],
	['EPERM', 'permission denied (EPERM); let the user of the proxy write to its folder'],
	['EROFS', 'the file system is read-only (EROFS); name a file elsewhere, such as below /run'],
	['ENOSPC', 'the file system is full (ENOSPC)'],
]);
