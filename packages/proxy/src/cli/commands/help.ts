import { defineCommand } from '../command.ts';

export const help = defineCommand({
	name: 'help',
	group: 'Shell and help',
	about: 'print the help of all commands, or of one',
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
		const { helpText } = await import('../help.ts');
		print(helpText(commands, words.length === 0 ? undefined : findCommands(words, commands), stdout.columns));
		return 0;
	},
});
