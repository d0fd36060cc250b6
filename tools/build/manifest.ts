/** What package.json says about the build: which files are published entry points, and which packages stay outside. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

export interface Manifest {
	readonly version: string;
	readonly bin?: Readonly<Record<string, string>>;
	readonly exports?: unknown;
	readonly imports?: Readonly<Record<string, unknown>>;
	readonly dependencies?: Readonly<Record<string, string>>;
	readonly peerDependencies?: Readonly<Record<string, string>>;
	readonly optionalDependencies?: Readonly<Record<string, string>>;
}

export function readManifest(root: string): Manifest {
	return JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
}

/**
 * The published modules: every `dist/NAME.js` in `bin` and `exports`, with its source `src/NAME.ts`. To publish another
 * module, name it there.
 */
export function entryPoints({ bin, exports }: Manifest): Record<string, string> {
	const modules = targets([bin, exports]).filter((path) => path.endsWith('.js'));
	return Object.fromEntries(modules.map((path) => [baseName(path), `src/${baseName(path)}.ts`]));
}

/** The entry points that are commands. */
export function commands({ bin }: Manifest): string[] {
	return targets(bin).map(baseName);
}

/** Whether the package promises type declarations. */
export function hasDeclarations({ exports }: Manifest): boolean {
	return targets(exports).some((path) => path.endsWith('.d.ts'));
}

/** The files that a specifier of the `imports` map can stand for, by condition. */
export function importTargets(imports: Manifest['imports'], specifier: string): Record<string, string> {
	const target = imports?.[specifier];
	if (target === null || typeof target !== 'object')
		throw new Error(`package.json: imports has no map for ${specifier}`);
	return Object.fromEntries(Object.entries(target).map(([condition, path]) => [condition, String(path)]));
}

/** What npm installs with the package is imported from there, not bundled. */
export function isExternal(manifest: Manifest, specifier: string): boolean {
	if (specifier.startsWith('node:')) return true;
	const { dependencies, peerDependencies, optionalDependencies } = manifest;
	const installed = Object.keys({ ...dependencies, ...peerDependencies, ...optionalDependencies });
	return installed.some((name) => specifier === name || specifier.startsWith(`${name}/`));
}

/** Every string at the leaves, whatever conditions stand above it. */
function targets(value: unknown): string[] {
	if (typeof value === 'string') return [value];
	return value !== null && typeof value === 'object' ? Object.values(value).flatMap(targets) : [];
}

/** `./dist/embed/node.js` -> `embed/node` */
function baseName(path: string): string {
	const match = /^(?:\.\/)?dist\/(.+)\.(?:d\.ts|js)$/.exec(path);
	if (!match?.[1]) throw new Error(`package.json: ${path} is not a .js or .d.ts file in dist/`);
	return match[1];
}
