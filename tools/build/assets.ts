import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { basename, dirname, resolve } from 'node:path';
import type { Plugin } from 'rolldown';

const FILE_URL = /new URL\(\s*(['"])(\.[^'"]+\.(?:js|css))\1,\s*import\.meta\.url\s*\)/g;
const PACKAGE_URL = /import\.meta\.resolve\(\s*(['"])([^'"]+)\1\s*\)/g;

/**
 * Files that are read when the command runs and not imported, such as the script of the status page: those of the source, named by
 * `new URL('./page.css', import.meta.url)`, and those of packages, named by `import.meta.resolve('uplot/dist/uPlot.min.css')`. They
 * are put next to the bundle, and their addresses there in the place of these expressions.
 *
 * @param files gets the paths of all of them, for their licences.
 */
export function assetFiles(files: Set<string>): Plugin {
	return {
		name: 'asset-files',
		transform(code, importer) {
			if (!code.includes('import.meta.') || importer.includes('/node_modules/')) return null;
			const emit = (path: string) => {
				files.add(path);
				return this.emitFile({ type: 'asset', name: basename(path), source: readFileSync(path, 'utf8') });
			};
			const rewritten = code
				.replace(FILE_URL, (_match, _quote, name: string) => {
					return `new URL(import.meta.ROLLUP_FILE_URL_${emit(resolve(dirname(importer), name))})`;
				})
				.replace(PACKAGE_URL, (_match, _quote, specifier: string) => {
					return `import.meta.ROLLUP_FILE_URL_${emit(createRequire(importer).resolve(specifier))}`;
				});
			return rewritten === code ? null : { code: rewritten };
		},
	};
}
