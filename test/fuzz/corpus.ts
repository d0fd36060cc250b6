/** Interesting inputs, one small JSON file each, by target. `npm test` replays them; the fuzzers mutate them. */
import { createHash } from 'node:crypto';
import { globSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';

export type CorpusName = 'parser' | 'http1' | 'http2' | 'http2-client' | 'gates';

export interface Kept<Input> {
	/** File name without `.json`: the input's subject. */
	readonly name: string;
	readonly input: Input;
}

const CORPUS = join(import.meta.dirname, 'corpus');

/** @throws Error if the corpus is empty: replaying nothing proves nothing. */
export function readCorpus<Input>(target: CorpusName): Kept<Input>[] {
	const files = globSync(join(CORPUS, target, '*.json')).sort();
	if (files.length === 0) throw new Error(`the corpus for ${target} is empty`);
	return files.map((file) => ({ name: basename(file, '.json'), input: JSON.parse(readFileSync(file, 'utf8')) }));
}

/** Stores an input under a name that begins with `about`. @returns the file's path. */
export function keep(target: CorpusName, about: string, input: unknown): string {
	const text = `${JSON.stringify(input, undefined, '  ')}\n`;
	const digest = createHash('sha256').update(text).digest('hex').slice(0, 8);
	const words = about
		.toLowerCase()
		.replace(/[^a-z0-9]+/g, '-')
		.replace(/^-|-$/g, '')
		.slice(0, 80);
	const file = join(CORPUS, target, `${words}-${digest}.json`);
	mkdirSync(join(CORPUS, target), { recursive: true });
	writeFileSync(file, text);
	return file;
}
