import type { IncomingMessage } from 'node:http';
import { systemClock } from '../shared/clock.ts';
import { createLogger } from '../shared/log.ts';
import { RateLimitedLog } from '../shared/rate-limited-log.ts';
import type { FaultReport } from './contained.ts';

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
 * @param onError the program's own hook; what it throws becomes a warning, since the hook runs where nobody could catch it.
 *   Without one every fault becomes a warning of the process.
 */
export function faultReport(onError: FaultReport = warnOfFault): FaultReport {
	return (error: unknown, request: IncomingMessage) => {
		try {
			onError(error, request);
		} catch (thrown) {
			warn('onError has thrown', thrown);
		}
	};
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
