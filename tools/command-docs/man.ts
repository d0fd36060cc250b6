import {
	COMMON_SWITCHES,
	type Command,
	DEFAULT_COMMAND,
	invocation,
	PROGRAMS,
	type Switch,
	type ValueOption,
} from '../../packages/proxy/src/cli/command.ts';
import {
	operandForm,
	optionForm,
	originOf,
	SIGNALS,
	SUMMARY,
	switchForm,
	WRONG_USAGE,
} from '../../packages/proxy/src/cli/help.ts';
import { capitalized } from '../../packages/proxy/src/config/wording.ts';

/** Of the last change of what the page says besides the commands. */
const DATE = '2026-11-24';

const BODY_MODES =
	'proxy reads each body whole before it forwards it. proxy-streaming has the same commands and options, and forwards bodies as they arrive.';

/** man/proxy.1, in the macros of man(7). */
export function manPage(commands: readonly Command[], version: string): string {
	const standard = commands.find(({ name }) => name === DEFAULT_COMMAND)!;
	return [
		'.\\" Made by tools/command-docs.ts from packages/proxy/src/cli/commands.ts. Do not edit.',
		`.TH PROXY 1 ${DATE} "proxy ${version}"`,
		'.SH NAME',
		`${PROGRAMS.map(roff).join(', ')} \\- reverse proxy: mutual TLS, tokens, circuit breakers`,
		'.SH SYNOPSIS',
		'.B proxy',
		'.RI [ OPTIONS ]',
		'.br',
		'.B proxy',
		'.I COMMAND',
		'.RI [ OPTIONS ]',
		'.br',
		'.B proxy\\-streaming',
		'\\&...',
		'.SH DESCRIPTION',
		...text(SUMMARY),
		'Without a command, proxy serves.',
		'.PP',
		...text(BODY_MODES),
		'.PP',
		...text('An option overrides its environment variable, and an empty variable counts as unset.'),
		'.SH OPTIONS',
		...Object.values(standard.options).flatMap(optionLines),
		...Object.values({ ...standard.switches, ...COMMON_SWITCHES }).flatMap(switchLines),
		'.SH COMMANDS',
		...commands.filter((command) => command !== standard).flatMap((command) => commandLines(command, standard)),
		'.SH SIGNALS',
		...SIGNALS.flatMap(([names, about]) => term(bold(names), sentence(about))),
		'.SH EXIT STATUS',
		...exits(standard).flatMap(([code, meaning]) => term(bold(code), sentence(meaning))),
		'.SH ENVIRONMENT',
		...variables(commands).flatMap(([name, about]) => term(bold(name), about)),
		'.SH EXAMPLES',
		...commands
			.flatMap(({ about, example }) => [...text(sentence(about)), '.PP', '.RS', bold(example), '.RE', '.PP'])
			.slice(0, -1),
		'',
	].join('\n');
}

/** The page of another name of the command: the same page. */
export const OTHER_NAME = '.so man1/proxy.1\n';

function commandLines(command: Command, standard: Command): string[] {
	const operands = Object.values(command.operands);
	const call = [invocation(command), ...operands.map(operandForm), '[OPTIONS]'].join(' ');
	const takesAll = Object.values(standard.options).every((option) => Object.values(command.options).includes(option));
	const own = Object.values(command.options).filter(
		(option) => !takesAll || !Object.values(standard.options).includes(option),
	);
	return [
		`.SS ${roff(call)}`,
		...text(sentence(command.about)),
		...(command.details ?? []).flatMap((paragraph) => ['.PP', ...text(paragraph)]),
		...(takesAll ? ['.PP', ...text('The options of proxy above, and:')] : []),
		...operands.flatMap((operand) => term(`.I ${roff(operandForm(operand))}`, sentence(operand.about))),
		...own.flatMap(optionLines),
		...Object.values(command.switches).flatMap(switchLines),
		'.PP',
		...text(
			`Exit status: ${exits(command)
				.map(([code, meaning]) => `${code}: ${meaning}`)
				.join('; ')}.`,
		),
	];
}

function optionLines(option: ValueOption): string[] {
	const { flag, placeholder, about } = option;
	const tag = flag === undefined ? bold(optionForm(option)) : `.BI "${roff(`--${flag} `)}" ${roff(placeholder)}`;
	return term(tag, [sentence(about), originOf(option) ?? ''].join(' ').trim());
}

function switchLines(option: Switch): string[] {
	return term(bold(switchForm(option)), sentence(option.about));
}

function exits({ exitCodes }: Command): [code: string, meaning: string][] {
	return Object.entries({ ...exitCodes, 2: WRONG_USAGE });
}

/** Each once, with its flags. */
function variables(commands: readonly Command[]): [name: string, about: string][] {
	const found = new Map<string, Set<string>>();
	for (const command of commands) {
		for (const { env, flag, about } of Object.values(command.options)) {
			if (env === undefined) continue;
			const meanings = found.get(env) ?? new Set();
			meanings.add(flag === undefined ? sentence(about) : `--${flag}`);
			found.set(env, meanings);
		}
	}
	return [...found].map(([name, meanings]) => [name, [...meanings].join(', ')]);
}

function term(tag: string, about: string): string[] {
	return ['.TP', tag, ...text(about)];
}

function bold(words: string): string {
	return `.B ${roff(words)}`;
}

function sentence(words: string): string {
	return `${capitalized(words)}.`;
}

const COLUMNS = 78;

/** Lines of text: a new sentence on a new line, as roff wants it. */
function text(paragraph: string): string[] {
	return paragraph.split(/(?<=[.:;]) (?=[A-Z])/).flatMap((part) => {
		const lines: string[] = [];
		for (const word of part.split(' ').map(roff)) {
			const line = lines.at(-1);
			if (line === undefined || line.length + 1 + word.length > COLUMNS) lines.push(word);
			else lines[lines.length - 1] = `${line} ${word}`;
		}
		return lines;
	});
}

/** What begins with a dot or a quote would be a request. */
function roff(words: string): string {
	return words.replaceAll('\\', '\\e').replaceAll('-', '\\-').replaceAll('"', '\\(dq').replace(/^[.']/, '\\&$&');
}
