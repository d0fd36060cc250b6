import { DEFAULT_COMMAND, defineCommand } from '../command.ts';
import { addressConflicts, RUN_OPTIONS, RUN_SWITCHES } from '../run-options.ts';

export const run = defineCommand({
	name: DEFAULT_COMMAND,
	group: 'Serve',
	about: 'run the proxy; the default command',
	example: 'proxy --config /etc/proxy/config.toml --metrics-bind 127.0.0.1:9090',
	options: RUN_OPTIONS,
	switches: RUN_SWITCHES,
	exitCodes: { 0: 'drained after a signal', 1: 'could not start, or got a second signal during the drain' },
	takesSignals: true,
	conflicts: addressConflicts,
	run: async (values, context) => (await import('../serve.ts')).serve(values, context),
});
