import { parseArgs } from 'node:util';
import { suggest } from '@mtls-edge-proxy/gate/words/suggest.ts';
import { quote } from '../config/wording.ts';
import {
	COMMON_SWITCHES,
	type Command,
	DEFAULT_COMMAND,
	type Environment,
	invocation,
	Malformed,
	type Operand,
	type ValueOption,
} from './command.ts';

/** The parsed command line. */
type CommandLine =
	| { readonly kind: 'run'; readonly command: Command; readonly values: Readonly<Record<string, unknown>> }
	/** `undefined`: help on all commands. Several: commands that share their first word. */
	| { readonly kind: 'help'; readonly of: readonly Command[] | undefined }
	| { readonly kind: 'version' };

/** The command was called wrongly. The message has one line for every problem; the exit code for it is 2. */
export class UsageError extends Error {
	override readonly name = 'UsageError';
	readonly exitCode = 2;
	readonly problems: readonly string[];

	constructor(problems: readonly string[]) {
		super(problems.join('\n'));
		this.problems = problems;
	}
}

/**
 * Reads the command line. A flag beats its environment variable, and an environment variable that is
 * empty counts as not set. A flag that is given twice is an error, unless it is repeatable, because the
 * intended value is unclear.
 *
 * @param argv without the runtime and the script: `process.argv.slice(2)`.
 * @throws UsageError naming every flag and variable that cannot be used.
 */
export function parseCommandLine(argv: readonly string[], env: Environment, commands: readonly Command[]): CommandLine {
	// The command comes first: its options and their values can only be distinguished once it is known.
	const words = leadingWords(argv);
	const isNamed = words.length > 0;
	const named = (wanted: string | undefined) => commands.find(({ name }) => name === wanted);
	const command = isNamed ? (named(words.join(' ')) ?? named(words[0])) : named(DEFAULT_COMMAND);
	if (command === undefined) return withoutCommand(argv, words, commands);
	const given = scan(argv.slice(isNamed ? command.name.split(' ').length : 0), command, commands);
	if (given.switches.has('help')) return { kind: 'help', of: isNamed ? [command] : undefined };
	if (given.switches.has('version') && given.problems.length === 0) return { kind: 'version' };
	return { kind: 'run', command, values: readValues(given, env) };
}

/**
 * Finds the commands for `proxy help WORDS`: the command with this name, or all that begin with it.
 *
 * @throws UsageError if there is none.
 */
export function findCommands(words: readonly string[], commands: readonly Command[]): readonly Command[] {
	const name = words.join(' ');
	const found = commands.filter((command) => command.name === name || command.name.startsWith(`${name} `));
	if (found.length === 0) throw unknownCommand(words, commands);
	return found;
}

function leadingWords(argv: readonly string[]): string[] {
	const end = argv.findIndex((word) => word === '' || word.startsWith('-'));
	return argv.slice(0, end === -1 ? MAX_WORDS : Math.min(end, MAX_WORDS));
}

/** Most words in the name of a command. */
const MAX_WORDS = 2;

/** The first word of a two-word command accepts `--help`. */
function withoutCommand(argv: readonly string[], words: readonly string[], commands: readonly Command[]): CommandLine {
	const [first = ''] = words;
	const inFamily = commands.filter(({ name }) => name.startsWith(`${first} `));
	if (inFamily.length === 0 || words.length > 1) throw unknownCommand(words, commands);
	if (argv.slice(1).some((word) => word === '--help' || word === '-h')) return { kind: 'help', of: inFamily };
	const are = inFamily.length > 1 ? 'there are' : 'there is';
	throw new UsageError([`proxy ${first}: needs a second word; ${are} ${inFamily.map(invocation).join(', ')}`]);
}

function unknownCommand(words: readonly string[], commands: readonly Command[]): UsageError {
	const [first = ''] = words;
	const family = commands.filter(({ name }) => name.startsWith(`${first} `)).map(({ name }) => name);
	const shown = family.length > 0 ? words.join(' ') : first;
	const named = commands.map(({ name }) => name);
	// The first word may be enough to guess the intended command: `proxy pik client`.
	const meant =
		suggest(words.join(' '), named) ?? suggest(first, named) ?? (family.length === 1 ? family[0] : undefined);
	const remedy = meant === undefined ? 'see proxy --help' : `did you mean proxy ${meant}?`;
	return new UsageError([`unknown command ${quote(shown)}; ${remedy}`]);
}

/** The command line by flags, before values are parsed. */
interface Given {
	readonly command: Command;
	readonly values: ReadonlyMap<string, readonly string[]>;
	/** The flags that were given. */
	readonly switches: ReadonlySet<string>;
	readonly words: readonly string[];
	readonly problems: readonly string[];
}

