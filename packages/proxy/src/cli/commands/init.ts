import { defineCommand } from '../command.ts';
import { parseServerName, parseUpstreamUrl } from '../development-options.ts';
import { parseFileName } from '../options.ts';

export const init = defineCommand({
	name: 'init',
	group: 'Set up',
	about: 'make a configuration, certificates and a token key for development',
	details: [
		'Asks no questions and overwrites no file. Writes config.toml, which explains every key and its default. For editors, also writes the JSON Schema of that file. In dev/ it creates a CA, a server certificate, a certificate for a client named alice, and the key that signs tokens.',
		'Use all of this for development only: the keys of the CA and of the issuer are next to the proxy. In production, keep them elsewhere.',
	],
	example: 'proxy init edge --upstream http://127.0.0.1:3000',
	operands: {
		dir: {
			placeholder: 'DIR',
			about: 'folder for the files; default: the working directory',
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
			about: 'upstream of its route',
			parse: parseUpstreamUrl,
		},
		hosts: {
			flag: 'host',
			placeholder: 'NAME',
			repeatable: true,
			about: 'another name or IP address for the server certificate',
			parse: parseServerName,
		},
	},
	exitCodes: { 0: 'written', 1: 'a file already exists, or cannot be written' },
	run: async ({ dir = '.', upstream, hosts }, context) => {
		const { runInit } = await import('../development/run.ts');
		return runInit({ dir, upstream, hosts }, context);
	},
});
