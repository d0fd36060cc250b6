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
	run: async (values, { stdout: out, mainPath }) =>
		(await import('../demo/run.ts')).runDemo({ ...values, out, mainPath }),
});

export const embedDemo = defineCommand({
	name: 'embed-demo',
	group: 'Try it',
	about: 'run the example of the embedded gate',
	details: [
		'Runs the service described in docs/reference/embed.md, a Node server with the gate inside. Its settings are the EMBED_* variables.',
	],
	example: 'proxy embed-demo',
	exitCodes: { 0: 'drained after a signal', 1: 'could not start, or got a second signal during the drain' },
	run: async (_options, { env, stdout, stderr }) => {
		const { runEmbedDemo } = await import('../embed-demo/service.ts');
		// At once: after a second signal the process waits for nothing, not even the reader of the log.
		process.exit(await runEmbedDemo(env, { stdout, stderr, signals: process }));
	},
});
