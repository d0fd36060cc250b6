import { parseArgs } from 'node:util';
import { quote } from '../config/wording.ts';
import { suggest } from '../shared/suggest.ts';
import {
	type Address,
	CHECK_SWITCHES,
	COMMON_SWITCHES,
	DEMO_OPTIONS,
	DEMO_SWITCHES,
	type LogFormat,
	Malformed,
	RUN_OPTIONS,
	type Switch,
	type ValueOption,
} from './options.ts';

/** What the command line asks for. */
export type CommandLine =
	| {
			readonly command: 'run';
			/** Path of the configuration file, relative to the working directory. */
			readonly config: string;
			readonly bind: Address;
			readonly metricsBind: Address;
			/** Worker threads, at least 1. */
			readonly workers: number;
			readonly logFormat: LogFormat;
			/** For `parseLogFilter`. */
			readonly rustLog: string;
	  }
	| {
			/** Finds what `run`, called in the same way, would refuse or warn of. */
			readonly command: 'check';
			readonly config: string;
			readonly workers: number;
			readonly rustLog: string;
			/** One JSON object instead of lines for people. */
			readonly json: boolean;
	  }
	| {
			readonly command: 'demo';
			/** Exit after the example requests instead of serving until a signal. */
			readonly once: boolean;
			readonly dir: string;
	  }
	/** The example service of specification 4.4; its settings are the `EMBED_*` variables. */
	| { readonly command: 'embed-demo' }
	| { readonly command: 'help' }
	| { readonly command: 'version' };

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

export type Environment = Readonly<Record<string, string | undefined>>;

/**
 * Reads the command line (specification 2.2). A flag beats its environment variable, and an environment variable that is
 * empty counts as not set. A flag that is given twice is an error: which of the two was meant is anybody's guess.
 *
 * @param argv without the runtime and the script: `process.argv.slice(2)`.
 * @param cores what `--workers auto` stands for: `os.availableParallelism()`.
 * @throws UsageError naming every flag and variable that cannot be used.
 */
export function parseCommandLine(argv: readonly string[], env: Environment, cores: number): CommandLine {
	// The command comes first, as its options cannot be told from their values before it is known.
	const [first = ''] = argv;
	if (first === '' || first.startsWith('-')) return parseRun(argv, env, cores);
	if (first === 'check') return parseCheck(argv.slice(1), env, cores);
	if (first === 'demo') return parseDemo(argv.slice(1), env);
	if (first === 'embed-demo') return parseEmbedDemo(argv.slice(1));
	throw new UsageError([`unknown command ${quote(first)}; ${didYouMean(first, COMMANDS, 'proxy ')}`]);
}

const COMMANDS = ['check', 'demo', 'embed-demo'];

function parseRun(argv: readonly string[], env: Environment, cores: number): CommandLine {
	const given = scan(argv, RUN_OPTIONS, {});
	const early = helpOrVersion(given);
	if (early !== undefined) return early;
	return { command: 'run', ...readRunValues(given, env, cores) };
}

/** Takes the options of `run`, so that it can stand before the same command line. */
function parseCheck(argv: readonly string[], env: Environment, cores: number): CommandLine {
	const given = scan(argv, RUN_OPTIONS, CHECK_SWITCHES);
	const early = helpOrVersion(given);
	if (early !== undefined) return early;
	const { config, workers, rustLog } = readRunValues(given, env, cores);
	return { command: 'check', config, workers, rustLog, json: given.switches.has('json') };
}

function readRunValues(given: Given, env: Environment, cores: number) {
	const { workers, ...values } = readValues(RUN_OPTIONS, given, env);
	if (overlap(values.bind, values.metricsBind)) {
		const port = values.bind.port;
		throw new UsageError([`--metrics-bind: is the address of --bind (port ${port}); give one of them another port`]);
	}
	return { ...values, workers: workers === 'auto' ? cores : workers };
}

/** Whether the second one to listen would be refused; names are not looked up. */
function overlap(a: Address, b: Address): boolean {
	if (a.port !== b.port || a.port === 0) return false;
	return a.host === b.host || [a.host, b.host].some((host) => host === '0.0.0.0' || host === '::');
}

function parseDemo(argv: readonly string[], env: Environment): CommandLine {
	const given = scan(argv, DEMO_OPTIONS, DEMO_SWITCHES);
	const early = helpOrVersion(given);
	if (early !== undefined) return early;
	return { command: 'demo', once: given.switches.has('once'), ...readValues(DEMO_OPTIONS, given, env) };
}

function parseEmbedDemo(argv: readonly string[]): CommandLine {
	const given = scan(argv, {}, {});
	const early = helpOrVersion(given);
	if (early !== undefined) return early;
	if (given.problems.length > 0) throw new UsageError(given.problems);
	return { command: 'embed-demo' };
}

