import { cpSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { type Built, build } from './bundle.ts';
import { type Artefact, artefacts, isArtefact, type Manifest, readManifest } from './manifest.ts';

export interface BuiltArtefact extends Built {
	readonly artefact: Artefact;
	readonly features: readonly string[];
}

/** Makes a package as it is published: each of its artefacts, and the texts that go with them. */
export async function buildPackage(repository: string, folder: string): Promise<BuiltArtefact[]> {
	const root = join(repository, folder);
	const manifest = readManifest(root);
	const built: BuiltArtefact[] = [];
	for (const [artefact, features] of artefacts(manifest)) {
		built.push({ artefact, features, ...(await build({ root, outDir: join(root, artefact), features, artefact })) });
	}
	copyTexts(repository, root, manifest);
	return built;
}

/** What a package has in its own folder; all else of its `files` is the repository's. */
const OWN: Readonly<Record<string, readonly string[]>> = { 'mtls-edge-gate': ['README.md'] };

/** Copies the repository's texts into the package's folder, where git ignores them: npm packs only what lies there. */
function copyTexts(repository: string, folder: string, { name, files = [] }: Manifest): void {
	for (const path of files) {
		if (isArtefact(path) || OWN[name]?.includes(path)) continue;
		rmSync(join(folder, path), { recursive: true, force: true });
		cpSync(join(repository, path), join(folder, path), { recursive: true });
	}
}
