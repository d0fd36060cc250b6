/**
 * Builds the command and the library.
 *
 *   npm run build                              what is published: dist/ with collected bodies, dist-streaming/ with streamed ones
 *   npm run build -- --features boxed_body     dist/, with streamed bodies, and nothing else
 *   npm run build -- --out-dir FOLDER          one folder, with collected bodies
 */
import { resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { type BuildOptions, build } from './build/bundle.ts';
import { FEATURES, parseFeatures } from './build/features.ts';
import { artefacts } from './build/manifest.ts';

const USAGE = `usage: npm run build -- [--features NAME,…] [--out-dir FOLDER]\nfeatures: ${FEATURES.join(', ')}`;

type Part = Omit<BuildOptions, 'root'>;

async function main(): Promise<void> {
	const root = resolve(import.meta.dirname, '..');
	for (const part of readCommandLine()) {
		const { chunks, bytes } = await build({ root, ...part, outDir: resolve(root, part.outDir) });
		const features = part.features.join(', ') || 'none';
		console.log(`${part.outDir}/ (features: ${features}): ${chunks.length} files, ${Math.ceil(bytes / 1024)} KiB`);
	}
}

function readCommandLine(): readonly Part[] {
	try {
		// `npm run build --features=x`, without the `--`: npm keeps the option to itself, and says so only here.
		if (process.env.npm_config_features) throw new Error("npm passes on only what stands behind a '--'");
		const { values } = parseArgs({
			options: { features: { type: 'string', multiple: true }, 'out-dir': { type: 'string' } },
		});
		const { features, 'out-dir': outDir } = values;
		if (features === undefined && outDir === undefined) return PUBLISHED;
		return [{ features: parseFeatures(features ?? []), outDir: outDir ?? 'dist' }];
	} catch (error) {
		console.error(`${(error as Error).message}\n${USAGE}`);
		process.exit(2);
	}
}

const PUBLISHED = artefacts().map(([artefact, features]): Part => ({ artefact, outDir: artefact, features }));

await main().catch((error: Error) => {
	console.error(error.message);
	process.exit(1);
});
