#!/usr/bin/env node
import type { Signals } from './cli/command.ts';

// The first statements, with nothing imported before them: until somebody handles SIGUSR1, Node answers it by opening
// its inspector, and SIGHUP and SIGTERM end a process that handles them too late.
const signals: Signals = {
	reloadAsked: undefined,
	onReload: (signal) => {
		signals.reloadAsked = signal;
	},
	onStop: () => process.exit(0),
	closeInspector,
};
const reload = (signal: string) => signals.onReload(signal);
const stop = (signal: string) => signals.onStop(signal);
process.on('SIGUSR1', reload).on('SIGHUP', reload).on('SIGTERM', stop).on('SIGINT', stop);

if (Number.parseInt(process.versions.node, 10) < 24) {
	fail(1, `needs Node 24 or later, and this is Node ${process.versions.node}`);
}
closeInspector();
await main().catch((error: Error & { exitCode?: number }) => {
	// Those that the user can do something about say all in their message; any other is a fault of ours.
	const expected = ['UsageError', 'ConfigError', 'StartError', 'CommandError'].includes(error.name);
	fail(error.exitCode ?? 1, expected ? error.message : (error.stack ?? error.message));
});

async function main(): Promise<void> {
	const { parseCommandLine } = await import('./cli/arguments.ts');
	const { COMMANDS } = await import('./cli/commands.ts');
	const commandLine = parseCommandLine(process.argv.slice(2), process.env, COMMANDS);
	const mainPath = import.meta.filename;
	const serves = commandLine.kind === 'run' && commandLine.command.takesSignals;
	// The proxy outlives the reader of its log.
	if (!serves) process.stdout.on('error', outputFailed);
	switch (commandLine.kind) {
		case 'help':
			return print((await import('./cli/help.ts')).helpFor(process.stdout, COMMANDS, commandLine.of));
		case 'version':
			return print((await import('./cli/version.ts')).versionLine(mainPath));
	}
	const { command, values } = commandLine;
	if (!serves) process.off('SIGTERM', stop).off('SIGINT', stop).off('SIGHUP', reload);
	const { availableParallelism } = await import('node:os');
	const { env, stdout, stderr } = process;
	const context = { env, print, stdout, stderr, cores: availableParallelism(), mainPath, commands: COMMANDS, signals };
	const exitCode = await command.run(values as never, context);
	// Whatever still hangs, such as the read of a file, would keep the process.
	if (exitCode === undefined) return;
	stdout.write('', () => {
		if (!serves && stdout.errored) outputFailed(stdout.errored);
		process.exit(exitCode);
	});
}

/** Open without having been asked for, it is a SIGUSR1 that came before our handler did: somebody wants a reload. */
function closeInspector(): void {
	const options = [...process.execArgv, ...(process.env.NODE_OPTIONS ?? '').split(' ')];
	// `--inspect-port` and its like only say how.
	if (options.some((option) => /^--inspect(-brk|-wait)?(=|$)/.test(option))) return;
	const inspector = process.getBuiltinModule('node:inspector');
	if (inspector?.url() === undefined) return;
	inspector.close();
	signals.reloadAsked = 'SIGUSR1';
}

function print(text: string): void {
	process.stdout.write(text);
}

/** What was not written must not pass for success: `proxy schema > FILE` on a full disk. A reader that has gone, as `head` does, has all it wants. */
function outputFailed({ code }: NodeJS.ErrnoException): void {
	if (code !== 'EPIPE') fail(1, `standard output cannot be written (${code})`);
}

function fail(exitCode: number, message: string): never {
	process.stderr.write(`${message.replaceAll(/^/gm, 'proxy: ')}\n`);
	process.exit(exitCode);
}
