import { type Command, DEFAULT_COMMAND, PROGRAMS } from '../command.ts';
import { type CommandModel, completionModel, quoted, type ValueSource } from './model.ts';

/** For bash 3.2 and later, with or without the package bash-completion. */
export function bashCompletion(commands: readonly Command[]): string {
	const model = completionModel(commands);
	const words = (list: readonly { readonly word: string }[]) => list.map(({ word }) => word).join(' ');
	const families = Array.from(
		model.families,
		([word, members]) => `\t\t${quoted(`${word} `)}) _proxy_words ${quoted(words(members))} "$cur"; return ;;\n`,
	).join('');
	return `# Completion of proxy for bash. Made by: proxy completion bash
#   eval "$(proxy completion bash)"
#   proxy completion bash > /etc/bash_completion.d/proxy

_proxy_words() { COMPREPLY=($(compgen -W "$1" -- "$2")); }

_proxy_paths() {
	local IFS=$'\\n'
	compopt -o filenames 2> /dev/null
	COMPREPLY=($(compgen "$1" -- "$2"))
}

_proxy() {
	local cur=\${COMP_WORDS[COMP_CWORD]} flag='' first='' second='' command=''
	COMPREPLY=()
	# readline splits --flag=value at the =
	if [[ $cur == '=' ]]; then
		flag=\${COMP_WORDS[COMP_CWORD - 1]} cur=''
	elif [[ \${COMP_WORDS[COMP_CWORD - 1]} == '=' ]]; then
		flag=\${COMP_WORDS[COMP_CWORD - 2]}
	else
		flag=\${COMP_WORDS[COMP_CWORD - 1]}
	fi
	((COMP_CWORD > 1)) && first=\${COMP_WORDS[1]}
	((COMP_CWORD > 2)) && second=\${COMP_WORDS[2]}
	case "$first $second" in
${model.commands.map(({ name }) => `\t\t${calledAs(name)}) command=${quoted(name)} ;;`).join('\n')}
${families}		' ' | -*) command=${DEFAULT_COMMAND} ;;
		*) return ;;
	esac
	case "$command $flag" in
${model.commands.flatMap(flagCases).join('\n')}
	esac
	if [[ $cur == -* ]]; then
		case $command in
${model.commands.map((command) => `\t\t\t${quoted(command.name)}) _proxy_words ${quoted(flagsOf(command))} "$cur" ;;`).join('\n')}
		esac
	elif ((COMP_CWORD == 1)); then
		_proxy_words ${quoted(words(model.firstWords))} "$cur"
	else
		case $command in
${model.commands.flatMap(operandCases).join('\n')}
		esac
	fi
}

complete -F _proxy ${PROGRAMS.join(' ')}
`;
}

/** After a flag that takes a value, only its values are proposed. */
function flagCases({ name, options }: CommandModel): string[] {
	return options.map(({ flag, values }) => `\t\t${quoted(`${name} --${flag}`)}) ${proposal(values)}return ;;`);
}

/** The same proposals at every operand position; operands are not counted. */
function operandCases({ name, operands }: CommandModel): string[] {
	const values = operands.find((operand) => operand.values !== undefined)?.values;
	return values === undefined ? [] : [`\t\t\t${quoted(name)}) ${proposal(values)};;`];
}

/** Anything may follow a command of one word. */
function calledAs(name: string): string {
	return name.includes(' ') ? quoted(name) : `${quoted(`${name} `)}*`;
}

function proposal(values: ValueSource | undefined): string {
	if (values === undefined) return '';
	if (values === 'file') return '_proxy_paths -f "$cur"; ';
	if (values === 'folder') return '_proxy_paths -d "$cur"; ';
	return `_proxy_words ${quoted(values.join(' '))} "$cur"; `;
}

function flagsOf({ options, switches }: CommandModel): string {
	const long = [...options, ...switches].map(({ flag }) => `--${flag}`);
	const short = switches.flatMap(({ short }) => (short === undefined ? [] : [`-${short}`]));
	return [...long, ...short].join(' ');
}
