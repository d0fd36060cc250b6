import type { IncomingMessage } from 'node:http';
import { systemClock } from '../shared/clock.ts';
import { createLogger } from '../shared/log.ts';
import { RateLimitedLog } from '../shared/rate-limited-log.ts';
import type { FaultReport } from './contained.ts';
import { callForeign } from './foreign.ts';

/** Callers can provoke faults, so the rate of warnings is limited. */
const warnings = new RateLimitedLog(
	createLogger(
		{ enabled: () => true, problems: [] },
		({ message, fields }) => process.emitWarning(`${message}: ${fields?.error}`),
		() => new Date(),
	),
	systemClock(process.hrtime.bigint()),
);

/**
 * @param onError the program's hook. If it throws or rejects, that becomes a warning of the process. Without a hook, every fault does.
 */
export function faultReport(onError: FaultReport = warnOfFault): FaultReport {
	const hook = safeHook('onError', onError);
	return (error: unknown, request: IncomingMessage) => hook(error, request);
}

/**
 * Wraps a hook so that it never throws or rejects: each of its faults becomes a warning of the process.
 *
 * @param name of the option.
 */
export function safeHook<Arguments extends unknown[]>(
	name: string,
	hook: (...args: Arguments) => unknown,
): (...args: Arguments) => void {
	return (...args) =>
		callForeign(
			() => hook(...args),
			(error) => warnOfHook(name, error),
		);
}

/** @param name of the option. */
export function warnOfHook(name: string, error: unknown): void {
	warn(`${name} has failed`, error);
}

function warnOfFault(error: unknown): void {
	warn('the handler of a request has failed', error);
}

function warn(message: string, error: unknown): void {
	warnings.write('error', 'embed', message, message, () => ({ error: describe(error) }));
}

/** The text of a thrown value, which may be no `Error`, and may itself throw when it is read. */
function describe(error: unknown): string {
	try {
		return error instanceof Error ? (error.stack ?? error.message) : String(error);
	} catch {
		return 'a value that cannot be printed';
	}
}
