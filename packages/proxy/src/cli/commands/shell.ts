import { quote } from '../../config/wording.ts';
import { defineCommand, Malformed } from '../command.ts';

const SHELLS = ['bash', 'zsh', 'fish'] as const;

export const completion = defineCommand({
	name: 'completion',
	group: 'Shell and help',
	about: 'print a shell completion script for commands and options',
	details: [
		'For the current shell: eval "$(proxy completion bash)", source <(proxy completion zsh), or proxy completion fish | source. A comment in the script says where to install it.',
	],
	example: 'proxy completion bash',
	operands: {
		shell: { placeholder: 'SHELL', about: 'bash, zsh or fish', candidates: SHELLS, parse: parseShell },
	},
	exitCodes: { 0: 'printed' },
	run: async ({ shell }, { print, commands }) => {
		switch (shell) {
			case 'bash':
				print((await import('../completion/bash.ts')).bashCompletion(commands));
				break;
			case 'zsh':
				print((await import('../completion/zsh.ts')).zshCompletion(commands));
				break;
			case 'fish':
				print((await import('../completion/fish.ts')).fishCompletion(commands));
				break;
		}
		return 0;
	},
});

export const help = defineCommand({
	name: 'help',
	group: 'Shell and help',
	about: 'print the help for all commands, or for one',
	example: 'proxy help check',
	operands: {
		words: {
			placeholder: 'COMMAND',
			about: 'a command; without one, all of them',
			optional: true,
			repeatable: true,
			candidates: 'command',
			parse: (text: string) => text,
		},
	},
	exitCodes: { 0: 'printed' },
	run: async ({ words }, { print, stdout, commands }) => {
		const { findCommands } = await import('../arguments.ts');
		const { helpFor } = await import('../help.ts');
		print(helpFor(stdout, commands, words.length === 0 ? undefined : findCommands(words, commands)));
		return 0;
	},
});

function parseShell(text: string): (typeof SHELLS)[number] {
	const shell = SHELLS.find((candidate) => candidate === text);
	if (shell === undefined) throw new Malformed(`must be bash, zsh or fish (got ${quote(text)}); name one of them`);
	return shell;
}
