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
		'Prints only the token on standard output. Issuer and audience come from the configuration. --claim overrides a default claim, so you can also make a token that is refused: --claim exp=0.',
	],
	example: 'proxy token --sub acme --claim scope=billing:read --ttl 8h',
	options: {
		sub: { flag: 'sub', placeholder: 'SUBJECT', required: true, about: 'the tenant', parse: parseSubject },
		claims: {
			flag: 'claim',
			placeholder: 'NAME=VALUE',
			repeatable: true,
			about: 'another claim; a value that is not JSON is a string',
			parse: parseClaim,
		},
		ttl: {
			flag: 'ttl',
			placeholder: 'TIME',
			fallback: '1h',
			about: 'lifetime: a number with s, m, h or d',
			parse: parseTtl,
		},
		cert: {
			flag: 'cert',
			placeholder: 'FILE',
			about:
				'bind the token to this client certificate (RFC 8705): it is then valid only on connections that use the certificate',
			candidates: 'file',
			parse: parseFileName,
		},
		config: { ...RUN_OPTIONS.config, about: 'configuration with the issuer and the audience' },
		dir: DEVELOPMENT_DIR,
	},
	conflicts: ({ claims }) => {
		const names = claims.map(([name]) => name);
		const twice = new Set(names.filter((name, i) => names.indexOf(name) !== i));
		return [...twice].map(
			(name) => `--claim: ${quote(name)} is given twice; give it once, a list as ${name}=["a","b"]`,
		);
	},
	exitCodes: { 0: 'printed', 1: 'a file cannot be read, or is invalid' },
	run: async (values, context) => {
		const { runToken } = await import('../development/run.ts');
		return runToken(values, context);
	},
});
