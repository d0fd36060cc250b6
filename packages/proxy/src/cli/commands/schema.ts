import { defineCommand } from '../command.ts';

export const schema = defineCommand({
	name: 'schema',
	group: 'Set up',
	about: 'print the JSON Schema of the configuration file, for editors',
	details: [
		'Editors that use taplo (such as VS Code with Even Better TOML) complete and check a file that begins with "#:schema ./config.schema.json" and has the schema next to it. Write that schema with: proxy schema > config.schema.json. The command proxy check also finds errors that a schema cannot describe.',
	],
	example: 'proxy schema',
	exitCodes: { 0: 'printed' },
	run: async (_, { print }) => {
		const { configSchemaText } = await import('../../config/json-schema.ts');
		print(configSchemaText());
		return 0;
	},
});
