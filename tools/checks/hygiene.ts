/**
 * Proves that the repository carries nothing of the machine it was written on: no path of it, no address of its
 * package registry, and a package-lock.json that names no addresses and serves every platform.
 */
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { homedir, tmpdir } from 'node:os';
import { basename, dirname, join, resolve } from 'node:path';
import { type Lock, missingPlatforms } from '../lock.ts';
import { finish } from './finish.ts';

/** Folders that say nothing about a machine, so that texts may name them. */
const EVERYWHERE = ['/', '/home', '/mnt', '/opt', '/srv', '/tmp', '/usr', '/usr/src', '/var', '/var/tmp', tmpdir()];

interface Trace {
	readonly text: string;
	readonly what: string;
}

/** What would give this machine away. */
export function tracesOf(machine: { root: string; home: string; registry: string }): Trace[] {
	const folders = [machine.root, dirname(machine.root), machine.home].filter((folder) => !EVERYWHERE.includes(folder));
	const paths = [...new Set(folders)].map((folder) => ({ text: `${folder}/`, what: 'a path of this machine' }));
	const host = URL.parse(machine.registry)?.host;
	return host ? [...paths, { text: host, what: 'the package registry' }] : paths;
}

/** Every line of a text file with a trace in it, as `file:line: what`. The trace itself is not repeated. */
export function findTraces(file: string, text: string, traces: readonly Trace[]): string[] {
	if (!traces.some((trace) => text.includes(trace.text))) return [];
	return text.split('\n').flatMap((line, index) => {
		return traces.filter((trace) => line.includes(trace.text)).map(({ what }) => `${file}:${index + 1}: names ${what}`);
	});
}

/** What would make a package-lock.json fail on, or give away, another machine. */
export function checkLock(file: string, lock: Lock): string[] {
	const withAddress = Object.entries(lock.packages).filter(([, { resolved }]) => resolved && URL.canParse(resolved));
	return [
		...withAddress.map(([path]) => `${file}: ${path} has a 'resolved' address; .npmrc asks npm to leave them out`),
		...Object.keys(missingPlatforms(lock)).map((path) => `${file}: ${path} is missing: npm run lock`),
	];
}

function check(root: string): { files: number; breaches: string[] } {
	const registry = execFileSync('npm', ['config', 'get', 'registry'], {
		cwd: root,
		encoding: 'utf8',
		stdio: ['ignore', 'pipe', 'ignore'],
	});
	const traces = tracesOf({ root, home: homedir(), registry: registry.trim() });
	// Also what is not committed yet, so that it is found before it is.
	const listing = execFileSync(
		'git',
		['-c', 'safe.directory=*', 'ls-files', '-z', '--cached', '--others', '--exclude-standard'],
		{ cwd: root },
	);
	const files = listing
		.toString()
		.split('\0')
		.filter((file) => file !== '');
	const breaches = files.flatMap((file) => {
		const text = readText(join(root, file));
		if (text === undefined) return [];
		const lock = basename(file) === 'package-lock.json' ? checkLock(file, JSON.parse(text)) : [];
		return [...findTraces(file, text, traces), ...lock];
	});
	return { files: files.length, breaches };
}

/** Undefined for binary files, and for what git still lists and is deleted or no file. */
function readText(path: string): string | undefined {
	try {
		const bytes = readFileSync(path);
		return bytes.includes(0) ? undefined : bytes.toString();
	} catch (error) {
		if (['ENOENT', 'EISDIR'].includes((error as NodeJS.ErrnoException).code ?? '')) return undefined;
		throw error;
	}
}

if (import.meta.main) {
	const { files, breaches } = check(resolve(import.meta.dirname, '../..'));
	finish('hygiene', `${files} files carry nothing of this machine`, breaches);
}
