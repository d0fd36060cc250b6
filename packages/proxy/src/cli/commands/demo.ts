import { defineCommand } from '../command.ts';
import { parseFileName } from '../options.ts';

export const demo = defineCommand({
	name: 'demo',
	group: 'Try it',
	about: 'try the proxy with sample keys and upstreams',
	example: 'proxy demo --once',
	options: {
		dir: {
			flag: 'dir',
			placeholder: 'DIR',
			fallback: '.demo',
			about: 'where certificates, keys and the configuration are written',
			candidates: 'folder',
			parse: parseFileName,
		},
	},
	switches: { once: { flag: 'once', about: 'send the example requests, print the responses and exit' } },
	exitCodes: { 0: 'all responses were as expected', 1: 'a response was not as expected, or the demo could not start' },
	run: async ({ once, dir }, { stdout, mainPath }) => {
		const { runDemo } = await import('../demo/run.ts');
		return runDemo({ once, dir, out: stdout, mainPath });
	},
});
