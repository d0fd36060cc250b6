import { SLAB_BYTES, SLABS } from '../shared/slabs.ts';
import { FLAG, FRAME, FRAME_HEAD, frameHead, INITIAL_WINDOW, MAX_FRAME_SIZE } from './frame-format.ts';
import { NO_DYNAMIC_TABLE } from './hpack-encoder.ts';
import { SenderTurns } from './sender-turns.ts';

/**
 * The frames that a connection is about to send. All frames of one turn of the event loop go out in one write: as one latin1
 * string, or, with larger pieces of bodies among them, in one slab.
 */
export class Output {
	/** Send window of the connection (RFC 9113 section 6.9), bytes. */
	window = INITIAL_WINDOW;
	/** The socket accepts nothing more for now. Control frames are still collected; bodies wait. */
	isBlocked = false;
	/** Bytes that are not taken yet. */
	bytes = 0;
	readonly #onOutput: () => void;
	readonly #onData: (bytes: number) => void;
	/** Frames after those in the slab. */
	#text = '';
	#slab: Buffer | undefined;
	#slabLength = 0;
	/**
	 * Stream of the last DATA frame, if it may still get END_STREAM; otherwise 0. Its data is in `#lastData`, or the frame is in the
	 * slab, with its flags at `#lastFlags`.
	 */
	#lastStream = 0;
	#lastData = '';
	#lastFlags = -1;
	#hasSentBlock = false;
	/** Streams that wait for the connection's window, or while `isBlocked`. */
	readonly turns = new SenderTurns();

	/**
	 * @param onOutput called when the output is no longer empty.
	 * @param onData called with the length of each piece of a body.
	 */
	constructor(onOutput: () => void, onData: (bytes: number) => void) {
		this.#onOutput = onOutput;
		this.#onData = onData;
	}

	write(frames: string): void {
		if (this.#lastStream !== 0) this.#writeLast(false);
		this.#count(frames.length);
		this.#text += frames;
	}

	/** The start of the connection's first header block; empty for later ones. */
	blockPrefix(): string {
		if (this.#hasSentBlock) return '';
		this.#hasSentBlock = true;
		return NO_DYNAMIC_TABLE;
	}

	/** Bytes of a body that one frame may have, by the limits of the connection only. */
	get room(): number {
		const left = SLAB_BYTES - this.bytes - FRAME_HEAD;
		return this.isBlocked || left < LEAST_ROOM ? 0 : Math.min(this.window, MAX_FRAME_SIZE, left);
	}

	/**
	 * Writes a DATA frame; there must be `room` for it. Its END_STREAM flag can still be set until the next frame is written: usually
	 * the end of the stream follows, and then needs no frame of its own.
	 *
	 * @param data is copied.
	 */
	writeData(streamId: number, data: string | Buffer, endStream: boolean): void {
		if (streamId === 0) throw new Error('DATA on a stream that is not open');
		if (this.#lastStream !== 0) {
			if (data.length === 0 && endStream && this.#lastStream === streamId) return this.#writeLast(true);
			this.#writeLast(false);
		}
		this.window -= data.length;
		this.#onData(data.length);
		this.#count(FRAME_HEAD + data.length);
		if (!endStream) this.#lastStream = streamId;
		const head = frameHead(data.length, FRAME.DATA, endStream ? FLAG.END_STREAM : 0, streamId);
		// Copying a short piece as text is cheaper than using a slab.
		if (typeof data !== 'string' && data.length > SHORT) {
			const flagsAt = this.#copy(head, data);
			// Only a frame that may still change: `#lastFlags` would otherwise be taken for the next frame's.
			if (!endStream) this.#lastFlags = flagsAt;
			return;
		}
		const text = typeof data === 'string' ? data : data.toString('latin1');
		if (endStream) this.#text += head + text;
		else this.#lastData = text;
	}

	/** @returns the place of the frame's flags in the slab. */
	#copy(head: string, data: Buffer): number {
		this.#slab ??= SLABS.take();
		this.#textToSlab(head);
		const dataAt = this.#slabLength;
		this.#slab.set(data, dataAt);
		this.#slabLength += data.length;
		return dataAt - FRAME_HEAD + FLAGS_AT;
	}

	#textToSlab(more: string): void {
		const text = this.#text + more;
		this.#slab!.write(text, this.#slabLength, 'latin1');
		this.#slabLength += text.length;
		this.#text = '';
	}

	#writeLast(endStream: boolean): void {
		const flags = endStream ? FLAG.END_STREAM : 0;
		if (this.#lastFlags !== -1) this.#slab![this.#lastFlags] = flags;
		else this.#text += frameHead(this.#lastData.length, FRAME.DATA, flags, this.#lastStream) + this.#lastData;
		this.#lastStream = 0;
		this.#lastData = '';
		this.#lastFlags = -1;
	}

	#count(bytes: number): void {
		if (this.bytes === 0) this.#onOutput();
		this.bytes += bytes;
	}

	/** Lets waiting senders send, a frame each in turn. */
	pump(): void {
		while (this.room > 0 && this.turns.next());
	}

	/**
	 * All frames in order. Strings are latin1.
	 *
	 * @returns a string, or bytes and the slab that they are in, which the caller owns from now on.
	 */
	take(): string | { readonly bytes: Buffer; readonly slab: Buffer } {
		if (this.#lastStream !== 0) this.#writeLast(false);
		const slab = this.#slab;
		const text = this.#text;
		const length = this.#slabLength;
		this.bytes = 0;
		if (slab === undefined) {
			this.#text = '';
			return text;
		}
		this.#slab = undefined;
		this.#slabLength = 0;
		this.#text = '';
		const rest = text.length;
		if (length + rest > SLAB_BYTES)
			return { bytes: Buffer.concat([slab.subarray(0, length), Buffer.from(text, 'latin1')]), slab };
		slab.write(text, length, 'latin1');
		return { bytes: slab.subarray(0, length + rest), slab };
	}

	/** Drops everything: the connection is gone. */
	clear(): void {
		const taken = this.take();
		if (typeof taken !== 'string') SLABS.release(taken.slab);
		this.turns.clear();
		this.isBlocked = true;
	}
}

/**
 * Bodies wait for the next turn when less than this is left in the slab, bytes: smaller frames are inefficient. The wait also keeps
 * a large body from going into the socket's buffer at once, where it is not accounted for.
 */
const LEAST_ROOM = 1024;
/** Index of the flags in a frame's head. */
const FLAGS_AT = 4;
/** Pieces of bodies up to this size become text, bytes. */
const SHORT = 2048;
