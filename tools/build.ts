/**
 * Builds dist/, the command and the library as they are published.
 *
 *   npm run build                              collected body mode
 *   npm run build -- --features boxed_body     streaming body mode
 *   npm run build -- --out-dir /some/folder
 */
import { resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { build } from './build/bundle.ts';
import { FEATURES, parseFeatures } from './build/features.ts';

const USAGE = `usage: npm run build -- [--features NAME,…] [--out-dir FOLDER]\nfeatures: ${FEATURES.join(', ')}`;

async function main(): Promise<void> {
	const { features, outDir } = readCommandLine();
	const root = resolve(import.meta.dirname, '..');
	const { chunks, bytes } = await build({ root, outDir: resolve(root, outDir), features });
	const names = chunks.map(({ fileName }) => fileName).sort();
	console.log(
		`${outDir}/ (features: ${features.join(', ') || 'none'}): ${names.join(', ')}; ${Math.ceil(bytes / 1024)} KiB`,
	);
}

function readCommandLine(): { features: string[]; outDir: string } {
	try {
		// `npm run build --features=x`, without the `--`: npm keeps the option to itself, and says so only here.
		if (process.env.npm_config_features) throw new Error("npm passes on only what stands behind a '--'");
		const { values } = parseArgs({
			options: { features: { type: 'string', multiple: true }, 'out-dir': { type: 'string', default: 'dist' } },
		});
		return { features: parseFeatures(values.features ?? []), outDir: values['out-dir'] };
	} catch (error) {
		console.error(`${(error as Error).message}\n${USAGE}`);
		process.exit(2);
	}
}

await main().catch((error: Error) => {
	console.error(error.message);
	process.exit(1);
});