function scan(argv: readonly string[], command: Command, commands: readonly Command[]): Given {
	const known = parserOptions(command);
	const repeatable = new Set(Object.values(command.options).map(({ flag, repeatable }) => repeatable && flag));
	const values = new Map<string, string[]>();
	const switches = new Set<string>();
	const words: string[] = [];
	const problems: string[] = [];
	let unknownAt = Number.NaN;
	// Strict, but by hand: the strict mode of parseArgs stops at the first error and names neither a near miss nor a
	// remedy.
	const { tokens } = parseArgs({ args: [...argv], options: known, strict: false, tokens: true });
	for (const token of tokens) {
		if (token.kind === 'option-terminator') continue;
		if (token.kind === 'positional') {
			if (words.length < capacity(command)) words.push(token.value);
			// A word after an unknown option is most likely its value: one mistake, one message.
			else if (token.index !== unknownAt + 1)
				problems.push(`unexpected argument ${quote(token.value)}; ${remedyForWord(token.value, command, commands)}`);
		} else if (!Object.hasOwn(known, token.name)) {
			const remedy = remedyForUnknown(token.name, Object.keys(known), command, commands);
			problems.push(`unknown option ${quote(token.rawName)}; ${remedy}`);
			unknownAt = token.index;
		} else if (known[token.name]!.type === 'boolean') {
			if (token.value === undefined) switches.add(token.name);
			else problems.push(`--${token.name}: takes no value (got ${quote(token.value)}); leave it out`);
		} else if (token.value === undefined || (!token.inlineValue && token.value.startsWith('-'))) {
			problems.push(`--${token.name}: needs a value; write --${token.name}=VALUE`);
		} else {
			const before = values.get(token.name);
			if (before === undefined) values.set(token.name, [token.value]);
			else if (repeatable.has(token.name)) before.push(token.value);
			else {
				const [first, second] = [before[0]!, token.value].map(quote);
				problems.push(`--${token.name}: is given twice (${first} and ${second}); give it once`);
			}
		}
	}
	return { command, values, switches, words, problems };
}

function parserOptions({ options, switches }: Command) {
	const known: Record<string, { type: 'string' | 'boolean'; short?: string }> = {};
	for (const { flag } of Object.values(options)) if (flag !== undefined) known[flag] = { type: 'string' };
	for (const { flag, short } of Object.values({ ...switches, ...COMMON_SWITCHES })) {
		known[flag] = { type: 'boolean', ...(short !== undefined && { short }) };
	}
	return known;
}

/** How many words may follow the command. */
function capacity({ operands }: Command): number {
	const all = Object.values(operands);
	return all.at(-1)?.repeatable ? Number.POSITIVE_INFINITY : all.length;
}

function remedyForWord(word: string, command: Command, commands: readonly Command[]): string {
	if (commands.some(({ name }) => name.split(' ')[0] === word)) return `a command comes first: proxy ${word}`;
	const placeholders = Object.values(command.operands).map(({ placeholder }) => placeholder);
	if (placeholders.length > 0) return `${invocation(command)} takes ${placeholders.join(' ')} and options`;
	return `every value needs its flag before it, see ${invocation(command)} --help`;
}

/** More names would not help. */
const MAX_OWNERS = 3;

function remedyForUnknown(
	name: string,
	known: readonly string[],
	command: Command,
	commands: readonly Command[],
): string {
	const owners = commands.filter((other) => flagsOf(other).includes(name));
	const calls = owners.map((owner) => `${invocation(owner)} --${name}`).join(', ');
	if (owners.length === 1) return `it belongs to the ${owners[0]!.name}: ${calls}`;
	if (owners.length > 0 && owners.length <= MAX_OWNERS) return `it belongs to others: ${calls}`;
	const meant = suggest(name, known);
	return meant === undefined ? `see ${invocation(command)} --help` : `did you mean --${meant}?`;
}

/** The flags of the command, without the common ones. */
function flagsOf({ options, switches }: Command): (string | undefined)[] {
	return [...Object.values(options), ...Object.values(switches)].map(({ flag }) => flag);
}

/** The value of every option, switch and operand, by its key in the description. */
function readValues(given: Given, env: Environment): Readonly<Record<string, unknown>> {
	const { command, words } = given;
	const problems = [...given.problems];
	const values: Record<string, unknown> = {};
	/** @param missing the message if there is no text, for a value that must be given. */
	const take = (key: string, of: ValueOption | Operand, source: string, texts: readonly string[], missing?: string) => {
		try {
			if (texts.length === 0 && missing !== undefined) throw new Malformed(missing);
			const parsed = texts.map(of.parse);
			values[key] = of.repeatable ? parsed : parsed[0];
		} catch (error) {
			if (!(error instanceof Malformed)) throw error;
			problems.push(`${source}: ${error.message}`);
		}
	};
	for (const [key, option] of Object.entries(command.options)) {
		const [source, texts] = sourceOf(option, given.values, env);
		const missing = `is needed; write ${source}=${option.placeholder}`;
		take(key, option, source, texts, option.required && missing);
	}
	for (const [key, { flag }] of Object.entries(command.switches)) values[key] = given.switches.has(flag);
	for (const [index, [key, operand]] of Object.entries(command.operands).entries()) {
		const texts = operand.repeatable ? words.slice(index) : words.slice(index, index + 1);
		const missing = `is missing; write ${invocation(command)} ${operand.placeholder}`;
		take(key, operand, operand.placeholder, texts, operand.optional ? undefined : missing);
	}
	if (problems.length === 0) problems.push(...(command.conflicts?.(values as never) ?? []));
	if (problems.length > 0) throw new UsageError(problems);
	return values;
}

/** @returns the name for messages, and the texts: empty if nothing is given and there is no fallback. */
function sourceOf(
	{ flag, env: variable, fallback }: ValueOption,
	flags: ReadonlyMap<string, readonly string[]>,
	env: Environment,
): [source: string, texts: readonly string[]] {
	const byFlag = flag === undefined ? undefined : flags.get(flag);
	if (byFlag !== undefined) return [`--${flag}`, byFlag];
	const byVariable = variable === undefined ? undefined : env[variable];
	if (variable !== undefined && byVariable !== undefined && byVariable !== '') return [variable, [byVariable]];
	return [flag === undefined ? String(variable) : `--${flag}`, fallback === undefined ? [] : [fallback]];
}
