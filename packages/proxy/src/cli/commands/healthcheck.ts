import { defineCommand } from '../command.ts';
import { parseDuration } from '../options.ts';
import { METRICS_OPTION } from './target-options.ts';

export const healthcheck = defineCommand({
	name: 'healthcheck',
	group: 'Ask',
	about: 'ask a running proxy whether it takes connections',
	details: ['For containers without curl: asks /readyz of the metrics listener, or /livez.'],
	example: 'proxy healthcheck --metrics 127.0.0.1:9090',
	options: {
		metrics: METRICS_OPTION,
		timeout: {
			flag: 'timeout',
			placeholder: 'TIME',
			fallback: '2s',
			about: 'for the whole answer',
			parse: parseDuration,
		},
	},
	switches: { live: { flag: 'live', about: 'ask whether it answers at all' } },
	exitCodes: { 0: 'ready, or with --live alive', 1: 'not, with one line that says why' },
	run: async ({ metrics, timeout, live }, context) => {
		const { healthcheck } = await import('../running/healthcheck.ts');
		return healthcheck({ metrics, live, timeoutMs: timeout }, context);
	},
});
