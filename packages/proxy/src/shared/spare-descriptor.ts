import { closeSync, openSync } from 'node:fs';
import { connect } from 'node:net';
import { devNull } from 'node:os';

/**
 * Keeps a spare descriptor for libuv when the process runs out of them. libuv has a spare of its own in each thread: it closes the
 * spare, accepts the waiting connection, closes the connection, and opens the spare again. If another thread takes the descriptor
 * first, the spare is lost. Then libuv neither accepts nor sheds connections, and retries without a pause until a descriptor is
 * free. So each listening thread keeps one more spare, and closes it for libuv. It can open it again, because a connection that
 * takes the last descriptor is closed (`descriptorsExhausted`).
 *
 * @param onExhausted called each time the descriptors have run out. libuv does not report the connections that it sheds.
 */
export function keepSpareDescriptor(onExhausted: () => void = () => {}): void {
	let spare = open();
	let wereExhausted = false;
	const look = () => {
		const areExhausted = descriptorsExhausted();
		if (areExhausted && !wereExhausted) onExhausted();
		wereExhausted = areExhausted;
		if (spare !== undefined && areExhausted) {
			closeSync(spare);
			// libuv replaces a lost spare whenever it creates a stream handle.
			connect({ host: 'never.invalid', port: 1, lookup: neverAnswer }).destroy();
			spare = undefined;
		}
		spare ??= open();
	};
	setInterval(look, LOOK_MS).unref();
}

/** How long a listener may be without its spare descriptor, ms. */
const LOOK_MS = 100;

/** Whether the process has no descriptor left. A listener checks this for each connection, and closes the one that took the last. */
export function descriptorsExhausted(): boolean {
	const descriptor = open();
	if (descriptor !== undefined) closeSync(descriptor);
	return descriptor === undefined;
}

function open(): number | undefined {
	try {
		return openSync(devNull, 'r');
	} catch {
		return undefined;
	}
}

function neverAnswer(): void {}
