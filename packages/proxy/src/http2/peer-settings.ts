import { type ConnectionError, flowError, protocolError, sizeError } from './errors.ts';
import { INITIAL_WINDOW, MAX_FRAME_SIZE, MAX_WINDOW, SETTING } from './frame-format.ts';
import { uint32At } from './frame-reader.ts';

/**
 * The peer's settings (RFC 9113 section 6.5.2). The frame size and the table size are ignored: the proxy sends frames of at most
 * the size that every peer must accept, and uses no dynamic table.
 */
export class PeerSettings {
	/** Window of new streams, bytes. */
	window = INITIAL_WINDOW;
	maxStreams = Number.POSITIVE_INFINITY;
	/** Bytes of names and values, plus 32 for each field. */
	maxHeaderList = Number.POSITIVE_INFINITY;
	/** The peer accepts extended CONNECT (RFC 8441). */
	takesConnect = false;
	readonly #mayPush: boolean;

	/** @param mayPush the peer may enable push: it is no server. */
	constructor(mayPush: boolean) {
		this.#mayPush = mayPush;
	}

	/** Reads the payload of a SETTINGS frame. All values are checked. @throws ConnectionError */
	read(bytes: Buffer, from: number, to: number): void {
		if ((to - from) % 6 !== 0) throw sizeError('SETTINGS of a wrong length');
		for (let at = from; at < to; at += 6) this.#take((bytes[at]! << 8) | bytes[at + 1]!, uint32At(bytes, at + 2));
	}

	#take(id: number, value: number): void {
		switch (id) {
			case SETTING.ENABLE_PUSH:
				if (value > (this.#mayPush ? 1 : 0)) throw outOfRange('ENABLE_PUSH');
				break;
			case SETTING.NO_RFC7540_PRIORITIES:
				if (value > 1) throw outOfRange('a setting that is 0 or 1');
				break;
			case SETTING.ENABLE_CONNECT_PROTOCOL:
				// RFC 8441 section 3: once enabled, it stays enabled.
				if (value > 1 || (value === 0 && this.takesConnect)) throw outOfRange('a setting that is 0 or 1');
				this.takesConnect = value === 1;
				break;
			case SETTING.MAX_CONCURRENT_STREAMS:
				this.maxStreams = value;
				break;
			case SETTING.MAX_HEADER_LIST_SIZE:
				this.maxHeaderList = value;
				break;
			case SETTING.INITIAL_WINDOW_SIZE:
				if (value > MAX_WINDOW) throw flowError('INITIAL_WINDOW_SIZE');
				this.window = value;
				break;
			case SETTING.MAX_FRAME_SIZE:
				if (value < MAX_FRAME_SIZE || value > 0xffffff) throw outOfRange('MAX_FRAME_SIZE');
		}
	}
}

function outOfRange(setting: string): ConnectionError {
	return protocolError(`${setting} out of range`);
}
