import type { Logger } from '@mtls-edge-proxy/gate/shared/log.ts';

/**
 * Is told of an error of ours that nothing else has reported. Sockets, deadlines and the end of a turn call into the proxy's code: each of
 * these catches what is thrown there, ends the one request or connection that it was done for, and goes on with the next.
 */
export type FaultReport = (error: unknown) => void;

/** The request or connection that a callback serves. */
export interface FaultOwner {
	/** Something of ours has thrown on its behalf: ends it. The error is reported by it, or thrown again. */
	onFault(error: unknown): void;
}

/** A callback has thrown: ends its owner, and nothing else. */
export function endOwner(owner: FaultOwner, error: unknown, report: FaultReport = uncaught): void {
	try {
		owner.onFault(error);
	} catch (another) {
		report(another);
	}
}

/** Wraps a callback for a socket or a timer: a throw ends only its owner. */
export function guarded<A extends unknown[]>(owner: FaultOwner, callback: (...args: A) => void): (...args: A) => void {
	return (...args) => {
		try {
			callback(...args);
		} catch (error) {
			endOwner(owner, error);
		}
	};
}

/** Where there is no log: the error ends the thread. */
export const uncaught: FaultReport = (error) => {
	queueMicrotask(() => {
		throw error;
	});
};

export function reportTo(log: Logger): FaultReport {
	return (error) => log.error('proxy::worker', 'internal error', { error });
}
