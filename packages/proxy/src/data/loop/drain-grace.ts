import { type FaultOwner, guarded } from './faults.ts';

/** How long a client that does not know of the drain yet may still send requests, ms. */
const DRAIN_GRACE_MS = 500;

/**
 * Calls back when the grace period is over and all bytes that arrived in it have been read. Timers run before sockets are read, so
 * a request in the kernel's buffer was sent in time.
 */
export function afterDrainGrace(owner: FaultOwner, run: () => void): void {
	setTimeout(() => setImmediate(guarded(owner, run)), DRAIN_GRACE_MS);
}
