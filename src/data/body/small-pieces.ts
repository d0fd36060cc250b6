import type { Readable } from 'node:stream';

/**
 * Puts together the small pieces of a body that nobody takes yet: Node's parser hands on each chunk as an object of its own,
 * and that one costs hundreds of times the one byte that may be in it.
 *
 * @param body to which nothing has been pushed yet.
 */
export function gatherSmallPieces(body: Readable): void {
	const { push, resume } = body;
	let gathered: Buffer | undefined;
	let length = 0;

	const flush = () => {
		if (gathered === undefined) return;
		const bytes = gathered.subarray(0, length);
		gathered = undefined;
		length = 0;
		push.call(body, bytes);
	};
	const gather = (piece: Buffer) => {
		if (length + piece.length > GATHERED) flush();
		gathered ??= Buffer.allocUnsafeSlow(GATHERED);
		length += piece.copy(gathered, length);
	};

	body.push = (piece: Buffer | null) => {
		const wanted = body.readableFlowing === true && gathered === undefined;
		if (wanted || piece === null || piece.length >= SMALL_PIECE) {
			flush();
			return push.call(body, piece);
		}
		gather(piece);
		return body.readableLength + length < body.readableHighWaterMark;
	};
	body.resume = () => {
		flush();
		return resume.call(body);
	};
}

/** Pieces from this size on are kept as they are, bytes. */
const SMALL_PIECE = 4096;
const GATHERED = 16_384;
