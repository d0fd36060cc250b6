import { spawnSync } from 'node:child_process';
import { existsSync, globSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';

const TYPESCRIPT_SPECIFIER = /((?:from|import)\s*\(?\s*['"]\.[^'"]*)\.ts(['"])/g;

const JAVASCRIPT_SPECIFIER = /(?:from|import)\s*\(?\s*['"](\.[^'"]*)\.js['"]/g;

/**
 * Writes the .d.ts files of the entry points, and of what those refer to.
 * @param entries their names, as in `embed/node`
 */
export function writeDeclarations(root: string, outDir: string, entries: readonly string[]): void {
	const tsc = resolve(import.meta.dirname, '../../node_modules/typescript/bin/tsc');
	const args = ['--project', join(root, 'tsconfig.declarations.json'), '--outDir', outDir];
	const { status, stdout } = spawnSync(process.execPath, [tsc, ...args], { encoding: 'utf8' });
	if (status !== 0) throw new Error(`the type declarations could not be written:\n${stdout}`);
	for (const file of globSync('**/*.d.ts', { cwd: outDir })) {
		const path = join(outDir, file);
		writeFileSync(path, withJavaScriptSpecifiers(readFileSync(path, 'utf8')));
	}
	const published = reachable(entries.map((name) => resolve(outDir, `${name}.d.ts`)));
	for (const file of globSync('**/*.d.ts', { cwd: outDir })) {
		if (!published.has(resolve(outDir, file))) rmSync(join(outDir, file));
	}
}

/** The declaration files that a user's compiler can come to from these. */
function reachable(files: readonly string[], found: Set<string> = new Set()): Set<string> {
	for (const file of files) {
		if (found.has(file) || !existsSync(file)) continue;
		found.add(file);
		const specifiers = readFileSync(file, 'utf8').matchAll(JAVASCRIPT_SPECIFIER);
		reachable(
			[...specifiers].map(([, specifier]) => resolve(dirname(file), `${specifier}.d.ts`)),
			found,
		);
	}
	return found;
}

/** tsc leaves `./x.ts` in declarations, a file that is not published; `./x.js` finds `./x.d.ts` in every TypeScript. */
function withJavaScriptSpecifiers(declarations: string): string {
	return declarations.replace(TYPESCRIPT_SPECIFIER, '$1.js$2');
}
