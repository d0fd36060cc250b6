import { defineCommand } from '../command.ts';

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
