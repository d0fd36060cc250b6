import { join } from 'node:path';
import { type Built, build } from './bundle.ts';
import { type Artefact, artefacts, readManifest } from './manifest.ts';
import { copyTexts } from './texts.ts';

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