function helpOrVersion({ switches, problems }: Given): CommandLine | undefined {
	if (switches.has('help')) return { command: 'help' };
	if (switches.has('version') && problems.length === 0) return { command: 'version' };
	return undefined;
}

type ValueOptions = Readonly<Record<string, ValueOption<unknown>>>;
type Values<Options extends ValueOptions> = { readonly [Key in keyof Options]: ReturnType<Options[Key]['parse']> };

/** The command line by flags, before any value is looked at. */
interface Given {
	readonly values: ReadonlyMap<string, string>;
	readonly switches: ReadonlySet<string>;
	readonly problems: readonly string[];
}

function scan(argv: readonly string[], options: ValueOptions, ownSwitches: Readonly<Record<string, Switch>>): Given {
	const switches = { ...ownSwitches, ...COMMON_SWITCHES };
	const known = parserOptions(options, switches);
	const values = new Map<string, string>();
	const present = new Set<string>();
	const problems: string[] = [];
	// Strict, but by hand: the errors of parseArgs's own strict mode stop at the first and name neither near miss nor
	// remedy.
	const { tokens } = parseArgs({ args: [...argv], options: known, strict: false, tokens: true });
	for (const token of tokens) {
		if (token.kind === 'option-terminator') continue;
		if (token.kind === 'positional') {
			problems.push(
				`unexpected argument ${quote(token.value)}; every value needs its flag before it, see proxy --help`,
			);
		} else if (!Object.hasOwn(known, token.name)) {
			problems.push(`unknown option ${quote(token.rawName)}; ${remedyForUnknown(token.name, Object.keys(known))}`);
		} else if (known[token.name]!.type === 'boolean') {
			if (token.value === undefined) present.add(token.name);
			else problems.push(`--${token.name}: takes no value (got ${quote(token.value)}); leave it out`);
		} else if (token.value === undefined || (!token.inlineValue && token.value.startsWith('-'))) {
			problems.push(`--${token.name}: needs a value; write --${token.name}=VALUE`);
		} else if (values.has(token.name)) {
			const [first, second] = [values.get(token.name)!, token.value].map(quote);
			problems.push(`--${token.name}: is given twice (${first} and ${second}); give it once`);
		} else {
			values.set(token.name, token.value);
		}
	}
	return { values, switches: present, problems };
}

function parserOptions(options: ValueOptions, switches: Readonly<Record<string, Switch>>) {
	const known: Record<string, { type: 'string' | 'boolean'; short?: string }> = {};
	for (const { flag } of Object.values(options)) if (flag !== undefined) known[flag] = { type: 'string' };
	for (const { flag, short } of Object.values(switches)) {
		known[flag] = { type: 'boolean', ...(short !== undefined && { short }) };
	}
	return known;
}

function remedyForUnknown(name: string, known: readonly string[]): string {
	const demoOnly = [...Object.values(DEMO_OPTIONS), ...Object.values(DEMO_SWITCHES)];
	if (demoOnly.some(({ flag }) => flag === name)) return `it belongs to the demo: proxy demo --${name}`;
	if (name === CHECK_SWITCHES.json.flag) return 'it belongs to the check: proxy check --json';
	return didYouMean(name, known, '--');
}

function didYouMean(word: string, candidates: readonly string[], lead: string): string {
	const meant = suggest(word, candidates);
	return meant === undefined ? 'see proxy --help' : `did you mean ${lead}${meant}?`;
}

function readValues<Options extends ValueOptions>(options: Options, given: Given, env: Environment): Values<Options> {
	const problems = [...given.problems];
	const values: Record<string, unknown> = {};
	for (const [key, option] of Object.entries(options)) {
		const [source, text] = sourceOf(option, given.values, env);
		try {
			values[key] = option.parse(text);
		} catch (error) {
			if (!(error instanceof Malformed)) throw error;
			problems.push(`${source}: ${error.message}`);
		}
	}
	if (problems.length > 0) throw new UsageError(problems);
	return values as Values<Options>;
}

/** @returns the name that messages use, and the text. */
function sourceOf(
	{ flag, env: variable, fallback }: ValueOption<unknown>,
	flags: ReadonlyMap<string, string>,
	env: Environment,
): [source: string, text: string] {
	const byFlag = flag === undefined ? undefined : flags.get(flag);
	if (byFlag !== undefined) return [`--${flag}`, byFlag];
	const byVariable = variable === undefined ? undefined : env[variable];
	if (variable !== undefined && byVariable !== undefined && byVariable !== '') return [variable, byVariable];
	return [flag === undefined ? String(variable) : `--${flag}`, fallback];
}
