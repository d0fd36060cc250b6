/**
 * Proves what docs/reference/embed.md says about the built package: that importing one part of `mtls-edge-gate` runs nothing of another,
 * and no other package. Each part is imported in a separate process, which records every module that Node loads for it.
 */
import { execFileSync } from 'node:child_process';
import { join, relative, resolve } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { build } from '../build/bundle.ts';
import { entryPoints, readManifest } from '../build/manifest.ts';
import { finish } from './finish.ts';
import { inScratchCopy } from './scratch-copy.ts';

/** One published part and what Node loaded for it. */
export interface Part {
	/** As in `embed/node`. */
	readonly name: string;
	/** Sources within the loaded files, relative to the package's folder, and the URLs of whatever is not of the build. */
	readonly loaded: readonly string[];
}

/** @param parts all published parts of the embedded gate. */
export function checkIsolation(parts: readonly Part[]): string[] {
	return parts.flatMap(({ name, loaded }) => {
		const others = parts.filter((part) => part.name !== name).map((part) => `src/${part.name}.ts`);
		const foreign = loaded.filter((module) => {
			if (module.startsWith('node:')) return false;
			return !module.startsWith('src/') || others.includes(module);
		});
		const own = loaded.includes(`src/${name}.ts`) ? [] : [`importing ${name} does not load src/${name}.ts`];
		return [...own, ...foreign.map((module) => `importing ${name} loads ${module}`)];
	});
}

async function buildParts(copy: string): Promise<Part[]> {
	const root = join(copy, 'packages/gate');
	const outDir = join(root, 'dist');
	const { chunks } = await build({ root, outDir, features: [] });
	const sources = new Map(
		chunks.map(({ fileName, moduleIds }) => [join(outDir, fileName), moduleIds.map((id) => relative(root, id))]),
	);
	return Object.keys(entryPoints(readManifest(root))).map((name) => {
		const urls = loadedFor(join(outDir, `${name}.js`));
		return {
			name,
			loaded: urls.flatMap((url) => (url.startsWith('file:') && sources.get(fileURLToPath(url))) || [url]),
		};
	});
}

const LIST_LOADED = `
	import { registerHooks } from 'node:module';
	const loaded = [];
	registerHooks({ load(url, context, next) { loaded.push(url); return next(url, context); } });
	await import(process.argv[1]);
	console.log(JSON.stringify(loaded));
`;

function loadedFor(file: string): string[] {
	const args = ['--input-type=module', '--eval', LIST_LOADED, pathToFileURL(file).href];
	return JSON.parse(execFileSync(process.execPath, args, { encoding: 'utf8' }));
}

if (import.meta.main) {
	const root = resolve(import.meta.dirname, '../..');
	const parts = await inScratchCopy(root, buildParts);
	finish('embed-isolation', 'each part of the embedded gate loads nothing but what it needs', checkIsolation(parts));
}
