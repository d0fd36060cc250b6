/**
 * Builds what is published: packages/gate/dist, packages/proxy/dist with collected bodies, packages/proxy/dist-streaming with streamed ones.
 *
 *   npm run build                              all of it
 *   npm run build -- --features boxed_body     packages/proxy/dist with streamed bodies, and nothing else
 *   npm run build -- --out-dir FOLDER          the command in one folder, with collected bodies
 */
import { join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { type Built, build } from './build/bundle.ts';
import { FEATURES, parseFeatures } from './build/features.ts';
import { PACKAGES } from './build/manifest.ts';
import { buildPackage } from './build/package.ts';

const USAGE = `usage: npm run build -- [--features NAME,…] [--out-dir FOLDER]\nfeatures: ${FEATURES.join(', ')}`;
const PROXY = 'packages/proxy';

const repository = resolve(import.meta.dirname, '..');

async function main(): Promise<void> {
	const { features, outDir } = readCommandLine();
	if (features === undefined && outDir === undefined) {
		for (const folder of PACKAGES) {
			for (const built of await buildPackage(repository, folder)) report(join(folder, built.artefact), built);
		}
		return;
	}
	const folder = resolve(repository, outDir ?? join(PROXY, 'dist'));
	report(folder, await build({ root: join(repository, PROXY), outDir: folder, features: features ?? [] }), features);
}

function report(
	folder: string,
	{ chunks, bytes, features = [] }: Built & { readonly features?: readonly string[] },
	chosen: readonly string[] = features,
): void {
	const names = chosen.join(', ') || 'none';
	console.log(`${folder}/ (features: ${names}): ${chunks.length} files, ${Math.ceil(bytes / 1024)} KiB`);
}

function readCommandLine(): { features: string[] | undefined; outDir: string | undefined } {
	try {
		// `npm run build --features=x`, without the `--`: npm keeps the option to itself, and says so only here.
		if (process.env.npm_config_features) throw new Error("npm passes on only what stands behind a '--'");
		const { values } = parseArgs({
			options: { features: { type: 'string', multiple: true }, 'out-dir': { type: 'string' } },
		});
		return { features: values.features && parseFeatures(values.features), outDir: values['out-dir'] };
	} catch (error) {
		console.error(`${(error as Error).message}\n${USAGE}`);
		process.exit(2);
	}
}

await main().catch((error: Error) => {
	console.error(error.message);
	process.exit(1);
});
