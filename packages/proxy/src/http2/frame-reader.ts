import { type ConnectionError, protocolError, sizeError } from './errors.ts';
import { FLAG, FRAME, FRAME_HEAD, MAX_FRAME_SIZE } from './frame-format.ts';

/** Receives frames from a `FrameReader`. Bytes are views that are valid only during the call. */
export interface FrameSink {
	/** The frames so far have used up the budget: the next ones must wait. */
	readonly isOverdrawn: boolean;
	/** The head of a DATA frame. @param length bytes of its payload, padding included, all of which count against the windows. */
	onDataHead(streamId: number, length: number): void;
	/** A piece of the frame's data, without padding; never empty. */
	onDataBytes(streamId: number, bytes: Buffer): void;
	/** The frame is complete. */
	onDataEnd(streamId: number, endStream: boolean): void;
	/** A complete frame of another type. @param from where its payload begins in `bytes`. @param to where it ends. */
	onFrame(type: number, flags: number, streamId: number, bytes: Buffer, from: number, to: number): void;
}

/**
 * Cuts a byte stream into frames (RFC 9113 section 4). Complete frames are passed on in place. DATA is passed on as it arrives; the
 * beginning of any other frame is kept until its end arrives.
 */
export class FrameReader {
	/** The first bytes of a frame that was cut by the end of a read. */
	#kept: Buffer = NOTHING;
	#keptLength = 0;
	/** Bytes that the current DATA frame still lacks; -1: there is none. */
	#dataLeft = -1;
	#dataPadding = 0;
	/** The frame is padded, and its pad length has not arrived yet. */
	#padLengthDue = false;
	#dataStream = 0;
	#dataEndsStream = false;

