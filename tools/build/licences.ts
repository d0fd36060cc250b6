/** The licences of what is bundled: their terms ask that the text goes along with the code. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

const LICENCE_FILE = /^(licen[cs]e|copying|notice)/i;
const PACKAGE_FOLDER = /^(.*[/\\]node_modules[/\\](?:@[^/\\]+[/\\])?[^/\\]+)[/\\]/;

/** The folders of the packages that the modules with these ids come from. */
export function bundledPackages(moduleIds: Iterable<string>): string[] {
	const folders = new Set<string>();
	for (const id of moduleIds) {
		const folder = PACKAGE_FOLDER.exec(id)?.[1];
		if (folder) folders.add(folder);
	}
	return [...folders].sort();
}

/**
 * One text with name, version and licence of each package.
 * @throws {Error} where a package has neither a licence file nor a declared licence
 */
export function licenceText(packageFolders: readonly string[]): string {
	const sections = packageFolders.map((folder) => {
		const { name, version, license } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'));
		const files = readdirSync(folder).filter((file) => LICENCE_FILE.test(file));
		if (files.length === 0 && !license) throw new Error(`${name} is bundled, and its licence is unknown`);
		const texts = files.map((file) => readFileSync(join(folder, file), 'utf8').trim());
		return [`${name} ${version} (${license ?? 'see below'})`, ...texts].join('\n\n');
	});
	return `${['This software contains the following packages.', ...sections].join(`\n\n${'-'.repeat(80)}\n\n`)}\n`;
}
