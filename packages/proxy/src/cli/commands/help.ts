import { defineCommand } from '../command.ts';

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
