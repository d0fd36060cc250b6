/**
 * Proves what is said about the built package, on a copy of the sources: that each body mode's artefact contains its
 * own body module and not the other one, that the command starts and names its mode, that nothing is loaded before the
 * SIGUSR1 handler stands, and that the package is small and has nothing of the pinned Node in it.
 */
import { execFileSync } from 'node:child_process';
import { globSync, readFileSync } from 'node:fs';
import { join, posix, relative, resolve } from 'node:path';
import {
	artefacts,
	commands,
	entryPoints,
	importTargets,
	type Manifest,
	PACKAGES,
	readManifest,
} from '../build/manifest.ts';
import { type BuiltArtefact, buildPackage } from '../build/package.ts';
import { finish } from './finish.ts';
import { inScratchCopy } from './scratch-copy.ts';
import { readModule } from './source.ts';

const MAX_PACKED_BYTES = 2_000_000;

export interface Built {
	readonly features: readonly string[];
	/** The sources that went into it, relative to the package's folder. */
	readonly modules: readonly string[];
	/** The built files' texts by name. */
	readonly files: Readonly<Record<string, string>>;
}

/** Whether it has exactly the modules that specifiers such as `#body` name under the artefact's features. */
function checkChosen(imports: NonNullable<Manifest['imports']>, built: Built): string[] {
	return Object.keys(imports).flatMap((specifier) => checkModule(imports, specifier, built));
}

function checkModule(imports: Manifest['imports'], specifier: string, { features, modules, files }: Built): string[] {
	const mode = features.join(', ') || 'default';
	const targets = Object.entries(importTargets(imports, specifier)).map(
		([condition, path]) => [condition, posix.normalize(path)] as const,
	);
	const chosen = targets.find(([condition]) => condition === 'default' || features.includes(condition))?.[1];
	return targets.flatMap(([, module]) => {
		// Asked of the bundler, and of the bytes: it writes each module's name above its code.
		const bundled = modules.includes(module);
		const found = Object.keys(files).find((name) => files[name]?.includes(module));
		if (module === chosen) return bundled && found ? [] : [`${mode}: ${module} is not in the artefact`];
		return bundled || found ? [`${mode}: ${module} is in the artefact${found ? ` (${found})` : ''}`] : [];
	});
}

/** Static imports run before a command's first statement; only Node's own may, or a signal would find no handler. */
export function checkFirstStatements(name: string, code: string): string[] {
	const statics = readModule(name, code).imports.filter(({ dynamic }) => !dynamic);
	return statics
		.filter(({ specifier }) => !specifier.startsWith('node:'))
		.map(({ specifier }) => `${name} imports ${specifier} before its first statement`);
}

interface Pack {
	/** In bytes, packed. */
	readonly size: number;
	readonly files: readonly { readonly path: string }[];
}

export function checkPack(manifest: Manifest, { size, files }: Pack): string[] {
	const paths = files.map(({ path }) => path);
	const unwanted = paths.filter((path) => /^(?:tools|src|test|bench|node_modules)\//.test(path));
	const published = artefacts(manifest).flatMap(([folder]) => {
		return Object.keys(entryPoints(manifest, folder)).map((name) => `${folder}/${name}.js`);
	});
	const missing = published.filter((path) => !paths.includes(path));
	return [
		...unwanted.map((path) => `${manifest.name} contains ${path}`),
		...missing.map((path) => `${manifest.name} lacks ${path}`),
		...(size < MAX_PACKED_BYTES ? [] : [`${manifest.name} has ${size} bytes, more than ${MAX_PACKED_BYTES}`]),
	];
}

async function check(copy: string): Promise<string[]> {
	const breaches: string[] = [];
	for (const folder of PACKAGES) {
		const root = join(copy, folder);
		const manifest = readManifest(root);
		for (const built of await buildPackage(copy, folder)) breaches.push(...checkArtefact(root, manifest, built));
		breaches.push(...checkPack(manifest, pack(root)));
	}
	return breaches;
}

function checkArtefact(root: string, manifest: Manifest, { artefact, features, chunks }: BuiltArtefact): string[] {
	const outDir = join(root, artefact);
	const modules = chunks.flatMap(({ moduleIds }) => moduleIds).map((id) => relative(root, id));
	const names = globSync('**/*.js', { cwd: outDir });
	const files = Object.fromEntries(names.map((name) => [name, readFileSync(join(outDir, name), 'utf8')]));
	const breaches = manifest.imports === undefined ? [] : checkChosen(manifest.imports, { features, modules, files });
	const bodyMode = features.includes('boxed_body') ? 'streaming' : 'collected';
	for (const command of commands(manifest, artefact)) {
		breaches.push(...checkFirstStatements(`${command}.js`, files[`${command}.js`] ?? ''));
		const version = execFileSync(process.execPath, [join(outDir, `${command}.js`), '--version'], { encoding: 'utf8' });
		if (!version.includes(bodyMode) || !version.includes(manifest.version)) {
			breaches.push(`${command} --version says '${version.trim()}', without ${manifest.version} or ${bodyMode}`);
		}
	}
	return breaches;
}

function pack(root: string): Pack {
	const json = execFileSync('npm', ['pack', '--dry-run', '--json', '--ignore-scripts'], {
		cwd: root,
		encoding: 'utf8',
		stdio: ['ignore', 'pipe', 'ignore'],
	});
	return JSON.parse(json)[0];
}

if (import.meta.main) {
	const root = resolve(import.meta.dirname, '../..');
	finish(
		'artefact',
		'each command is built from the body module of its mode, and the packages are clean',
		await inScratchCopy(root, check),
	);
}
