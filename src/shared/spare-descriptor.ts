import { closeSync, openSync } from 'node:fs';
import { connect } from 'node:net';
import { devNull } from 'node:os';

/**
 * For the moment when the process has run out of descriptors. libuv keeps a spare one in each thread: it gives it up to
 * accept the connection at hand, closes that, and takes it back. If another thread is quicker it has lost it: then it
 * neither accepts nor sheds, and tries again without a pause, until a descriptor comes free. So each thread that listens
 * keeps one more, and hands it to libuv; and what was taken comes back, for a connection that has the last
 * descriptor is closed (`DescriptorWatch`).
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

/**
 * Whether a listener's new connection has taken the last descriptor, and is to be closed. Looking costs two calls into the
 * kernel, a hundredth of a handshake, so while descriptors are left only the first connection in a while and every eighth is
 * looked at. Once one has found none, each is, until one finds some again: so what slips through is a handful of
 * connections, once.
 */
export class DescriptorWatch {
	readonly #look: () => boolean;
	#exhausted = false;
	#lookedAt = Number.NEGATIVE_INFINITY;
	#unseen = 0;

	/** @param look whether no descriptor is left. */
	constructor(look: () => boolean = descriptorsExhausted) {
		this.#look = look;
	}

	/** To be asked on each new connection. @param now monotonic milliseconds, as of the loop's last tick. */
	isExhausted(now: number): boolean {
		if (!this.#exhausted && this.#unseen < MAX_UNSEEN && now - this.#lookedAt < UNSEEN_MS) {
			this.#unseen++;
			return false;
		}
		this.#lookedAt = now;
		this.#unseen = 0;
		this.#exhausted = this.#look();
		return this.#exhausted;
	}
}

/** Connections in a row that are not looked at, and for how long, ms. */
const MAX_UNSEEN = 7;
const UNSEEN_MS = 100;

/** Whether the process has no descriptor left. */
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
