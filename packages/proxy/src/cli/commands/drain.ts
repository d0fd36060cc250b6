import { defineCommand } from '../command.ts';
import { parseDuration } from '../options.ts';
import { TARGET_OPTIONS } from './target-options.ts';

export const drain = defineCommand({
	name: 'drain',
	group: 'Tell a running proxy',
	about: 'have it finish what is in flight, and exit',
	details: [
		'Sends SIGTERM to the proxy, unless it says that it is draining already: a second signal would cut the drain short. In a preStop hook use --wait, because the signal of the kubelet that follows the hook would be that second one.',
	],
	example: 'proxy drain --wait',
	options: {
		...TARGET_OPTIONS,
		timeout: {
			flag: 'timeout',
			placeholder: 'TIME',
			fallback: '60s',
			about: 'how long to wait for its end',
			parse: parseDuration,
		},
	},
	switches: { wait: { flag: 'wait', about: 'return when the process has ended' } },
	exitCodes: {
		0: 'it was told, or with --wait has ended',
		1: 'there was no proxy, or with --wait it has not ended in time',
	},
	run: async ({ timeout, ...options }, context) => {
		const { drain } = await import('../running/drain.ts');
		return drain({ ...options, timeoutMs: timeout }, context);
	},
});
