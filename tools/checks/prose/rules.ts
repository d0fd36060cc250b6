/**
 * The rules of prose for the pages. Vale's style in `House/` is their source, so that Vale (`../vale.ts`) and `../prose.ts` judge by the same ones.
 * Vale has no form for the share of passive sentences.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse } from 'yaml';

/** The placeholder for a piece of code: an upper-case word, so that a sentence may begin with it. For Vale it is a run of asterisks. */
export const CODE = 'CODE';
/** The share of a page's sentences that may be in the passive voice. */
export const PASSIVE_SHARE = 0.25;
/** Pages with fewer sentences have no share worth a judgement. */
export const PASSIVE_SENTENCES = 20;

export interface Ceiling {
	/** Words. */
	readonly max: number;
	/** A word, or a piece of code. */
	readonly token: RegExp;
}

export const SENTENCE = ceiling('Sentences');
export const CELL = ceiling('Cells');
export const BULLET = ceiling('Bullets');

const [subject] = rule('Subject').tokens;
/** A sentence that begins so and is no question hides its subject in a clause: "Who asks …", "What is left …". */
export const HIDDEN_SUBJECT = pattern(subject, '');

/** Phrases not to write, and what to write in their place. */
export const TICS = Object.entries<string>(rule('Tics').swap).map(
	([tic, advice]) => [pattern(tic, 'i'), advice] as const,
);

function ceiling(name: string): Ceiling {
	const { max, token } = rule(name);
	return { max, token: pattern(token, 'gu') };
}

function pattern(source: string, flags: string): RegExp {
	return new RegExp(source.replaceAll('\\*+', CODE), flags);
}

// biome-ignore lint/suspicious/noExplicitAny: Vale checks the shape.
function rule(name: string): any {
	return parse(readFileSync(join(import.meta.dirname, 'House', `${name}.yml`), 'utf8'));
}
