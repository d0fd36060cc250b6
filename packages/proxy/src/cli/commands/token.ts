import { quote } from '../../config/wording.ts';
import { defineCommand } from '../command.ts';
import { DEVELOPMENT_DIR, parseClaim, parseSubject, parseTtl } from '../development-options.ts';
import { parseFileName } from '../options.ts';
import { RUN_OPTIONS } from '../run-options.ts';

export const token = defineCommand({
	name: 'token',
	group: 'Set up',
	about: 'sign a token with the key of proxy init, for development',
	details: [
		'Prints it and nothing else on standard output. Issuer and audience are those that the configuration asks for. A claim takes the place of one that is made here, so that tokens can be made that are refused: --claim exp=0.',
	],
	example: 'proxy token --sub acme --claim scope=billing:read --ttl 8h',
	options: {
		sub: { flag: 'sub', placeholder: 'SUBJECT', required: true, about: 'the tenant', parse: parseSubject },
		claims: {
			flag: 'claim',
			placeholder: 'NAME=VALUE',
			repeatable: true,
			about: 'one more claim; the value is read as JSON if it is JSON, otherwise as a text',
			parse: parseClaim,
		},
		ttl: {
			flag: 'ttl',
			placeholder: 'TIME',
			fallback: '1h',
			about: 'how long it is good: a number with s, m, h or d',
			parse: parseTtl,
		},
		cert: {
			flag: 'cert',
			placeholder: 'FILE',
			about: 'client certificate that it is bound to (RFC 8705): it is valid only on its connections',
			candidates: 'file',
			parse: parseFileName,
		},
		config: { ...RUN_OPTIONS.config, about: 'configuration whose issuer and audience it names' },
		dir: DEVELOPMENT_DIR,
	},
	conflicts: ({ claims }) => {
		const names = claims.map(([name]) => name);
		const twice = new Set(names.filter((name, i) => names.indexOf(name) !== i));
		return [...twice].map(
			(name) => `--claim: ${quote(name)} is given twice; give it once, a list as ${name}=["a","b"]`,
		);
	},
	exitCodes: { 0: 'printed', 1: 'a file cannot be read, or is wrong' },
	run: async (values, context) => {
		const { runToken } = await import('../development/run.ts');
		return runToken(values, context);
	},
});
