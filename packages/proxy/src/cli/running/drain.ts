import { CommandError, type Context } from '../command.ts';
import { findProxy, hasGone, type SignalOptions, seconds, sendSignal } from './find.ts';
import { type Machine, THIS_MACHINE } from './machine.ts';

const POLL_MS = 50;

/**
 * `proxy drain`: SIGTERM, once. A second one would cut the drain short, so a proxy that says it is draining gets none.
 *
 * @returns the exit code 0.
 * @throws CommandError if there is no proxy, or it has not ended in time.
 */
export async function drain(
	{ wait, timeoutMs, ...target }: SignalOptions,
	{ print, mainPath }: Pick<Context, 'print' | 'mainPath'>,
	machine: Machine = THIS_MACHINE,
): Promise<number> {
	const found = await findProxy(target, mainPath, machine);
	const { pid } = found;
	const start = machine.now();
	const isDraining = typeof found.facts !== 'string' && found.facts.phase === 'stopping';
	if (!isDraining) sendSignal(found, 'SIGTERM', machine);
	if (!wait) {
		print(isDraining ? `process ${pid} is draining already\n` : `process ${pid} was told to drain\n`);
		return 0;
	}
	while (!hasGone(found, machine)) {
		if (machine.now() - start >= timeoutMs) {
			throw new CommandError(`process ${pid} is still draining after ${seconds(timeoutMs)}; see its log`);
		}
		await machine.sleep(POLL_MS);
	}
	print(`process ${pid} has ended after ${seconds(machine.now() - start)}\n`);
	return 0;
}
