import type { ProcessFacts } from '../../control/admin/process-facts.ts';
import { CommandError, type Context } from '../command.ts';
import { askFacts, findProxy, hasGone, type SignalOptions, seconds, sendSignal } from './find.ts';
import { type Machine, THIS_MACHINE } from './machine.ts';

const POLL_MS = 50;

/**
 * `proxy reload`: sends SIGHUP and reports the outcome.
 *
 * @returns the exit code: 0 if the reload applied everything, 1 if any part failed, 3 if settings need a restart.
 * @throws CommandError if there is no proxy or the outcome cannot be seen.
 */
export async function reload(
	{ timeoutMs, wait, ...target }: SignalOptions,
	{ print, mainPath }: Pick<Context, 'print' | 'mainPath'>,
	machine: Machine = THIS_MACHINE,
): Promise<number> {
	const found = await findProxy(target, mainPath, machine);
	const { pid, facts: before } = found;
	if (wait && typeof before === 'string') {
		throw new CommandError(
			`nothing was reloaded, because the outcome could not be read: ${before}; give --metrics HOST:PORT, or --no-wait`,
		);
	}
	const start = machine.now();
	sendSignal(found, 'SIGHUP', machine);
	if (!wait || typeof before === 'string') {
		print(`process ${pid} was told to reload; its log has the outcome\n`);
		return 0;
	}
	for (;;) {
		await machine.sleep(POLL_MS);
		const now = await askFacts(target.metrics, machine).catch((error: Error) => error);
		if (hasGone(found, machine)) throw new CommandError(`process ${pid} has ended in the meantime; its log says why`);
		if (!(now instanceof Error) && now.pid === pid) {
			const outcome = outcomeOf(before, now);
			if (outcome !== undefined) {
				print(`${outcome.words} (process ${pid}, ${seconds(machine.now() - start)})\n`);
				return outcome.exitCode;
			}
		}
		if (machine.now() - start >= timeoutMs) {
			const reason = now instanceof Error ? now.message : 'the reload is still running';
			throw new CommandError(
				`no outcome within ${seconds(timeoutMs)}: ${reason}; the log of process ${pid} has it later`,
			);
		}
	}
}

/**
 * The outcome of the reloads since `before`; `undefined` while there is none, or one is running. Another reload may have been
 * running when ours was requested, so the first to end need not be ours.
 */
export function outcomeOf(
	{ reloads: before }: Pick<ProcessFacts, 'reloads'>,
	{ reloads, reloading, generation, failures, needsRestart }: Omit<ProcessFacts, 'pid' | 'startTicks' | 'phase'>,
): { readonly exitCode: 0 | 1 | 3; readonly words: string } | undefined {
	const failed = reloads.failure - before.failure;
	const done = reloads.success - before.success + failed;
	if (done <= 0 || reloading) return undefined;
	const vain = needsRestart.length === 0 ? '' : `needs a restart: ${needsRestart.join(', ')}\n`;
	if (failed === 0) {
		const words = `${vain}reloaded: generation ${generation} is in force`;
		return { exitCode: vain === '' ? 0 : 3, words };
	}
	const causes = failures.map((cause) => `${cause}\n`).join('');
	const more = failures.length === 0 ? '; the log says why' : '';
	const words = `the reload failed, and the parts that failed are unchanged: generation ${generation} is in force${more}`;
	return { exitCode: 1, words: `${causes}${vain}${words}` };
}
