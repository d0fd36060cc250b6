import { type Command, DEFAULT_COMMAND, PROGRAMS } from '../command.ts';
import { type CommandModel, completionModel, quoted, type ValueSource, type Word } from './model.ts';

export function zshCompletion(commands: readonly Command[]): string {
	const model = completionModel(commands);
	return `#compdef ${PROGRAMS.join(' ')}
# Completion of proxy for zsh. Made by: proxy completion zsh
#   source <(proxy completion zsh)
#   proxy completion zsh > "\${fpath[1]}/_proxy"

_proxy() {
	local command
	local -a list
	if ((CURRENT == 2)) && [[ $PREFIX != -* ]]; then
${describe('command', model.firstWords, '\t\t')}
		return
	fi
	case "$words[2]" in
		-*) command=${DEFAULT_COMMAND} ;;
${Array.from(model.families, ([word, members]) => family(word, members)).join('')}		*)
			command=$words[2]
			shift words
			((CURRENT--))
			;;
	esac
	case $command in
${model.commands.map(argumentsOf).join('\n')}
	esac
}

if [[ $funcstack[1] == _proxy ]]; then
	_proxy "$@"
else
	compdef _proxy ${PROGRAMS.join(' ')}
fi
`;
}

function describe(what: string, words: readonly Word[], margin: string): string {
	const list = words.map(({ word, about }) => quoted(`${word.replaceAll(':', '\\:')}:${about}`));
	return `${margin}list=(${list.join(' ')})\n${margin}_describe ${what} list`;
}

function family(word: string, members: readonly Word[]): string {
	return `		${word})
			if ((CURRENT == 3)); then
${describe('command', members, '\t\t\t\t')}
				return
			fi
			command="$words[2] $words[3]"
			shift 2 words
			((CURRENT -= 2))
			;;
`;
}

function argumentsOf({ name, options, switches, operands }: CommandModel): string {
	const specs = [
		...options.map(({ flag, about, placeholder, repeatable, values }) => {
			return `${repeatable ? '*' : ''}--${flag}=[${bracketed(about)}]:${message(placeholder)}:${action(values)}`;
		}),
		...switches.flatMap(({ flag, short, about }) => [
			`--${flag}[${bracketed(about)}]`,
			...(short === undefined ? [] : [`-${short}[${bracketed(about)}]`]),
		]),
		...operands.map(({ placeholder, repeatable, values }) => {
			return `${repeatable ? '*' : ''}:${message(placeholder)}:${action(values)}`;
		}),
	];
	return `		${quoted(name)})\n			_arguments ${specs.map(quoted).join(' \\\n				')}\n			;;`;
}

function action(values: ValueSource | undefined): string {
	if (values === undefined) return '';
	if (values === 'file') return '_files';
	if (values === 'folder') return '_path_files -/';
	return `(${values.join(' ')})`;
}

/** Escapes a text that an unescaped bracket ends. */
function bracketed(text: string): string {
	return text.replaceAll(/[\\[\]:]/g, '\\$&');
}

function message(text: string): string {
	return text.replaceAll(/[\\:]/g, '\\$&');
}
