/**
 * Continues where the tests stop: generates inputs, tries them, and counts their outcomes.
 *
 *   npm run fuzz -- --minutes 10                      all targets, each for its share of the time
 *   npm run fuzz -- --minutes 1 --target parser       only this one: parser, reader, http1, http2, http2-client, gates
 *   npm run fuzz -- --seed 4711                       the inputs of an earlier run, as many as there is time for
 *   npm run fuzz -- --replay test/fuzz/corpus/…       these inputs, once
 *
 * Exit code 1 if something was found. Findings are stored in the corpus folder, so that `npm test` fails, too, until they are fixed.
 */
import { readFileSync } from 'node:fs';
import { basename, dirname } from 'node:path';
import { parseArgs } from 'node:util';
import { keep } from './corpus.ts';
import { GatesTarget } from './gates.ts';
import { HTTP1 } from './http1.ts';
import { HTTP2 } from './http2.ts';
import { Http2ClientTarget } from './http2-client.ts';
import { InboundTarget } from './inbound-target.ts';
import { ParserTarget } from './parser.ts';
import { freshSeed, Random } from './random.ts';
import { RequestReaderTarget } from './request-reader.ts';
import { Finding, Tally, type Target } from './target.ts';

const BODY_MODES = ['collected', 'streaming'] as const;
const TARGETS: Readonly<Record<string, (tally: Tally) => Target[]>> = {
	parser: (tally) => [new ParserTarget(tally)],
	reader: (tally) => [new RequestReaderTarget(tally)],
	http1: (tally) => BODY_MODES.map((mode) => new InboundTarget(HTTP1, tally, mode)),
	http2: (tally) => BODY_MODES.map((mode) => new InboundTarget(HTTP2, tally, mode)),
	'http2-client': (tally) => [new Http2ClientTarget(tally)],
	gates: (tally) => [new GatesTarget(tally)],
};

const MINUTE_MS = 60_000;

interface Options {
	readonly minutes: number;
	readonly seed: number;
	readonly targets: readonly string[];
	readonly replay: readonly string[];
}

async function main(): Promise<void> {
	const { minutes, seed, targets, replay } = readOptions();
	const tally = new Tally();
	const begun = performance.now();
	let findings = 0;
	const report = () => {
		const seconds = Math.round((performance.now() - begun) / 1000);
		console.log(`\n${tally}\n\n${tally.inputs} inputs in ${seconds} s with --seed ${seed}, ${findings} findings`);
		process.exitCode = findings === 0 ? 0 : 1;
	};
	process.once('SIGINT', () => {
		report();
		process.exit();
	});

	if (replay.length > 0) {
		for (const file of replay) findings += await replayed(file, tally);
		return report();
	}
	console.log(`fuzzing ${targets.join(', ')} for ${minutes} min with --seed ${seed}`);
	const fuzzers = targets.flatMap((name) => TARGETS[name]!(tally));
	for (const fuzzer of fuzzers) findings += await fuzzed(fuzzer, seed, (minutes * MINUTE_MS) / fuzzers.length);
	report();
}

/** Tries inputs until the time is over or something is found. @returns the number of findings. */
async function fuzzed(fuzzer: Target, seed: number, ms: number): Promise<number> {
	const until = performance.now() + ms;
	try {
		for (let round = 0; performance.now() < until; round++) await fuzzer.batch(new Random(seed, round));
		return 0;
	} catch (error) {
		tell(error, true);
		return 1;
	} finally {
		await fuzzer.close();
	}
}

async function replayed(file: string, tally: Tally): Promise<number> {
	const name = basename(dirname(file));
	const fuzzers = TARGETS[name]?.(tally) ?? refuse(`${file} is in no folder of a target`);
	try {
		for (const fuzzer of fuzzers) await fuzzer.replay(JSON.parse(readFileSync(file, 'utf8')));
		return 0;
	} catch (error) {
		tell(error, false);
		return 1;
	} finally {
		for (const fuzzer of fuzzers) await fuzzer.close();
	}
}

function tell(error: unknown, isNew: boolean): void {
	if (!(error instanceof Finding)) throw error;
	console.error(`\nFOUND in ${error.corpus}: ${error.message}`);
	if (isNew) console.error(`kept as ${keep(error.corpus, 'finding', error.input)}`);
}

function readOptions(): Options {
	try {
		const { values, positionals } = parseArgs({
			options: {
				minutes: { type: 'string', default: '1' },
				target: { type: 'string', multiple: true },
				seed: { type: 'string' },
				replay: { type: 'boolean', default: false },
			},
			allowPositionals: true,
		});
		const minutes = Number(values.minutes);
		const seed = values.seed === undefined ? freshSeed() : Number(values.seed);
		const targets = values.target ?? Object.keys(TARGETS);
		const unknown = targets.find((name) => !(name in TARGETS));
		if (!(minutes > 0)) refuse(`--minutes ${values.minutes} is no time`);
		if (!Number.isSafeInteger(seed) || seed < 0) refuse(`--seed ${values.seed} is no whole number`);
		if (unknown !== undefined) refuse(`there is no target '${unknown}'`);
		if (values.replay !== positionals.length > 0) refuse('--replay wants files, and nothing else does');
		return { minutes, seed, targets, replay: positionals };
	} catch (error) {
		refuse((error as Error).message);
	}
}

function refuse(message: string): never {
	console.error(
		`${message}\nusage: npm run fuzz -- [--minutes N] [--target ${Object.keys(TARGETS).join('|')}]… [--seed N] [--replay FILE…]`,
	);
	process.exit(2);
}

await main();
