import { closeSync, openSync } from 'node:fs';
import { connect } from 'node:net';
import { devNull } from 'node:os';

/**
 * For the moment when the process runs out of descriptors. libuv keeps a spare one in each thread: it gives up the spare to
 * accept the waiting connection, closes the connection, and takes the spare back. If another thread is faster, the spare is
 * lost: libuv then neither accepts nor sheds connections, and retries without a pause until a descriptor is free. So each
 * listening thread keeps one more, and hands it to libuv. It gets the descriptor back, because a connection that takes the
 * last one is closed (`descriptorsExhausted`).
 */
export function keepSpareDescriptor(): void {
	let spare = open();
	const look = () => {
		if (spare !== undefined && descriptorsExhausted()) {
			closeSync(spare);
			// Whenever it makes a handle for a stream, libuv replaces a spare descriptor that it has lost.
			connect({ host: 'never.invalid', port: 1, lookup: neverAnswer }).destroy();
			spare = undefined;
		}
		spare ??= open();
	};
	setInterval(look, LOOK_MS).unref();
}

/** How long a listener may be without its spare descriptor, ms. */
const LOOK_MS = 100;

/** Whether the process has no descriptor left. A listener checks this for each connection, and closes one that took the last. */
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
