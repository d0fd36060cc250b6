import { SLAB_BYTES, SLABS } from '../shared/slabs.ts';
import { FLAG, FRAME, FRAME_HEAD, frameHead, INITIAL_WINDOW, MAX_FRAME_SIZE } from './frame-format.ts';
import { type Sender, SenderTurns } from './sender-turns.ts';

/**
 * What a connection is about to send. All frames of one turn of the loop are put together and go out in one write: as one
 * latin1 text, or, where larger pieces of bodies are among them, in one slab.
 */
export class Output {
	/** What the client allows us to send on the connection (RFC 9113 section 6.9), bytes. */
	window = INITIAL_WINDOW;
	/** The taker accepts nothing more for now. Control frames are still put together; bodies wait. */
	isBlocked = false;
	/** Put together and not taken yet. */
	bytes = 0;
	readonly #onOutput: () => void;
	readonly #onData: (bytes: number) => void;
	/** Frames that follow those in the slab. */
	#text = '';
	#slab: Buffer | undefined;
	#slabLength = 0;
	/**
	 * The stream of the DATA frame that may still become its last one, or 0. The frame is kept back with its data, or is in the
	 * slab, where `#lastFlags` is the place of its flags.
	 */
	#lastStream = 0;
	#lastData = '';
	#lastFlags = -1;
	/** Streams that wait for the connection's window or for `isBlocked` to end. */
	readonly #turns = new SenderTurns();

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
		const left = SLAB_BYTES - this.bytes - FRAME_HEAD;
		return this.isBlocked || left < LEAST_ROOM ? 0 : Math.min(this.window, MAX_FRAME_SIZE, left);
	}

	/**
	 * Sends a DATA frame; there must be room for it. Whether it is its stream's last one stays open until something follows it:
	 * mostly that is the end of the stream, which then needs no frame of its own.
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
		// Copying a little as text costs less than a buffer.
		if (typeof data !== 'string' && data.length > SHORT) {
			const flagsAt = this.#copy(head, data);
			// A frame that ends its stream is as it will be: the place would be taken for that of the next one's flags.
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

	/** Has it called when there is room again. */
	wait(sender: Sender): void {
		this.#turns.wait(sender);
	}

	/** It has nothing to send any more. */
	forget(sender: Sender): void {
		this.#turns.forget(sender);
	}

	/** Lets those that wait send, a frame each in turn. */
	pump(): void {
		while (this.room > 0 && this.#turns.next());
	}

	/**
	 * Everything, in its order. Strings are latin1.
	 *
	 * @returns with bytes the slab that they are in, which is the caller's from now on.
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

	/** Forgets everything: nobody will take it. */
	clear(): void {
		const taken = this.take();
		if (typeof taken !== 'string') SLABS.release(taken.slab);
		this.#turns.clear();
		this.isBlocked = true;
	}
}

/**
 * Bodies wait for the next turn when a slab is full. It keeps a client with large windows from having all of a large body put
 * into its socket, where nobody counts it. And when so little is left of the slab that frames would get small, bytes.
 */
const LEAST_ROOM = 1024;
/** Of its flags in a frame's head. */
const FLAGS_AT = 4;
/** Pieces of bodies up to this size become text, bytes. */
const SHORT = 2048;
