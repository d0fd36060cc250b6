/**
 * A command as data. Parsing, help, completion, the man page, docs/reference/command.md and the warnings about unknown variables
 * are all generated from these descriptions, so they cannot disagree.
 */

export type Environment = Readonly<Record<string, string | undefined>>;

/** The sections of the help text, in order. */
export const GROUPS = ['Serve', 'Set up', 'Inspect', 'Control a running proxy', 'Try it', 'Shell and help'] as const;
export type Group = (typeof GROUPS)[number];

/** Candidates for completion of a value: a path, the name of a command, or one word of a list. */
export type Candidates = 'file' | 'folder' | 'command' | readonly string[];

/** A value that its option does not accept. The message follows `--flag: ` and says what the value must be and what to write. */
export class Malformed extends Error {}

/** A command failed for a reason that its user can fix; the message needs no stack trace. */
export class CommandError extends Error {
	override readonly name = 'CommandError';
	readonly exitCode = 1;
}

/** An option that takes a value, from its flag or from its environment variable. The flag beats the variable. */
export interface ValueOption<T = unknown> {
	/** Without the dashes; absent if only the environment can set the value. */
	readonly flag?: string;
	readonly env?: string;
	/** Stands for the value in the help text. */
	readonly placeholder: string;
	/** Passed to `parse` if nothing else is given. Without a fallback, an optional value is `undefined`. */
	readonly fallback?: string;
	readonly required?: true;
	/** May be given several times; the value is an array then, empty without a fallback. */
	readonly repeatable?: true;
	/** One line, without a capital letter and a full stop. */
	readonly about: string;
	readonly candidates?: Candidates;
	/** @throws Malformed */
	readonly parse: (text: string) => T;
}

/** An option without a value. */
export interface Switch {
	readonly flag: string;
	readonly short?: string;
	readonly about: string;
}

/** A word without a flag. Operands are taken in the order of their description; only the last one may be repeatable. */
export interface Operand<T = unknown> {
	readonly placeholder: string;
	readonly about: string;
	/** A missing value is `undefined`, or an empty array if repeatable. */
	readonly optional?: true;
	readonly repeatable?: true;
	readonly candidates?: Candidates;
	/** @throws Malformed */
	readonly parse: (text: string) => T;
}

export type ValueOptions = Readonly<Record<string, ValueOption>>;
export type Switches = Readonly<Record<string, Switch>>;
export type Operands = Readonly<Record<string, Operand>>;

/** Switches of every command. */
export const COMMON_SWITCHES = {
	help: { flag: 'help', short: 'h', about: 'print the help text' },
	version: { flag: 'version', short: 'V', about: 'print the version and the body mode' },
} as const satisfies Switches;

/** The process as a command sees it; tests pass their own. */
export interface Context {
	readonly env: Environment;
	/** Writes to standard output. */
	readonly print: (text: string) => void;
	readonly stdout: NodeJS.WriteStream;
	readonly stderr: NodeJS.WriteStream;
	/** CPUs that may be used: `os.availableParallelism()`. */
	readonly cores: number;
	/** Absolute path of the module of the `proxy` command. */
	readonly mainPath: string;
	/** All commands: for help and completion, and for the names of all variables. */
	readonly commands: readonly Command[];
	readonly signals: Signals;
}

/** Receivers of the signals that `main.ts` handles from its first statement on. */
export interface Signals {
	/** The signal that asked for a reload before the supervisor existed. */
	reloadAsked: string | undefined;
	onReload: (signal: string) => void;
	onStop: (signal: string) => void;
	/** Closes an inspector that SIGUSR1 opened before a handler existed. */
	readonly closeInspector: () => void;
}

/** A command, without the types of its options. */
export interface Command {
	/** One word or two, as in `pki client`. */
	readonly name: string;
	readonly group: Group;
	/** One line, without a capital letter and a full stop. */
	readonly about: string;
	/** Paragraphs for its own help, the man page and docs/reference/command.md. */
	readonly details?: readonly string[];
	/** A whole command line. */
	readonly example: string;
	readonly operands: Operands;
	readonly options: ValueOptions;
	readonly switches: Switches;
	/** What its exit codes mean. 2 is wrong usage for every command. */
	readonly exitCodes: Readonly<Record<number, string>>;
	/**
	 * SIGHUP, SIGTERM and SIGINT go to `Context.signals`. In other commands these signals end the process, or the command
	 * handles them itself.
	 */
	readonly takesSignals?: true;
	/** Conflicts between values that are each valid; every message begins with `--flag: `. */
	readonly conflicts?: (values: never) => readonly string[];
	/**
	 * Imports its modules when called, so that other commands do not load them.
	 *
	 * @returns the exit code, or `undefined` if the process continues, and sets its own exit code.
	 */
	readonly run: (values: never, context: Context) => Promise<number | undefined>;
}

type Parsed<Source> = Source extends { readonly parse: (text: string) => infer T } ? T : never;

type OptionValue<Option> = Option extends { readonly repeatable: true }
	? readonly Parsed<Option>[]
	: Option extends { readonly fallback: string } | { readonly required: true }
		? Parsed<Option>
		: Parsed<Option> | undefined;

type OperandValue<Word> = Word extends { readonly repeatable: true }
	? readonly Parsed<Word>[]
	: Word extends { readonly optional: true }
		? Parsed<Word> | undefined
		: Parsed<Word>;

/** Every option, switch and operand by its key in the description. */
export type Values<
	Options extends ValueOptions,
	Flags extends Switches = Record<never, never>,
	Words extends Operands = Record<never, never>,
> = { readonly [Key in keyof Options]: OptionValue<Options[Key]> } & { readonly [Key in keyof Flags]: boolean } & {
	readonly [Key in keyof Words]: OperandValue<Words[Key]>;
};

interface Definition<Options extends ValueOptions, Flags extends Switches, Words extends Operands>
	extends Omit<Command, 'operands' | 'options' | 'switches' | 'conflicts' | 'run'> {
	readonly operands?: Words;
	readonly options?: Options;
	readonly switches?: Flags;
	readonly conflicts?: (values: Values<Options, Flags, Words>) => readonly string[];
	readonly run: (values: Values<Options, Flags, Words>, context: Context) => Promise<number | undefined>;
}

/** Describes a command; `run` gets the values in the types of their `parse`. */
export function defineCommand<
	const Options extends ValueOptions = Record<never, never>,
	const Flags extends Switches = Record<never, never>,
	const Words extends Operands = Record<never, never>,
>(definition: Definition<Options, Flags, Words>): Command {
	return { operands: {}, options: {}, switches: {}, ...definition };
}

/** The programs that npm installs: one for each body mode, with the same commands. */
export const PROGRAMS = ['proxy', 'proxy-streaming'] as const;

/** The command that runs if none is named. */
export const DEFAULT_COMMAND = 'run';

/** The words that call a command, for messages and examples: `proxy check`, and `proxy` for the default command. */
export function invocation({ name }: Pick<Command, 'name'>): string {
	return name === DEFAULT_COMMAND ? 'proxy' : `proxy ${name}`;
}
