import { defineCommand } from '../command.ts';
import { addressConflicts, RUN_OPTIONS, RUN_SWITCHES, threads } from '../run-options.ts';

export const check = defineCommand({
	name: 'check',
	group: 'Ask',
	about: 'say what a start would refuse, and start nothing',
	details: [
		'Takes the options of the start, so that it can stand before the same command line. Reads the configuration and the files it names, and reports every error and warning at once, each with its line.',
	],
	example: 'proxy check --config /etc/proxy/config.toml',
	options: RUN_OPTIONS,
	switches: { ...RUN_SWITCHES, json: { flag: 'json', about: 'print one JSON object: ok, errors, warnings' } },
	exitCodes: { 0: 'nothing to refuse', 1: 'errors found' },
	conflicts: addressConflicts,
	run: async ({ config, workers, forceWorkers, bind, metricsBind, rustLog, json }, { env, print, cores, commands }) => {
		const { runCheck } = await import('../check.ts');
		return runCheck(
			{ config, workers: threads(workers, cores), forceWorkers, listeners: { bind, metricsBind }, rustLog, json },
			{ env, print, cores, commands },
		);
	},
});
