import { basename } from 'node:path';
import type { Plugin } from 'rolldown';

const MODULE_URL = /new URL\(\s*(['"])(\.[^'"]+\.ts)\1,\s*import\.meta\.url\s*\)/g;
const ANY_TYPESCRIPT_URL = /new URL\([^()]*\.ts\b[^()]*import\.meta\.url/;

/**
 * Makes a module that is only named by URL, such as a worker thread's in `new Worker(new URL('../data/worker.ts',
 * import.meta.url))`, an entry point of its own and puts the address of the built file in the URL's place. So the
 * source reads and runs as it stands, and no code needs to know whether it was built.
 */
export function threadEntries(): Plugin {
	return {
		name: 'thread-entries',
		transform(code, importer) {
			if (!code.includes('import.meta.url') || importer.includes('/node_modules/')) return null;
			const rewritten = code.replace(MODULE_URL, (_match, _quote, id: string) => {
				const reference = this.emitFile({ type: 'chunk', id, importer, name: basename(id, '.ts') });
				return `new URL(import.meta.ROLLUP_FILE_URL_${reference})`;
			});
			if (ANY_TYPESCRIPT_URL.test(rewritten)) {
				this.error(
					`${importer}: write new URL('./file.ts', import.meta.url) with a literal, or the build misses the file`,
				);
			}
			return rewritten === code ? null : { code: rewritten };
		},
	};
}
