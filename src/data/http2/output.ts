import { FLAG, FRAME, FRAME_HEAD, frameHead, INITIAL_WINDOW, MAX_FRAME_SIZE } from './frame-format.ts';

/** Has body bytes that could not go out yet. */
export interface Sender {
	/** Sends a frame of them. @returns whether it could send more at once. */
	sendFrame(): boolean;
}

/**
 * What a connection is about to send. All frames of one turn of the loop are put together and go out in one write: as one
 * latin1 text, unless a large body is among them.
 */
export class Output {
	/** What the client allows us to send on the connection (RFC 9113 section 6.9), bytes. */
	window = INITIAL_WINDOW;
	/** Whoever takes this takes nothing more for now. Control frames are still put together; bodies wait. */
	isBlocked = false;
	/** Put together and not taken yet. */
	bytes = 0;
	readonly #onOutput: () => void;
	readonly #onData: (bytes: number) => void;
	#text = '';
	#pieces: (string | Buffer)[] | undefined;
	/** The DATA frame that is kept back, if any: its stream, or 0, and its data. */
	#lastStream = 0;
	#lastData: string | Buffer = '';
	/** Who waits for the connection's window or for `isBlocked` to end, in turn. */
	#waiting: Sender[] = [];

	/**
	 * @param onOutput called when there is something to take after there was nothing.
	 * @param onData called with the bytes of each piece of a body.
	 */
	constructor(onOutput: () => void, onData: (bytes: number) => void) {
		this.#onOutput = onOutput;
		this.#onData = onData;
	}

	/** @param frames whole ones. */
	write(frames: string): void {
		if (this.#lastStream !== 0) this.#writeLast(false);
		this.#count(frames.length);
		this.#text += frames;
	}

	/** How many bytes of a body may go out in one frame, by the connection alone. */
	get room(): number {
		return this.isBlocked || this.bytes >= MAX_TURN ? 0 : Math.min(this.window, MAX_FRAME_SIZE);
	}

	/**
	 * Sends a DATA frame; there must be room for it. The frame is kept back until something follows it: mostly that is the
	 * end of its stream, which then needs no frame of its own.
	 */
	writeData(streamId: number, data: string | Buffer, endStream: boolean): void {
		if (this.#lastStream !== 0) {
			if (data.length === 0 && endStream && this.#lastStream === streamId) return this.#writeLast(true);
			this.#writeLast(false);
		}
		this.window -= data.length;
		this.#onData(data.length);
		this.#count(FRAME_HEAD + data.length);
		if (endStream) return this.#append(streamId, data, true);
		this.#lastStream = streamId;
		this.#lastData = data;
	}

	#writeLast(endStream: boolean): void {
		const streamId = this.#lastStream;
		const data = this.#lastData;
		this.#lastStream = 0;
		this.#lastData = '';
		this.#append(streamId, data, endStream);
	}

	#append(streamId: number, data: string | Buffer, endStream: boolean): void {
		this.#text += frameHead(data.length, FRAME.DATA, endStream ? FLAG.END_STREAM : 0, streamId);
		// Copying a little costs less than a write of several pieces.
		if (typeof data === 'string' || data.length <= SHORT) {
			this.#text += typeof data === 'string' ? data : data.toString('latin1');
			return;
		}
		this.#pieces ??= [];
		this.#pieces.push(this.#text, data);
		this.#text = '';
	}

	#count(bytes: number): void {
		if (this.bytes === 0) this.#onOutput();
		this.bytes += bytes;
	}

	/** Has it called when there is room again. */
	wait(sender: Sender): void {
		this.#waiting.push(sender);
	}

	/** It has nothing to send any more. A client that opens no window could have us remember any number of those. */
	forget(sender: Sender): void {
		const at = this.#waiting.indexOf(sender);
		if (at !== -1) this.#waiting.splice(at, 1);
	}

	/** Lets those that wait send, a frame each in turn. */
	pump(): void {
		while (this.#waiting.length > 0 && this.room > 0) {
			const sender = this.#waiting.shift()!;
			if (sender.sendFrame()) this.#waiting.push(sender);
		}
	}

	/** Everything, in its order; strings are latin1. */
	take(): string | (string | Buffer)[] {
		if (this.#lastStream !== 0) this.#writeLast(false);
		const text = this.#text;
		const pieces = this.#pieces;
		this.#text = '';
		this.#pieces = undefined;
		this.bytes = 0;
		if (pieces === undefined) return text;
		if (text !== '') pieces.push(text);
		return pieces;
	}

	/** Forgets everything: nobody will take it. */
	clear(): void {
		this.take();
		this.#waiting = [];
		this.isBlocked = true;
	}
}

/**
 * Bytes of a turn after which bodies wait for the next one. It keeps a client with large windows from having all of a large
 * body put into its socket, where nobody counts it.
 */
const MAX_TURN = 131_072;
/** Pieces of bodies up to this size are copied into the text, bytes. */
const SHORT = 2048;
