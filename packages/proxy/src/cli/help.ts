import {
	COMMON_SWITCHES,
	type Command,
	DEFAULT_COMMAND,
	GROUPS,
	invocation,
	type Operand,
	type Switch,
	type ValueOption,
} from './command.ts';

/** On narrower terminals columns would be unreadable, so lines may exceed the width. */
const MIN_COLUMNS = 60;
/** Longer lines are hard to read. */
const MAX_COLUMNS = 100;
const INDENT = '  ';

export const SUMMARY =
	'Layer-7 reverse proxy for private networks: mutual TLS, JSON Web Tokens, a rate limit for each tenant, routes and ' +
	'circuit breakers.';

export const SIGNALS = [
	['SIGUSR1, SIGHUP', 'reload the configuration, certificates and keys; connections stay open'],
	['SIGTERM, SIGINT', 'finish the requests in flight, then exit; a second signal exits at once'],
] as const;

export const WRONG_USAGE = 'wrong usage';

/**
 * @param of the commands to describe; by default all.
 * @param columns width of the terminal in characters.
 */
export function helpText(commands: readonly Command[], of?: readonly Command[], columns = 80): string {
	const width = Math.min(Math.max(columns, MIN_COLUMNS), MAX_COLUMNS);
	if (of === undefined) return lines(overview(commands, width));
	const [only, another] = of;
	if (only !== undefined && another === undefined) return lines(ofCommand(only, width));
	return lines([...section('Commands', of.map(inList), width).slice(1), '', MORE]);
}

/** The same text for a terminal: titles in bold. */
function withBoldTitles(text: string): string {
	return text.replaceAll(/^[A-Z][a-z ]+:$/gm, '\x1b[1m$&\x1b[22m');
}

/** The help text in the form that suits this stream. */
export function helpFor(stream: HelpStream, commands: readonly Command[], of?: readonly Command[]): string {
	const text = helpText(commands, of, stream.columns);
	return stream.isTTY === true && stream.hasColors?.() === true ? withBoldTitles(text) : text;
}

interface HelpStream {
	readonly columns?: number | undefined;
	readonly isTTY?: boolean | undefined;
	hasColors?(): boolean;
}

const MORE = 'proxy help COMMAND shows the options of a command.';

function overview(commands: readonly Command[], width: number): string[] {
	const standard = commands.find(({ name }) => name === DEFAULT_COMMAND)!;
	// The same column for all groups.
	const column = termColumn(commands.map(inList));
	return [
		...wrap(SUMMARY.split(' '), width),
		'',
		'Usage:',
		`${INDENT}proxy [OPTIONS]          run the proxy`,
		`${INDENT}proxy COMMAND [OPTIONS]`,
		...GROUPS.flatMap((group) => {
			const members = commands.filter((command) => command.group === group);
			return members.length === 0 ? [] : section(group, members.map(inList), width, column);
		}),
		'',
		MORE,
		...section('Options', optionsOf(standard), width),
		...section('Signals', signals(), width),
		...section('Exit codes', exitCodes(standard), width),
	];
}

function ofCommand(command: Command, width: number): string[] {
	const { name, about, details = [], example } = command;
	const operands = Object.values(command.operands);
	const usage = [invocation(command), ...operands.map(operandForm), '[OPTIONS]'].join(' ');
	return [
		...wrap(`proxy ${name}: ${about}.`.split(' '), width),
		...details.flatMap((paragraph) => ['', ...wrap(paragraph.split(' '), width)]),
		'',
		'Usage:',
		`${INDENT}${usage}`,
		'',
		'Example:',
		`${INDENT}${example}`,
		...(operands.length === 0 ? [] : section('Operands', operands.map(ofOperand), width)),
		...section('Options', optionsOf(command), width),
		...(command.takesSignals ? section('Signals', signals(), width) : []),
		...section('Exit codes', exitCodes(command), width),
	];
}

function signals(): Entry[] {
	return SIGNALS.map(([names, about]) => entry(names, about));
}

function exitCodes(command: Command): Entry[] {
	return Object.entries({ ...command.exitCodes, 2: WRONG_USAGE }).map(([code, meaning]) => entry(code, meaning));
}

interface Entry {
	readonly term: string;
	/** Pieces that a line may break between. */
	readonly about: readonly string[];
	/** On a separate line below. */
	readonly example?: string;
}

function inList({ name, about, example }: Command): Entry {
	return { ...entry(name, about), example };
}

function termColumn(entries: readonly Entry[]): number {
	return Math.max(...entries.map(({ term }) => term.length)) + 2 * INDENT.length;
}

function section(title: string, entries: readonly Entry[], width: number, column = termColumn(entries)): string[] {
	const body = entries.flatMap(({ term, about, example }) => {
		const [first = '', ...rest] = wrap(about, width - column);
		const margin = ' '.repeat(column);
		return [
			`${INDENT}${term}`.padEnd(column) + first,
			...rest.map((line) => margin + line),
			...(example === undefined ? [] : [`${margin}$ ${example}`]),
		];
	});
	return ['', `${title}:`, ...body];
}

function optionsOf({ options, switches }: Command): Entry[] {
	return [
		...Object.values(options).map((option) => entry(optionForm(option), option.about, originOf(option))),
		...Object.values({ ...switches, ...COMMON_SWITCHES }).map((option) => entry(switchForm(option), option.about)),
	];
}

export function switchForm({ flag, short }: Switch): string {
	return short === undefined ? `--${flag}` : `-${short}, --${flag}`;
}

export function optionForm({ flag, env, placeholder }: ValueOption): string {
	return flag === undefined ? `${env}=${placeholder}` : `--${flag} ${placeholder}`;
}

export function operandForm({ placeholder, optional, repeatable }: Operand): string {
	const form = repeatable ? `${placeholder}...` : placeholder;
	return optional ? `[${form}]` : form;
}

function ofOperand(operand: Operand): Entry {
	return entry(operandForm(operand), operand.about);
}

/** Other sources of the value, in brackets; `undefined` if there are none. */
export function originOf({ flag, env, fallback, required, repeatable }: ValueOption): string | undefined {
	const parts = [
		...(flag !== undefined && env !== undefined ? [env] : []),
		...(fallback === undefined ? [] : [`default ${fallback}`]),
		...(required ? ['required'] : []),
		...(repeatable ? ['may be repeated'] : []),
	];
	return parts.length === 0 ? undefined : `[${parts.join(', ')}]`;
}

/** @param whole a last piece that stays on one line. */
function entry(term: string, about: string, whole?: string): Entry {
	return { term, about: [...about.split(' '), ...(whole === undefined ? [] : [whole])] };
}

function lines(all: readonly string[]): string {
	return `${all.join('\n')}\n`;
}

function wrap(pieces: readonly string[], width: number): string[] {
	const wrapped: string[] = [];
	let line = '';
	for (const piece of pieces) {
		if (line !== '' && line.length + 1 + piece.length > width) {
			wrapped.push(line);
			line = piece;
		} else {
			line = line === '' ? piece : `${line} ${piece}`;
		}
	}
	return [...wrapped, line];
}
