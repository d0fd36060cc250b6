import { defineCommand } from '../command.ts';

export const schema = defineCommand({
	name: 'schema',
	group: 'Set up',
	about: 'print the JSON Schema of the configuration file, for editors',
	details: [
		'Editors that know taplo, such as VS Code with Even Better TOML, complete and check a file whose first line is "#:schema ./config.schema.json", where the schema lies beside it: proxy schema > config.schema.json. What a schema cannot say, proxy check does.',
	],
	example: 'proxy schema',
	exitCodes: { 0: 'printed' },
	run: async (_, { print }) => {
		const { configSchemaText } = await import('../../config/json-schema.ts');
		print(configSchemaText());
		return 0;
	},
});
