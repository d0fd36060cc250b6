import {
	type Candidates,
	COMMON_SWITCHES,
	type Command,
	type Operand,
	type Switch,
	type ValueOption,
} from '../command.ts';

/** Completion data, the same for all shells. */
interface CompletionModel {
	/** The candidates for the first word: commands of one word, and the first words of commands of two. */
	readonly firstWords: readonly Word[];
	/** By the first word of commands of two: what may follow it. */
	readonly families: ReadonlyMap<string, readonly Word[]>;
	readonly commands: readonly CommandModel[];
}

export interface Word {
	readonly word: string;
	readonly about: string;
}

export interface CommandModel {
	/** One word or two. */
	readonly name: string;
	readonly options: readonly Completed<ValueOption & { readonly flag: string }>[];
	readonly switches: readonly Switch[];
	readonly operands: readonly Completed<Operand>[];
}

/** An option or operand with what is proposed for its value; `undefined`: nothing. */
type Completed<Part> = Part & { readonly values: ValueSource | undefined };

export type ValueSource = Exclude<Candidates, 'command'>;

export function completionModel(commands: readonly Command[]): CompletionModel {
	const first = new Map<string, string>();
	const families = new Map<string, Word[]>();
	for (const { name, about } of commands) {
		const [word = '', second] = name.split(' ');
		if (second === undefined) first.set(word, about);
		else {
			const family = families.get(word) ?? [];
			family.push({ word: second, about });
			families.set(word, family);
			first.set(word, family.map((member) => member.word).join(', '));
		}
	}
	// The second word of a command of two is an argument of its own: only first words are proposed.
	const names = [...first.keys()];
	const completed = <Part extends { readonly candidates?: Candidates }>(part: Part): Completed<Part> => {
		return { ...part, values: part.candidates === 'command' ? names : part.candidates };
	};
	return {
		firstWords: Array.from(first, ([word, about]) => ({ word, about })),
		families,
		commands: commands.map(({ name, options, switches, operands }) => ({
			name,
			options: Object.values(options).filter(hasFlag).map(completed),
			switches: Object.values({ ...switches, ...COMMON_SWITCHES }),
			operands: Object.values(operands).map(completed),
		})),
	};
}

/** Without a flag, only the environment can set the value. */
function hasFlag(option: ValueOption): option is ValueOption & { readonly flag: string } {
	return option.flag !== undefined;
}

/** In single quotes, as the POSIX shells have them. */
export function quoted(text: string): string {
	return `'${text.replaceAll("'", "'\\''")}'`;
}
