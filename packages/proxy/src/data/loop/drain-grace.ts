import { type FaultOwner, guarded } from './faults.ts';

/** For how long a client that has been told nothing yet may still bring a request while the proxy drains, ms. */
const DRAIN_GRACE_MS = 500;

/**
 * Calls back when the grace is over and what had arrived by then has been read: timers run before the sockets are
 * looked at, and a request that lies in the kernel's buffer is one that was sent in time.
 */
export function afterDrainGrace(owner: FaultOwner, run: () => void): void {
	setTimeout(() => setImmediate(guarded(owner, run)), DRAIN_GRACE_MS);
}
