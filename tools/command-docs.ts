/**
 * Writes what is made from the table of commands (packages/proxy/src/cli/commands.ts): the man pages and docs/reference/command.md.
 *
 *   node tools/command-docs.ts
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { COMMANDS } from '../packages/proxy/src/cli/commands.ts';
import { manPage, OTHER_NAME } from './command-docs/man.ts';
import { commandPage } from './command-docs/markdown.ts';

const root = resolve(import.meta.dirname, '..');

/** By path from the package's folder. */
export function commandDocs(): Readonly<Record<string, string>> {
	const { version } = JSON.parse(readFileSync(resolve(root, 'packages/proxy/package.json'), 'utf8'));
	return {
		'man/proxy.1': manPage(COMMANDS, version),
		'man/proxy-streaming.1': OTHER_NAME,
		'docs/reference/command.md': commandPage(COMMANDS),
	};
}

if (import.meta.main) {
	for (const [path, text] of Object.entries(commandDocs())) writeFileSync(resolve(root, path), text);
}
