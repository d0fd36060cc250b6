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
	readonly options: readonly FlagModel[];
	readonly switches: readonly Switch[];
	readonly operands: readonly OperandModel[];
}

interface FlagModel {
	readonly flag: string;
	readonly about: string;
	readonly placeholder: string;
	readonly repeatable: boolean;
	/** `undefined`: nothing can be proposed. */
	readonly values: ValueSource | undefined;
}

interface OperandModel {
	readonly placeholder: string;
	readonly repeatable: boolean;
	readonly values: ValueSource | undefined;
}

export type ValueSource = 'file' | 'folder' | readonly string[];

export function completionModel(commands: readonly Command[]): CompletionModel {
	const names = commands.map(({ name }) => name);
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
	return {
		firstWords: Array.from(first, ([word, about]) => ({ word, about })),
		families,
		commands: commands.map((command) => ofCommand(command, names)),
	};
}

function ofCommand({ name, options, switches, operands }: Command, names: readonly string[]): CommandModel {
	return {
		name,
		options: Object.values(options).flatMap((option) => ofOption(option, names)),
		switches: Object.values({ ...switches, ...COMMON_SWITCHES }),
		operands: Object.values(operands).map((operand) => ofOperand(operand, names)),
	};
}

/** Empty if only the environment can set the value. */
function ofOption(option: ValueOption, names: readonly string[]): FlagModel[] {
	const { flag, about, placeholder, repeatable, candidates } = option;
	return flag === undefined
		? []
		: [{ flag, about, placeholder, repeatable: repeatable === true, values: sourceOf(candidates, names) }];
}

function ofOperand({ placeholder, repeatable, candidates }: Operand, names: readonly string[]): OperandModel {
	return { placeholder, repeatable: repeatable === true, values: sourceOf(candidates, names) };
}

/** The second word of a command of two is an argument of its own: only first words are proposed. */
function sourceOf(candidates: Candidates | undefined, names: readonly string[]): ValueSource | undefined {
	if (candidates !== 'command') return candidates;
	return [...new Set(names.map((name) => name.split(' ')[0]!))];
}

/** In single quotes, as the POSIX shells have them. */
export function quoted(text: string): string {
	return `'${text.replaceAll("'", "'\\''")}'`;
}
