/**
 * Bodies that say by themselves whose they are and whether they are whole: the first line names direction, request,
 * tenant, length and checksum; what follows looks like nothing else in the same run.
 */
import { hash } from 'node:crypto';
import { Random } from './random.ts';

/** `up`: a request's body; `down`: an answer's. */
export type Direction = 'up' | 'down';

export interface BodyOwner {
	/** Number of the request. */
	readonly number: number;
	/** What the request is called in headers and bodies. */
	readonly id: string;
	readonly tenant: string;
}

const POOL = randomBytes(1 << 20);
/** A first line with its ids, length and checksum is shorter. */
export const SHORTEST_BODY = 160;

/** @param length bytes, from `SHORTEST_BODY` to `SHORTEST_BODY + POOL.length / 2`. */
export function checkedBody(direction: Direction, owner: BodyOwner, length: number): Buffer {
	// The line's own length decides how much is left for the rest, which its checksum covers.
	const lineLength = firstLine(direction, owner, length, NO_SUM).length;
	const at = new Random(owner.number, length).between(0, POOL.length / 2);
	const rest = POOL.subarray(at, at + length - lineLength);
	return Buffer.concat([Buffer.from(firstLine(direction, owner, length, hash('sha256', rest)), 'latin1'), rest]);
}

/** @returns what is wrong with it, in words; `undefined` where it is exactly the body that belongs there. */
export function faultOfBody(body: Buffer, direction: Direction, owner: BodyOwner): string | undefined {
	const end = body.subarray(0, SHORTEST_BODY).indexOf('\n');
	if (end === -1) return `a body of ${body.length} bytes that does not begin like one of ours`;
	const line = body.toString('latin1', 0, end + 1);
	const expected = firstLine(direction, owner, body.length, hash('sha256', body.subarray(end + 1)));
	return line === expected ? undefined : `a body whose first line says ${line.trim()} instead of ${expected.trim()}`;
}

const NO_SUM = '0'.repeat(64);

function firstLine(direction: Direction, { id, tenant }: BodyOwner, length: number, sum: string): string {
	return `${direction} ${id} ${tenant} ${length} ${sum}\n`;
}

function randomBytes(length: number): Buffer {
	const random = new Random(1);
	const bytes = Buffer.alloc(length);
	for (let at = 0; at < length; at += 4) bytes.writeUInt32LE(random.between(0, 2 ** 32 - 1), at);
	return bytes;
}
