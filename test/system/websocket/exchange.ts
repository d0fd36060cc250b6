/** Plays a case on an open WebSocket, byte by byte as the case says, and keeps what comes back. */
import { once } from 'node:events';
import type { Duplex } from 'node:stream';
import { setImmediate } from 'node:timers/promises';
import { Changes } from '../../fixtures/wait.ts';
import type { Case, Step } from './cases.ts';
import { close, encode, FrameReader, OPCODE } from './frames.ts';

/** @param isMasked as a client's frames are. @returns everything received until the connection ends. */
export async function play({ id, steps }: Case, duplex: Duplex, isMasked: boolean): Promise<FrameReader> {
	const reader = new FrameReader();
	const changes = new Changes();
	let isOver = false;
	duplex.on('error', () => {});
	for (const end of ['end', 'close']) {
		duplex.on(end, () => {
			isOver = true;
			changes.notify();
		});
	}
	duplex.on('data', (bytes: Buffer) => {
		reader.push(bytes);
		changes.notify();
	});
	duplex.resume();
	const isDone = () => isOver || reader.hasClose;
	let answers = 0;
	for (const step of steps) {
		if (isDone()) break;
		if ('answers' in step) {
			answers += step.answers;
			await changes.until(() => isDone() || reader.frames.length >= answers, `${id}: ${answers} frames`);
		} else {
			for (const bytes of written(step, isMasked)) await write(duplex, bytes);
		}
	}
	const hasClosed = steps.some((step) => 'send' in step && step.send.some(({ opcode }) => opcode === OPCODE.close));
	if (!hasClosed) await write(duplex, encode(close(1000), isMasked));
	await changes.until(isDone, `${id}: a Close`);
	duplex.end();
	await changes.until(() => isOver, `${id}: the end`);
	if (reader.rest > 0) throw new Error(`${id}: ended within a frame`);
	return reader;
}

function* written({ send, piece }: Extract<Step, { send: unknown }>, isMasked: boolean): Generator<Buffer> {
	const bytes = Buffer.concat(send.map((frame) => encode(frame, isMasked)));
	const size = piece ?? bytes.length;
	for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size);
}

async function write(duplex: Duplex, bytes: Buffer): Promise<void> {
	if (duplex.writable && !duplex.write(bytes)) await once(duplex, 'drain').catch(() => {});
	// Pieces stay apart on their way to the socket.
	await setImmediate();
}
