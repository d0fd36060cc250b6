/**
 * Runs the property tests of the gates and of their shared memory again and again with new seeds: paths and routes against naive models,
 * tokens against jose, buckets against exact arithmetic and over threads, breakers against the table of decided rules, heads against the
 * header contract, PROXY headers against an encoder. A new property test is included without a change here.
 */
import { spawn } from 'node:child_process';
import { globSync, readFileSync } from 'node:fs';
import { basename, join, resolve } from 'node:path';
import type { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import type { Random } from './random.ts';
import { Finding, type Tally, type Target } from './target.ts';

/** One test file with one seed. */
interface GatesCase {
	/** Path from the repository's root. */
	readonly file: string;
	readonly seed: number;
}

const ROOT = resolve(import.meta.dirname, '../..');
const PRELOAD = join(import.meta.dirname, 'property-seed.ts');

export class GatesTarget implements Target {
	readonly #tally: Tally;
	readonly #files = globSync(['test/unit/{gates,shared,data/proxy-protocol}/*.test.ts'], { cwd: ROOT })
		.filter((file) => readFileSync(join(ROOT, file), 'utf8').includes("from 'fast-check'"))
		.sort();
	#next = 0;

	constructor(tally: Tally) {
		this.#tally = tally;
	}

	async batch(random: Random): Promise<void> {
		await this.replay({ file: this.#files[this.#next++ % this.#files.length]!, seed: random.word() });
	}

	async replay(input: unknown): Promise<void> {
		const { file, seed } = input as GatesCase;
		const child = spawn(process.execPath, [`--import=${PRELOAD}`, '--test-reporter=dot', file], {
			cwd: ROOT,
			stdio: ['ignore', 'pipe', 'pipe', 'pipe'],
			env: { ...process.env, FUZZ_SEED: String(seed) },
		});
		const [code, output, errors, counts] = await Promise.all([
			new Promise<number>((done) => child.once('close', done)),
			...[child.stdout, child.stderr, child.stdio[3]].map((stream) => text(stream as Readable)),
		]);
		if (code !== 0) throw new Finding('gates', `${file} with seed ${seed}\n${output}${errors}`, input);
		for (const line of counts!.split('\n').filter((line) => line !== '')) {
			const { runs } = JSON.parse(line) as { runs: number };
			this.#tally.add(`gates, ${basename(file, '.test.ts')}`, ['property held'], runs);
		}
	}

	async close(): Promise<void> {}
}
