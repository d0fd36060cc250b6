import type { CorpusName } from './corpus.ts';
import type { Random } from './random.ts';

/** One fuzzer: makes inputs, tries them, counts what came of them. */
export interface Target {
	/** Tries a few inputs. Throws `Finding` for the first one that something is wrong with. */
	batch(random: Random): Promise<void>;
	/** Tries one input of the corpus. Throws `Finding`, too. */
	replay(input: unknown): Promise<void>;
	close(): Promise<void>;
}

/** Something that must not be, with the input that shows it. */
export class Finding extends Error {
	readonly corpus: CorpusName;
	readonly input: unknown;

	constructor(corpus: CorpusName, what: string, input: unknown) {
		super(what);
		this.name = 'Finding';
		this.corpus = corpus;
		this.input = input;
	}
}

/** How many inputs of each kind were tried, and how they ended; one input may end in several ways. */
export class Tally {
	readonly #kinds = new Map<string, { inputs: number; outcomes: Map<string, number> }>();

	add(kind: string, outcomes: readonly string[], inputs = 1): void {
		const known = this.#kinds.get(kind) ?? { inputs: 0, outcomes: new Map<string, number>() };
		this.#kinds.set(kind, known);
		known.inputs += inputs;
		for (const outcome of outcomes) known.outcomes.set(outcome, (known.outcomes.get(outcome) ?? 0) + 1);
	}

	get inputs(): number {
		return [...this.#kinds.values()].reduce((sum, { inputs }) => sum + inputs, 0);
	}

	/** One line for each kind, and one below it for each of its outcomes. */
	toString(): string {
		return [...this.#kinds]
			.sort(([a], [b]) => (a < b ? -1 : 1))
			.flatMap(([kind, { inputs, outcomes }]) => [
				`${String(inputs).padStart(10)}  ${kind}`,
				...[...outcomes]
					.sort(([, a], [, b]) => b - a)
					.map(([outcome, count]) => `${String(count).padStart(18)}  ${outcome}`),
			])
			.join('\n');
	}
}
