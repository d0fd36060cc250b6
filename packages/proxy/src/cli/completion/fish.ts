import { type Command, DEFAULT_COMMAND, PROGRAMS } from '../command.ts';
import { type CommandModel, completionModel, type ValueSource, type Word } from './model.ts';

const [PROGRAM, ...OTHERS] = PROGRAMS;

export function fishCompletion(commands: readonly Command[]): string {
	const model = completionModel(commands);
	const [oneWord, twoWords] = [1, 2].map((count) =>
		model.commands.filter(({ name }) => name.split(' ').length === count),
	);
	return `# Completion of proxy for fish. Made by: proxy completion fish
#   proxy completion fish | source
#   proxy completion fish > ~/.config/fish/conf.d/proxy.fish

# The command that the words before the cursor name; nothing where it is still to be named.
function __proxy_command
	set -l words (commandline -opc)
	set -e words[1]
	if not set -q words[1]
		return
	end
	set -q words[2]; or set -a words ''
	switch "$words[1] $words[2]"
		case '-*'
			echo ${DEFAULT_COMMAND}
${twoWords!.map(({ name }) => `\t\tcase ${fishQuoted(name)}\n\t\t\techo ${fishQuoted(name)}\n`).join('')}${oneWord!.map(({ name }) => `\t\tcase ${fishQuoted(`${name} *`)}\n\t\t\techo ${fishQuoted(name)}\n`).join('')}	end
end

# Whether the cursor stands in the command of these words.
function __proxy_is
	test "$(__proxy_command)" = "$argv"
end

# Whether these words, and no others, stand between proxy and the cursor.
function __proxy_after
	set -l words (commandline -opc)
	set -e words[1]
	test "$words" = "$argv"
end

${OTHERS.map((program) => `complete -c ${program} -w ${PROGRAM}`).join('\n')}
complete -c proxy -f
${wordLines('__proxy_after', model.firstWords)}
${Array.from(model.families, ([word, members]) => wordLines(`__proxy_after ${word}`, members)).join('\n')}
${model.commands
	.filter(({ name }) => name === DEFAULT_COMMAND)
	.flatMap((command) => flagLines('__proxy_after', command))
	.join('\n')}
${model.commands.flatMap((command) => commandLines(`__proxy_is ${command.name}`, command)).join('\n')}
`.replaceAll(/\n\n(?=complete)/g, '\n');
}

function wordLines(condition: string, words: readonly Word[]): string {
	return words
		.map(({ word, about }) => `complete -c proxy -n ${fishQuoted(condition)} -a ${word} -d ${fishQuoted(about)}`)
		.join('\n');
}

function commandLines(condition: string, command: CommandModel): string[] {
	const operands = command.operands.flatMap(({ values }) => {
		return values === undefined ? [] : [`complete -c proxy -n ${fishQuoted(condition)}${candidates(values)}`];
	});
	return [...flagLines(condition, command), ...operands];
}

function flagLines(condition: string, { options, switches }: CommandModel): string[] {
	const lead = `complete -c proxy -n ${fishQuoted(condition)}`;
	return [
		...options.map(({ flag, about, values }) => {
			return `${lead} -l ${flag} -d ${fishQuoted(about)} -r${values === undefined ? ' -f' : candidates(values)}`;
		}),
		...switches.map(({ flag, short, about }) => {
			return `${lead} -l ${flag}${short === undefined ? '' : ` -s ${short}`} -d ${fishQuoted(about)}`;
		}),
	];
}

function candidates(values: ValueSource): string {
	if (values === 'file') return ' -F';
	if (values === 'folder') return " -f -a '(__fish_complete_directories (commandline -ct))'";
	return ` -f -a ${fishQuoted(values.join(' '))}`;
}

function fishQuoted(text: string): string {
	return `'${text.replaceAll(/[\\']/g, '\\$&')}'`;
}
