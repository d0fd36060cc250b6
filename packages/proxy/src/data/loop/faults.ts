import type { EventEmitter } from 'node:events';
import type { Logger } from '@mtls-edge-proxy/gate/shared/log.ts';

/**
 * Gets internal errors that nothing else has reported. Sockets, deadlines and the end of a turn call into the proxy's code. Each of
 * these entry points catches errors, ends the request or connection that it served, and goes on with the next.
 */
export type FaultReport = (error: unknown) => void;

/** The request or connection that a callback serves. */
export interface FaultOwner {
	/** An internal error: ends the request or connection. It reports the error, or throws it again. */
	onFault(error: unknown): void;
}

/** Ends the owner of a callback that has thrown, and nothing else. */
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

/** Listens to events of a socket: a throw ends only its owner. */
export function listen(
	socket: EventEmitter,
	owner: FaultOwner,
	listeners: Readonly<Record<string, (error: NodeJS.ErrnoException) => void>>,
): void {
	for (const [event, listener] of Object.entries(listeners)) socket.on(event, guarded(owner, listener));
}

/** The default, without a log: the error ends the thread. */
export const uncaught: FaultReport = (error) => {
	queueMicrotask(() => {
		throw error;
	});
};

export function reportTo(log: Logger): FaultReport {
	return (error) => log.error('proxy::worker', 'internal error', { error });
}
