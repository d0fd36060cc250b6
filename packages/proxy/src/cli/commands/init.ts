import { defineCommand } from '../command.ts';
import { parseServerName, parseUpstreamUrl } from '../development-options.ts';
import { parseFileName } from '../options.ts';

export const init = defineCommand({
	name: 'init',
	group: 'Set up',
	about: 'make a configuration, certificates and a token key for development',
	details: [
		'Asks nothing and overwrites nothing. Makes config.toml with every key, its meaning and its default, and its JSON Schema for editors. In dev/ it makes a CA, the certificates of the server and of a client named alice, and the key that signs tokens.',
		'All of it is for development: the keys of the CA and of the issuer are next to the proxy. In production, keep them elsewhere.',
	],
	example: 'proxy init edge --upstream http://127.0.0.1:3000',
	operands: {
		dir: {
			placeholder: 'DIR',
			about: 'where to make them; by default the working directory',
			optional: true,
			candidates: 'folder',
			parse: parseFileName,
		},
	},
	options: {
		upstream: {
			flag: 'upstream',
			placeholder: 'URL',
			fallback: 'http://127.0.0.1:3000',
			about: 'where its one route leads to',
			parse: parseUpstreamUrl,
		},
		hosts: {
			flag: 'host',
			placeholder: 'NAME',
			repeatable: true,
			about: "one more name or IP address of the server's certificate",
			parse: parseServerName,
		},
	},
	exitCodes: { 0: 'made', 1: 'a file is there already, or cannot be written' },
	run: async ({ dir = '.', upstream, hosts }, context) => {
		const { runInit } = await import('../development/run.ts');
		return runInit({ dir, upstream, hosts }, context);
	},
});
