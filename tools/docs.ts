/**
 * Writes what is made from the code: the JSON Schema of the configuration, the tables in the pages of docs/, the man page and docs/reference/command.md.
 *
 *   npm run docs
 *
 * In a page the tables are between `<!-- made from the code: NAME -->` and `<!-- end -->`; all else is written by hand. A test compares
 * the files with what this would write.
 */
import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { generatedFiles } from './docs/files.ts';

const root = resolve(import.meta.dirname, '..');

for (const { path, text } of generatedFiles(root)) {
	mkdirSync(dirname(join(root, path)), { recursive: true });
	writeFileSync(join(root, path), text);
}