	/**
	 * @param sink must not call this reader; if it throws, the reader must not be used again.
	 * @returns where it stopped: at the end of a frame or of all bytes. The caller must pass the other bytes again.
	 * @throws ConnectionError FRAME_SIZE_ERROR or PROTOCOL_ERROR.
	 */
	push(bytes: Buffer, sink: FrameSink): number {
		let at = 0;
		const end = bytes.length;
		if (this.#keptLength > 0) at = this.#complete(bytes, sink);
		else if (this.#dataLeft >= 0) at = this.#data(bytes, 0, sink);
		while (at < end) {
			if (at > 0 && sink.isOverdrawn) return at;
			if (end - at < FRAME_HEAD) return this.#keep(bytes, at, end);
			const length = lengthAt(bytes, at);
			const type = bytes[at + 3]!;
			if (type === FRAME.DATA) {
				this.#beginData(bytes, at, sink);
				at = this.#data(bytes, at + FRAME_HEAD, sink);
				continue;
			}
			checkSize(length);
			const next = at + FRAME_HEAD + length;
			if (next > end) return this.#keep(bytes, at, end);
			sink.onFrame(type, bytes[at + 4]!, streamIdAt(bytes, at), bytes, at + FRAME_HEAD, next);
			at = next;
		}
		return end;
	}

	/** Continues a frame that an earlier read has cut. @returns where in `bytes` the next one begins. */
	#complete(bytes: Buffer, sink: FrameSink): number {
		let at = 0;
		if (this.#keptLength < FRAME_HEAD) {
			at = this.#take(bytes, 0, FRAME_HEAD);
			if (this.#keptLength < FRAME_HEAD) return at;
		}
		const kept = this.#kept;
		if (kept[3] === FRAME.DATA) {
			this.#keptLength = 0;
			this.#beginData(kept, 0, sink);
			return this.#data(bytes, at, sink);
		}
		const length = lengthAt(kept, 0);
		checkSize(length);
		at = this.#take(bytes, at, FRAME_HEAD + length);
		if (this.#keptLength < FRAME_HEAD + length) return at;
		// A larger buffer is dropped or given back: otherwise one cut frame would cost memory for the life of the connection.
		const whole = this.#kept;
		this.#keptLength = 0;
		if (whole.length > FIRST_ROOM) this.#kept = NOTHING;
		sink.onFrame(whole[3]!, whole[4]!, streamIdAt(whole, 0), whole, FRAME_HEAD, FRAME_HEAD + length);
		if (whole.length === LARGEST && SPARES.length < MAX_SPARES) SPARES.push(whole);
		return at;
	}

	/** Adds to the kept bytes until there are `wanted`. @returns where it stopped. */
	#take(bytes: Buffer, from: number, wanted: number): number {
		const to = Math.min(bytes.length, from + wanted - this.#keptLength);
		this.#keep(bytes, from, to);
		return to;
	}

	/** @returns `to`. */
	#keep(bytes: Buffer, from: number, to: number): number {
		const needed = this.#keptLength + to - from;
		if (needed > this.#kept.length) {
			const bigger = bufferOf(Math.max(needed, 2 * this.#kept.length, FIRST_ROOM));
			bigger.set(this.#kept.subarray(0, this.#keptLength));
			this.#kept = bigger;
		}
		this.#kept.set(bytes.subarray(from, to), this.#keptLength);
		this.#keptLength = needed;
		return to;
	}

	#beginData(bytes: Buffer, at: number, sink: FrameSink): void {
		const length = lengthAt(bytes, at);
		checkSize(length);
		const flags = bytes[at + 4]!;
		this.#dataStream = streamIdAt(bytes, at);
		this.#dataEndsStream = (flags & FLAG.END_STREAM) !== 0;
		this.#padLengthDue = (flags & FLAG.PADDED) !== 0;
		this.#dataPadding = 0;
		this.#dataLeft = length;
		if (this.#padLengthDue && length === 0) throw sizeError('no pad length');
		sink.onDataHead(this.#dataStream, length);
	}

	/** Passes on the payload so far. @returns where in `bytes` it stops. */
	#data(bytes: Buffer, from: number, sink: FrameSink): number {
		let at = from;
		if (this.#padLengthDue && at < bytes.length) {
			this.#padLengthDue = false;
			this.#dataPadding = bytes[at++]!;
			this.#dataLeft--;
			// RFC 9113 section 6.1: padding as long as the payload or longer.
			if (this.#dataPadding > this.#dataLeft) throw tooMuchPadding();
		}
		if (!this.#padLengthDue) {
			const data = Math.min(this.#dataLeft - this.#dataPadding, bytes.length - at);
			if (data > 0) {
				sink.onDataBytes(this.#dataStream, at === 0 && data === bytes.length ? bytes : bytes.subarray(at, at + data));
				this.#dataLeft -= data;
				at += data;
			}
			// Only padding is left once all data has gone.
			if (this.#dataLeft <= this.#dataPadding) {
				const padding = Math.min(this.#dataLeft, bytes.length - at);
				this.#dataLeft -= padding;
				this.#dataPadding = this.#dataLeft;
				at += padding;
			}
			if (this.#dataLeft === 0) {
				this.#dataLeft = -1;
				sink.onDataEnd(this.#dataStream, this.#dataEndsStream);
			}
		}
		return at;
	}
}

/** RFC 9113 section 6.2. @returns where the payload ends before its padding. @throws ConnectionError */
export function endWithoutPadding(bytes: Buffer, from: number, to: number): number {
	if (from >= to) throw sizeError('no pad length');
	const end = to - bytes[from]!;
	if (end < from + 1) throw tooMuchPadding();
	return end;
}

export function uint32At(bytes: Buffer, at: number): number {
	return ((bytes[at]! << 24) | (bytes[at + 1]! << 16) | (bytes[at + 2]! << 8) | bytes[at + 3]!) >>> 0;
}

/** Without the reserved bit. */
export function uint31At(bytes: Buffer, at: number): number {
	return uint32At(bytes, at) & 0x7fffffff;
}

function lengthAt(bytes: Buffer, at: number): number {
	return (bytes[at]! << 16) | (bytes[at + 1]! << 8) | bytes[at + 2]!;
}

function streamIdAt(bytes: Buffer, at: number): number {
	return uint31At(bytes, at + 5);
}

/** RFC 9113 section 4.2. */
function checkSize(length: number): void {
	if (length > MAX_FRAME_SIZE) throw sizeError('frame too large');
}

function tooMuchPadding(): ConnectionError {
	return protocolError('more padding than payload');
}

/** @param size bytes that it must have. */
function bufferOf(size: number): Buffer {
	const spare = size > MEDIUM ? SPARES.pop() : undefined;
	// Few bytes must not take up much memory.
	return spare ?? Buffer.allocUnsafeSlow(size > LARGEST / 2 ? LARGEST : size);
}

const NOTHING = Buffer.alloc(0);
/** Enough for the head of a DATA frame, and for most frames without a header block. */
const FIRST_ROOM = 64;
/** Frames with fewer bytes never get a spare buffer. */
const MEDIUM = 2048;
const LARGEST = FRAME_HEAD + MAX_FRAME_SIZE;
/** Buffers for larger cut frames, shared by all connections of a thread. A new one for each would be garbage that V8 collects slowly. */
const SPARES: Buffer[] = [];
const MAX_SPARES = 16;
