import type { IncomingMessage } from 'node:http';
import { systemClock } from '../shared/clock.ts';
import { createLogger } from '../shared/log.ts';
import { RateLimitedLog } from '../shared/rate-limited-log.ts';
import type { FaultReport } from './contained.ts';
import { callForeign } from './foreign.ts';

/** Strangers can provoke faults: a few warnings in a period, not one for each. */
const warnings = new RateLimitedLog(
	createLogger(
		{ enabled: () => true, problems: [] },
		({ message, fields }) => process.emitWarning(`${message}: ${fields?.error}`),
		() => new Date(),
	),
	systemClock(process.hrtime.bigint()),
);

/**
 * @param onError the program's own hook; its own faults become warnings. Without one every fault becomes a warning of the process.
 */
export function faultReport(onError: FaultReport = warnOfFault): FaultReport {
	const hook = safeHook('onError', onError);
	return (error: unknown, request: IncomingMessage) => hook(error, request);
}

/**
 * A hook that may be called anywhere: none of its faults gets out, and each becomes a warning of the process.
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

/** Whatever was thrown, in words; it may be no error, and it may throw when it is looked at. */
function describe(error: unknown): string {
	try {
		return error instanceof Error ? (error.stack ?? error.message) : String(error);
	} catch {
		return 'something that cannot be shown';
	}
}
