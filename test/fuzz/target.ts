import type { CorpusName } from './corpus.ts';
import type { Random } from './random.ts';

/** One fuzzer: generates inputs, tries them, and counts their outcomes. */
export interface Target {
	/** Tries a few inputs. Throws `Finding` for the first fault. */
	batch(random: Random): Promise<void>;
	/** Tries one input of the corpus. Throws `Finding`, too. */
	replay(input: unknown): Promise<void>;
	close(): Promise<void>;
}

/** A fault, with the input that shows it. */
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

/** Counts inputs of each kind, and their outcomes; one input may have several. */
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

	/** One line per kind, and one below it per outcome. */
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
