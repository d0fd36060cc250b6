/**
 * Bodies that identify themselves. The first line names direction, request, tenant, length and checksum. The rest is unlike any other body
 * of the run.
 */
import { hash } from 'node:crypto';
import { Random } from './random.ts';

/** `up`: a request's body; `down`: a response's. */
export type Direction = 'up' | 'down';

export interface BodyOwner {
	/** Number of the request. */
	readonly number: number;
	/** The request's identifier in headers and bodies. */
	readonly id: string;
	readonly tenant: string;
}

const POOL = randomBytes(1 << 20);
/** The first line with identifiers, length and checksum is shorter than this. */
export const SHORTEST_BODY = 160;

/** @param length bytes, from `SHORTEST_BODY` to `SHORTEST_BODY + POOL.length / 2`. */
export function checkedBody(direction: Direction, owner: BodyOwner, length: number): Buffer {
	// The first line's length decides how much is left for the rest, which the checksum covers.
	const lineLength = firstLine(direction, owner, length, NO_SUM).length;
	const at = new Random(owner.number, length).between(0, POOL.length / 2);
	const rest = POOL.subarray(at, at + length - lineLength);
	return Buffer.concat([Buffer.from(firstLine(direction, owner, length, hash('sha256', rest)), 'latin1'), rest]);
}

/** @returns what is wrong with the body, as text; `undefined` if it is exactly the expected one. */
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
