import { chmodSync, existsSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type OutputChunk, rolldown } from 'rolldown';
import { assetFiles } from './assets.ts';
import { writeDeclarations } from './declarations.ts';
import { bundledPackages, licenceText } from './licences.ts';
import { type Artefact, commands, entryPoints, hasDeclarations, isExternal, readManifest } from './manifest.ts';
import { threadEntries } from './threads.ts';

interface BuildOptions {
	/** The package's folder. */
	readonly root: string;
	/** Absolute; emptied first. */
	readonly outDir: string;
	readonly features: readonly string[];
	/** Whose entry points are built. Default: `dist`. */
	readonly artefact?: Artefact;
	/** Takes in the packages that npm installs with this one. */
	readonly inlinesInstalled?: boolean;
}

export interface Built {
	readonly chunks: readonly OutputChunk[];
	/** Of all chunks together. */
	readonly bytes: number;
}

/** @throws {Error} where a module or an import is missing, or a package's licence is unknown */
export async function build({
	root,
	outDir,
	features,
	artefact = 'dist',
	inlinesInstalled = false,
}: BuildOptions): Promise<Built> {
	const manifest = readManifest(root);
	const entries = entryPoints(manifest, artefact);
	const missing = Object.values(entries).find((source) => !existsSync(join(root, source)));
	if (missing) throw new Error(`package.json publishes ${missing}, which does not exist`);

	rmSync(outDir, { recursive: true, force: true });
	const assets = new Set<string>();
	const bundle = await rolldown({
		cwd: root,
		input: entries,
		platform: 'node',
		transform: { target: 'node24' },
		external: (specifier) => (inlinesInstalled ? specifier.startsWith('node:') : isExternal(manifest, specifier)),
		resolve: { conditionNames: [...features, 'import', 'node', 'default'] },
		plugins: [threadEntries(), assetFiles(assets)],
		onLog(level, log, print) {
			// The default is to leave an import that leads nowhere in the output, for the user to find.
			if (log.code === 'UNRESOLVED_IMPORT') throw new Error(log.message);
			print(level, log);
		},
	});
	const { output } = await bundle.write({
		dir: outDir,
		entryFileNames: '[name].js',
		chunkFileNames: 'chunks/[name].js',
		assetFileNames: 'assets/[name][extname]',
		minify: false,
	});
	await bundle.close();

	const chunks = output.filter((file) => file.type === 'chunk');
	const packages = bundledPackages([...chunks.flatMap(({ moduleIds }) => moduleIds), ...assets]);
	if (packages.length > 0) writeFileSync(join(outDir, 'THIRD_PARTY_LICENSES.txt'), licenceText(packages));
	if (artefact === 'dist' && hasDeclarations(manifest)) writeDeclarations(root, outDir, Object.keys(entries));
	for (const name of commands(manifest, artefact)) makeExecutable(outDir, chunks, `${name}.js`);
	return { chunks, bytes: chunks.reduce((sum, { code }) => sum + Buffer.byteLength(code), 0) };
}

function makeExecutable(outDir: string, chunks: readonly OutputChunk[], fileName: string): void {
	const command = chunks.find((chunk) => chunk.fileName === fileName);
	if (!command?.code.startsWith('#!'))
		throw new Error(`${fileName} is a command: its source must begin with #!/usr/bin/env node`);
	chmodSync(join(outDir, fileName), 0o755);
}
