import { cpSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { isArtefact, type Manifest } from './manifest.ts';

/** What a package has in its own folder; all else of its `files` is the repository's. */
const OWN: Readonly<Record<string, readonly string[]>> = { 'mtls-edge-gate': ['README.md'] };

/** Copies the repository's texts into the package's folder, where git ignores them: npm packs only what lies there. */
export function copyTexts(repository: string, folder: string, { name, files = [] }: Manifest): void {
	for (const path of files) {
		if (isArtefact(path) || OWN[name]?.includes(path)) continue;
		rmSync(join(folder, path), { recursive: true, force: true });
		cpSync(join(repository, path), join(folder, path), { recursive: true });
	}
}
