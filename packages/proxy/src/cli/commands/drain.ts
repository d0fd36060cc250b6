import { defineCommand } from '../command.ts';
import { TARGET_OPTIONS, timeoutOption } from './target-options.ts';

export const drain = defineCommand({
	name: 'drain',
	group: 'Control a running proxy',
	about: 'finish the requests in flight, then exit',
	details: [
		'Sends SIGTERM to the proxy, unless the proxy is draining already: a second signal would cut the drain short. In a preStop hook use --wait. Otherwise the kubelet sends its own SIGTERM as soon as the hook returns, and that is the second signal.',
	],
	example: 'proxy drain --wait',
	options: { ...TARGET_OPTIONS, timeout: timeoutOption('60s', 'how long to wait for its exit') },
	switches: { wait: { flag: 'wait', about: 'return when the process has ended' } },
	exitCodes: {
		0: 'the signal was sent; with --wait: the process has ended',
		1: 'no proxy was found; with --wait: it did not end in time',
	},
	run: async ({ timeout, ...options }, context) => {
		const { drain } = await import('../running/drain.ts');
		return drain({ ...options, timeoutMs: timeout }, context);
	},
});
