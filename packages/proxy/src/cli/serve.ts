import { existsSync } from 'node:fs';
import { createLogger, parseLogFilter } from '@mtls-edge-proxy/gate/shared/log.ts';
import { bodyMode } from '#body';
import { assertEnoughFiles, openFilesLimit } from '../control/descriptor-limit.ts';
import { readStartFiles } from '../control/files/inspection.ts';
import { createLogOutput, FileLogStream } from '../control/log-output.ts';
import { metricsWarnings, runsInContainer } from '../control/start-warnings.ts';
import { startSupervisor } from '../control/supervisor.ts';
import type { Context } from './command.ts';
import { unknownVariables } from './environment.ts';
import { type RunValues, threads } from './run-options.ts';
import { claimPidFile } from './running/pid-file.ts';
import { readVersion } from './version.ts';
import { assertFewWorkers } from './worker-limit.ts';

const STDOUT = 1;
/** Time for the reader of the log to take the last lines after the drain. */
const LAST_LINES_MS = 1_000;

/** `proxy` itself. Resolves when all workers accept connections and signals go to the supervisor. */
export async function serve(
	{ config, bind, metricsBind, pidFile: pidPath, forceWorkers, logFormat, noStatus, rustLog, ...values }: RunValues,
	{ env, stdout, cores, mainPath, commands, signals }: Context,
): Promise<undefined> {
	const workers = threads(values.workers, cores);
	assertFewWorkers(workers, cores, forceWorkers);
	assertEnoughFiles(openFilesLimit(), workers);
	const files = await readStartFiles(config, new Date());
	const pidFile = pidPath === undefined ? undefined : claimPidFile(pidPath, mainPath);
	const filter = parseLogFilter(rustLog);
	const output = createLogOutput(FileLogStream.of(STDOUT) ?? stdout, logFormat, env);
	const log = createLogger(filter, output.writeRecord, () => new Date());
	for (const problem of filter.problems) log.warn('proxy', `RUST_LOG: ${problem}`);
	for (const { name, message } of unknownVariables(env, commands)) log.warn('proxy', `${name}: ${message}`);
	for (const warning of metricsWarnings(metricsBind.host, runsInContainer(env, existsSync))) log.warn('proxy', warning);
	const supervisor = await startSupervisor({
		files,
		bind,
		metricsBind,
		workers,
		statusPage: !noStatus,
		workerUrl: new URL('../data/worker.ts', import.meta.url),
		logFilter: rustLog,
		log,
		output,
		version: readVersion(mainPath),
		bodyMode,
		// The first worker may have requests to finish before the last one is up.
		onAccepting: (stop) => {
			signals.onStop = stop;
		},
		// Log lines of requests may still wait for the reader; a second signal does not wait for them.
		exit: (code) => (code === 0 ? output.whenWritten(LAST_LINES_MS, () => process.exit(0)) : process.exit(code)),
	});
	if (supervisor === undefined) return;
	pidFile?.publish();
	signals.onReload = (signal) => void supervisor.reload(signal);
	// Once more, for a signal that was on its way to Node's own handler when ours replaced it.
	signals.closeInspector();
	if (signals.reloadAsked !== undefined) signals.onReload(signals.reloadAsked);
}
