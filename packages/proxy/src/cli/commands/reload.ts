import { defineCommand } from '../command.ts';
import { TARGET_OPTIONS, timeoutOption } from './target-options.ts';

export const reload = defineCommand({
	name: 'reload',
	group: 'Control a running proxy',
	about: 'reload the files, and print the outcome',
	details: [
		"Sends SIGHUP to the proxy, and reads the outcome from the metrics listener. Run it as the proxy's user or as root, on the same machine and in the same container.",
	],
	example: 'proxy reload --pid-file /run/proxy/proxy.pid',
	options: { ...TARGET_OPTIONS, timeout: timeoutOption('30s', 'how long to wait for the outcome') },
	switches: { noWait: { flag: 'no-wait', about: 'only send the signal; the log has the outcome' } },
	exitCodes: {
		0: 'all changes are in force',
		3: 'all changes are in force, except the settings listed in the output, which need a restart',
		1: 'the reload failed and the old state stays; or no proxy was found, or the outcome of the reload is unknown',
	},
	run: async ({ timeout, noWait, ...target }, context) => {
		const { reload } = await import('../running/reload.ts');
		return reload({ ...target, timeoutMs: timeout, wait: !noWait }, context);
	},
});
