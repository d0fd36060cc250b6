#!/usr/bin/env node
import type { CommandLine } from './cli/arguments.ts';

// The first statements, with nothing imported before them: until somebody handles SIGUSR1, Node answers it by opening
// its inspector, and SIGHUP and SIGTERM end a process that handles them too late.
const signals = {
	/** The signal that asked for a reload before there was anybody to do it. */
	reloadAsked: undefined as string | undefined,
	onReload: (signal: string) => {
		signals.reloadAsked = signal;
	},
	onStop: (_signal: string): void => process.exit(0),
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
	const expected = ['UsageError', 'ConfigError', 'StartError'].includes(error.name);
	fail(error.exitCode ?? 1, expected ? error.message : (error.stack ?? error.message));
});

async function main(): Promise<void> {
	const { availableParallelism } = await import('node:os');
	const { parseCommandLine } = await import('./cli/arguments.ts');
	const commandLine = parseCommandLine(process.argv.slice(2), process.env, availableParallelism());
	switch (commandLine.command) {
		case 'help':
			return print((await import('./cli/help.ts')).helpText(process.stdout.columns));
		case 'version':
			return print(`proxy ${await readVersion()} (${await readBodyMode()} bodies, Node ${process.version})\n`);
		case 'check':
			return check(commandLine);
		case 'demo':
			return demo(commandLine);
		case 'embed-demo':
			return embedDemo();
		case 'run':
			return run(commandLine);
	}
}

/** For the reader of the log to take the last lines after the drain. */
const LAST_LINES_MS = 1_000;

type Command<Name extends CommandLine['command']> = Extract<CommandLine, { readonly command: Name }>;

async function run({ config: path, bind, metricsBind, workers, logFormat, rustLog }: Command<'run'>): Promise<void> {
	const { assertEnoughFiles, openFilesLimit } = await import('./control/descriptor-limit.ts');
	assertEnoughFiles(openFilesLimit(), workers);
	const { readStartFiles } = await import('./control/files/inspection.ts');
	const files = await readStartFiles(path, new Date());
	const { createLogger, parseLogFilter } = await import('./shared/log.ts');
	const { createLogOutput } = await import('./control/log-output.ts');
	const { startSupervisor } = await import('./control/supervisor.ts');
	const filter = parseLogFilter(rustLog);
	const output = createLogOutput(process.stdout, logFormat, process.env);
	const log = createLogger(filter, output.writeRecord, () => new Date());
	for (const problem of filter.problems) log.warn('proxy', `RUST_LOG: ${problem}`);
	const { unknownVariables } = await import('./cli/environment.ts');
	for (const { name, message } of unknownVariables(process.env)) log.warn('proxy', `${name}: ${message}`);
	let stopAsked: string | undefined;
	const supervisor = await startSupervisor({
		files,
		bind,
		metricsBind,
		workers,
		workerUrl: new URL('./data/worker.ts', import.meta.url),
		logFilter: rustLog,
		log,
		output,
		version: await readVersion(),
		bodyMode: await readBodyMode(),
		// The first worker may have requests to finish before the last one is up.
		onAccepting: () => {
			signals.onStop = (signal) => {
				if (stopAsked !== undefined) process.exit(1);
				stopAsked = signal;
			};
		},
		// What requests have left to say may still wait for the reader; a second signal does not.
		exit: (code) => (code === 0 ? output.whenWritten(LAST_LINES_MS, () => process.exit(0)) : process.exit(code)),
	});
	signals.onStop = supervisor.stop;
	signals.onReload = (signal) => void supervisor.reload(signal);
	// Once more, for a signal that was on its way to Node's own handler when ours took its place.
	closeInspector();
	if (stopAsked !== undefined) signals.onStop(stopAsked);
	else if (signals.reloadAsked !== undefined) signals.onReload(signals.reloadAsked);
}

async function check(commandLine: Command<'check'>): Promise<void> {
	const { runCheck } = await import('./cli/check.ts');
	const code = await runCheck(commandLine, process.env, print);
	// A read that hangs would keep the process.
	process.stdout.write('', () => process.exit(code));
}

async function demo({ once, dir }: Command<'demo'>): Promise<void> {
	// The demo stops what it has started by itself.
	process.off('SIGTERM', stop).off('SIGINT', stop).off('SIGHUP', reload);
	const { runDemo } = await import('./cli/demo/run.ts');
	process.exitCode = await runDemo({ once, dir, out: process.stdout, mainPath: import.meta.filename });
}

async function embedDemo(): Promise<void> {
	// It drains by itself; SIGHUP ends it, as it ends any command whose terminal goes.
	process.off('SIGTERM', stop).off('SIGINT', stop).off('SIGHUP', reload);
	const { runEmbedDemo } = await import('./embed/example/service.ts');
	process.exit(await runEmbedDemo(process.env, { stdout: process.stdout, stderr: process.stderr, signals: process }));
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

/** In the source and in the bundle alike, package.json lies one folder above this module. */
async function readVersion(): Promise<string> {
	const { readFileSync } = await import('node:fs');
	const manifest = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8'));
	return manifest.version;
}

/** Known by the module alone that a build or `-C boxed_body` has chosen. */
async function readBodyMode(): Promise<string> {
	return (await import('#body')).bodyMode;
}

function print(text: string): void {
	process.stdout.write(text);
}

function fail(exitCode: number, message: string): never {
	process.stderr.write(`${message.replaceAll(/^/gm, 'proxy: ')}\n`);
	process.exit(exitCode);
}
