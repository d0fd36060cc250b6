/** What package.json says about the build: which files are published entry points, and which packages stay outside. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

export interface Manifest {
	readonly name: string;
	readonly version: string;
	readonly files?: readonly string[];
	readonly bin?: Readonly<Record<string, string>>;
	readonly exports?: unknown;
	readonly imports?: Readonly<Record<string, unknown>>;
	readonly dependencies?: Readonly<Record<string, string>>;
	readonly peerDependencies?: Readonly<Record<string, string>>;
	readonly optionalDependencies?: Readonly<Record<string, string>>;
}

/** The folders that are published, each a separate artefact: the features that it is built with. */
const ARTEFACTS = { dist: [], 'dist-streaming': ['boxed_body'] } as const;

export type Artefact = keyof typeof ARTEFACTS;

export function isArtefact(folder: string): folder is Artefact {
	return folder in ARTEFACTS;
}

/** The folders of the packages that are published. */
export const PACKAGES = ['packages/gate', 'packages/proxy'] as const;

/** Each artefact of a package with its features. */
export function artefacts(manifest: Manifest): [Artefact, readonly string[]][] {
	const all = Object.entries(ARTEFACTS) as [Artefact, readonly string[]][];
	return all.filter(([artefact]) => Object.keys(entryPoints(manifest, artefact)).length > 0);
}

export function readManifest(root: string): Manifest {
	return JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
}

/**
 * The published modules of an artefact: every `dist/NAME.js` in `bin` and `exports`, with its source `src/NAME.ts`. To publish
 * another module, name it there.
 */
export function entryPoints({ bin, exports }: Manifest, artefact: Artefact = 'dist'): Record<string, string> {
	const modules = targets([bin, exports]).filter((path) => path.endsWith('.js'));
	const names = modules.map(placeOf).flatMap((place) => (place.artefact === artefact ? [place.name] : []));
	return Object.fromEntries(names.map((name) => [name, `src/${name}.ts`]));
}

/** The entry points of an artefact that are commands. */
export function commands({ bin }: Manifest, artefact: Artefact = 'dist'): string[] {
	return targets(bin)
		.map(placeOf)
		.flatMap((place) => (place.artefact === artefact ? [place.name] : []));
}

/** Whether the package promises type declarations. */
export function hasDeclarations({ exports }: Manifest): boolean {
	return targets(exports).some((path) => path.endsWith('.d.ts'));
}

/** The files that a specifier of the `imports` map can name, by condition. */
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

/** Every string at the leaves, whatever the conditions above it. */
function targets(value: unknown): string[] {
	if (typeof value === 'string') return [value];
	return value !== null && typeof value === 'object' ? Object.values(value).flatMap(targets) : [];
}

/** `./dist/embed/node.js` -> `embed/node` in `dist` */
function placeOf(path: string): { artefact: string; name: string } {
	const [, artefact = '', name = ''] = /^(?:\.\/)?([^./]+)\/(.+)\.(?:d\.ts|js)$/.exec(path) ?? [];
	if (isArtefact(artefact)) return { artefact, name };
	throw new Error(`package.json: ${path} is not a .js or .d.ts file in ${Object.keys(ARTEFACTS).join('/ or ')}/`);
}
