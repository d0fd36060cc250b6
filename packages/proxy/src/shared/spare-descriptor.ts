import { closeSync, openSync } from 'node:fs';
import { connect } from 'node:net';
import { devNull } from 'node:os';

/**
 * For the moment when the process has run out of descriptors. libuv keeps a spare one in each thread: it gives it up to
 * accept the connection at hand, closes that, and takes it back. If another thread is quicker it has lost it: then it
 * neither accepts nor sheds, and tries again without a pause, until a descriptor comes free. So each thread that listens
 * keeps one more, and hands it to libuv; and the descriptor comes back, because a connection with the last one is closed:
 * descriptor (`descriptorsExhausted`).
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

/** Whether the process has no descriptor left. A listener asks on each connection, which is closed where it took the last one. */
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
