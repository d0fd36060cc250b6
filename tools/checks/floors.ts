/**
 * Proves what ARCHITECTURE.md says about src/: which folder may import which, that there are no import cycles, that
 * the gates are pure, and that only src/memory names shared memory.
 */
import { globSync, readFileSync } from 'node:fs';
import { join, posix, resolve } from 'node:path';
import { importTargets, type Manifest, readManifest } from '../build/manifest.ts';
import { finish } from './finish.ts';
import { readModule, type SourceModule } from './source.ts';

/** Who may import whom, from the ground up. A file that stands in src/ itself is a floor by its name. */
const FLOORS: Readonly<Record<string, readonly string[]>> = {
	gates: [],
	identity: ['gates'],
	memory: ['identity', 'gates'],
	shared: ['memory', 'identity', 'gates'],
	// The codec of HTTP/2, for workers and for the health probes of the main thread.
	http2: ['shared', 'memory', 'identity', 'gates'],
	tls: ['shared', 'memory', 'identity', 'gates'],
	jwks: ['shared', 'identity', 'gates'],
	config: ['tls', 'jwks', 'shared', 'memory', 'identity', 'gates'],
	data: ['config', 'http2', 'tls', 'shared', 'memory', 'identity', 'gates'],
	// The control plane starts the data plane's threads by URL and talks to them in the messages of src/shared.
	control: ['config', 'http2', 'tls', 'jwks', 'shared', 'memory', 'identity', 'gates'],
	embed: ['tls', 'jwks', 'shared', 'memory', 'identity', 'gates'],
	cli: ['control', 'data', 'embed', 'config', 'http2', 'tls', 'jwks', 'shared', 'memory', 'identity', 'gates'],
	main: ['cli', 'control', 'data', 'embed', 'config', 'http2', 'tls', 'jwks', 'shared', 'memory', 'identity', 'gates'],
};

/** Gates, identities and the codec of HTTP/2 decide on the values they are given: no I/O, no clock, no randomness, no log of their own. */
const PURE: Readonly<Record<string, readonly string[]>> = {
	gates: ['node:buffer', 'node:crypto'],
	// Certificates and revocation lists are read by a library.
	identity: ['node:buffer', 'node:crypto', '@peculiar/x509'],
	http2: ['node:buffer'],
};
const NOT_IN_PURE = ['Date', 'performance', 'process', 'console', 'setTimeout', 'setInterval', 'setImmediate', 'fetch'];
const SHARED_MEMORY = ['SharedArrayBuffer', 'Atomics'];

/** The modules below src/, by their path from the package's folder. */
type Sources = ReadonlyMap<string, SourceModule>;

/** Every breach, as `file:line: what`; empty where all holds. */
export function checkFloors(sources: Sources, imports: Manifest['imports']): string[] {
	const breaches: string[] = [];
	for (const [path, module] of sources) {
		const floor = floorOf(path);
		if (!(floor in FLOORS)) {
			breaches.push(
				`${path}: no floor is called ${floor}: move the file, or give ${floor} its place in tools/checks/floors.ts`,
			);
			continue;
		}
		for (const { specifier, line } of module.imports) {
			const reason = forbidden(path, specifier, imports);
			if (reason) breaches.push(`${path}:${line}: ${reason}`);
		}
		for (const { name, line } of module.names) {
			if (floor in PURE && NOT_IN_PURE.includes(name)) breaches.push(`${path}:${line}: ${floor} is pure, no ${name}`);
			if (floor !== 'memory' && SHARED_MEMORY.includes(name))
				breaches.push(`${path}:${line}: only src/memory names ${name}`);
		}
	}
	return [...breaches, ...cycles(sources, imports).map((cycle) => `import cycle: ${cycle.join(' -> ')}`)];
}

/** Why `path` may not import `specifier`, or undefined where it may. */
function forbidden(path: string, specifier: string, imports: Manifest['imports']): string | undefined {
	const floor = floorOf(path);
	const targets = resolveImport(path, specifier, imports);
	if (targets.length === 0) {
		const allowed = PURE[floor];
		if (allowed === undefined || allowed.includes(specifier)) return undefined;
		return `${floor} is pure, no ${specifier} (but for ${allowed.join(', ')})`;
	}
	for (const target of targets) {
		if (target === 'package.json') continue;
		if (!target.startsWith('src/')) return `${specifier} is outside src/`;
		const other = floorOf(target);
		if (other !== floor && !FLOORS[floor]?.includes(other)) return `${floor} may not import ${other} (${specifier})`;
	}
	return undefined;
}

/** The files of this package that a specifier stands for, under any condition; none for other packages. */
function resolveImport(path: string, specifier: string, imports: Manifest['imports']): string[] {
	if (specifier.startsWith('#')) {
		return Object.values(importTargets(imports, specifier)).map(posix.normalize);
	}
	return specifier.startsWith('.') ? [posix.join(posix.dirname(path), specifier)] : [];
}

/** `src/data/http1.ts` -> `data`, `src/main.ts` -> `main` */
function floorOf(path: string): string {
	return path.split('/')[1]?.replace(/\.ts$/, '') ?? '';
}

/** Import cycles at run time, each told once, from the file that comes first in it. */
function cycles(sources: Sources, imports: Manifest['imports']): string[][] {
	const found: string[][] = [];
	const done = new Set<string>();
	const visit = (path: string, trail: readonly string[]): void => {
		const start = trail.indexOf(path);
		if (start >= 0) found.push([...trail.slice(start), path]);
		if (start >= 0 || done.has(path)) return;
		const runtimeImports = sources.get(path)?.imports.filter(({ typeOnly }) => !typeOnly) ?? [];
		for (const { specifier } of runtimeImports) {
			for (const target of resolveImport(path, specifier, imports)) visit(target, [...trail, path]);
		}
		done.add(path);
	};
	for (const path of sources.keys()) visit(path, []);
	return found;
}

function readSources(root: string): Sources {
	const paths = globSync('src/**/*.ts', { cwd: root }).map((path) => path.replaceAll('\\', '/'));
	return new Map(paths.sort().map((path) => [path, readModule(path, readFileSync(join(root, path), 'utf8'))]));
}

if (import.meta.main) {
	const root = resolve(import.meta.dirname, '../..');
	const sources = readSources(root);
	finish(
		'floors',
		`${sources.size} modules keep to their floors, without cycles`,
		checkFloors(sources, readManifest(root).imports),
	);
}
