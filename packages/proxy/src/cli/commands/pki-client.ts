import { defineCommand } from '../command.ts';
import { DEVELOPMENT_DIR, parseClientName, parseSan } from '../development-options.ts';

export const pkiClient = defineCommand({
	name: 'pki client',
	group: 'Set up',
	about: 'issue a client certificate from the CA of proxy init, for development',
	details: [
		'Writes NAME.crt and NAME.key next to the CA, and overwrites no file. The certificate is valid for a year.',
	],
	example: 'proxy pki client web --san spiffe://example.org/ns/shop/sa/web',
	operands: {
		name: {
			placeholder: 'NAME',
			about: "the certificate's common name, and the name of its files",
			parse: parseClientName,
		},
	},
	options: {
		sans: {
			flag: 'san',
			placeholder: 'URI',
			repeatable: true,
			about: 'a URI, or dns:NAME, for subjectAltName; routes match it with allow and deny',
			parse: parseSan,
		},
		dir: DEVELOPMENT_DIR,
	},
	exitCodes: { 0: 'issued', 1: 'there is no CA, or a client with that name already exists' },
	run: async (values, context) => {
		const { runPkiClient } = await import('../development/run.ts');
		return runPkiClient(values, context);
	},
});
