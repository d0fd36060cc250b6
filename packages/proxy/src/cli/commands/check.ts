import { defineCommand } from '../command.ts';
import { addressConflicts, RUN_OPTIONS, RUN_SWITCHES, threads } from '../run-options.ts';

export const check = defineCommand({
	name: 'check',
	group: 'Inspect',
	about: 'check the configuration and its files, without starting the proxy',
	details: [
		'Takes the options of proxy run, so you can put check before the same options. Reads the configuration and the files it names, and reports all errors and warnings that a start would report, each with its line.',
	],
	example: 'proxy check --config /etc/proxy/config.toml',
	options: RUN_OPTIONS,
	switches: { ...RUN_SWITCHES, json: { flag: 'json', about: 'print one JSON object: ok, errors, warnings' } },
	exitCodes: { 0: 'no errors', 1: 'errors found' },
	conflicts: addressConflicts,
	run: async ({ config, workers, forceWorkers, bind, metricsBind, rustLog, json }, { env, print, cores, commands }) => {
		const { runCheck } = await import('../check.ts');
		return runCheck(
			{ config, workers: threads(workers, cores), forceWorkers, listeners: { bind, metricsBind }, rustLog, json },
			{ env, print, cores, commands },
		);
	},
});
