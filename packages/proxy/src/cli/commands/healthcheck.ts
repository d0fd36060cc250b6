import { defineCommand } from '../command.ts';
import { METRICS_OPTION, timeoutOption } from './target-options.ts';

export const healthcheck = defineCommand({
	name: 'healthcheck',
	group: 'Inspect',
	about: 'ask a running proxy whether it is ready',
	details: [
		'Requests /readyz on the metrics listener, or /livez with --live. It replaces curl in container health checks.',
	],
	example: 'proxy healthcheck --metrics 127.0.0.1:9090',
	options: { metrics: METRICS_OPTION, timeout: timeoutOption('2s', 'time limit for the whole response') },
	switches: { live: { flag: 'live', about: 'check only whether it responds' } },
	exitCodes: { 0: 'ready; with --live: alive', 1: 'it is not, and one line says why' },
	run: async ({ metrics, timeout, live }, context) => {
		const { healthcheck } = await import('../running/healthcheck.ts');
		return healthcheck({ metrics, live, timeoutMs: timeout }, context);
	},
});
