import { createHash } from 'node:crypto';
import { copyFileSync, existsSync, globSync, mkdirSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { build } from './build/bundle.ts';

/**
 * The command as one bundle that overwrites each read (`poisoned_reads`): it starts in a fraction of the time that the sources need, and
 * tests start it hundreds of times. Its folder is named after the content, so Node compiles what has not changed only once.
 *
 * @param cache a folder below the repository's node_modules, where the bundle finds its dependencies.
 * @returns the path of the command.
 */
export async function buildTestCommand(
	repository: string,
	cache: string,
	features: readonly string[],
): Promise<string> {
	const root = join(repository, 'packages/proxy');
	mkdirSync(cache, { recursive: true });
	const fresh = join(cache, `new-${process.pid}`);
	// The command reads its version from the folder above, whole at any time: one of the other body mode may start now.
	copyFileSync(join(root, 'package.json'), `${fresh}.json`);
	renameSync(`${fresh}.json`, join(cache, 'package.json'));
	await build({ root, outDir: fresh, features: [...features, 'poisoned_reads'], inlinesInstalled: true });
	const hash = createHash('sha256');
	for (const file of globSync('**/*.*', { cwd: fresh }).sort())
		hash.update(file).update(readFileSync(join(fresh, file)));
	const folder = join(cache, hash.digest('hex').slice(0, 16));
	if (existsSync(folder)) rmSync(fresh, { recursive: true });
	else renameSync(fresh, folder);
	return join(folder, 'main.js');
}
