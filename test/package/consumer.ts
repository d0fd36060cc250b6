/** The packages as their users get them: built, packed, and installed into projects outside of this repository. */
import { execFile } from 'node:child_process';
import { cpSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join, relative, resolve } from 'node:path';
import { promisify } from 'node:util';
import { PACKAGES } from '../../tools/build/manifest.ts';
import { buildPackage } from '../../tools/build/package.ts';
import { NOT_COPIED } from '../../tools/checks/scratch-copy.ts';
import { temporaryFolder } from '../fixtures/pki.ts';

const ROOT = resolve(import.meta.dirname, '../..');
const readManifest = (folder: string) => JSON.parse(readFileSync(join(ROOT, folder, 'package.json'), 'utf8'));
/** Of everything that this repository installs. */
const VERSIONS = { ...readManifest('packages/proxy').dependencies, ...readManifest('.').devDependencies };

/** The paths of the tarballs. */
export interface Packed {
	readonly gate: string;
	readonly proxy: string;
}

/** Builds and packs a copy of the working tree. */
export async function packPackages(): Promise<Packed> {
	const copy = temporaryFolder('pack');
	cpSync(ROOT, copy, { recursive: true, filter: (path) => !NOT_COPIED.test(relative(ROOT, path)) });
	symlinkSync(join(ROOT, 'node_modules'), join(copy, 'node_modules'));
	const [gate, proxy] = await Promise.all(
		PACKAGES.map(async (folder) => {
			await buildPackage(copy, folder);
			const args = ['pack', '--ignore-scripts', '--json', '--pack-destination', copy];
			const { stdout } = await run('npm', args, join(copy, folder));
			return join(copy, JSON.parse(stdout)[0].filename);
		}),
	);
	return { gate: gate!, proxy: proxy! };
}

/**
 * Makes an empty project and installs these tarballs into it.
 *
 * @param packages what else it depends on: `name@range`, or a name, in the version of this repository.
 */
export async function createProject(tarballs: readonly string[], packages: readonly string[]): Promise<Project> {
	const dir = temporaryFolder('project');
	writeFileSync(join(dir, 'package.json'), JSON.stringify({ name: 'consumer', private: true, type: 'module' }));
	const pinned = packages.map((name) => (name.lastIndexOf('@') > 0 ? name : `${name}@${VERSIONS[name]}`));
	await run('npm', ['install', '--no-audit', '--no-fund', '--prefer-offline', ...tarballs, ...pinned], dir);
	return new Project(dir);
}

export class Project {
	readonly dir: string;

	constructor(dir: string) {
		this.dir = dir;
	}

	write(file: string, text: string): void {
		mkdirSync(join(this.dir, file, '..'), { recursive: true });
		writeFileSync(join(this.dir, file), text);
	}

	/** Runs Node in it. @returns what went to standard output. Rejects with all output where that fails. */
	async node(...args: string[]): Promise<string> {
		return (await run(process.execPath, args, this.dir)).stdout;
	}
}

/** Runs a program to its end; rejects with all that it said when its exit code is not 0. */
export async function run(
	command: string,
	args: string[],
	cwd: string,
	env: NodeJS.ProcessEnv = process.env,
): Promise<{ stdout: string; stderr: string }> {
	try {
		return await promisify(execFile)(command, args, { cwd, env, maxBuffer: 64 * 1024 * 1024 });
	} catch (error) {
		const { stdout, stderr } = error as { stdout: string; stderr: string };
		throw new Error(`${command} ${args.join(' ')}\n${stdout}\n${stderr}`);
	}
}
