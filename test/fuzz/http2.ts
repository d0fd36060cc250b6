/** The HTTP/2 front of the real command: frames, valid, wrong and corrupted, on many concurrent streams, cut anywhere. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { TLSSocket } from 'node:tls';
import { connectTls } from '../fixtures/clients.ts';
import { FLAG, FRAME, type Frame, FrameReader } from '../fixtures/h2-frames.ts';
import { Changes, within } from '../fixtures/wait.ts';
import { FRAME_KINDS, type FramesCase, oddFrames, serialize } from './frames.ts';
import { HpackReader } from './hpack.ts';
import { type InboundStage, PATIENCE_MS, wrongAnswer } from './inbound.ts';
import type { Attempt, InboundProtocol } from './inbound-target.ts';
import type { Random } from './random.ts';
import { readStreams, type SentStreams } from './stream-reading.ts';
import { Finding } from './target.ts';

export const HTTP2: InboundProtocol<FramesCase, SentStreams> = {
	name: 'http2',
	odd(random, corpus) {
		const kind = random.weighted(FRAME_KINDS);
		return { kind, input: oddFrames(random, kind, corpus) };
	},
	bytes: serialize,
	read: readStreams,
	requests: ({ requests }) => [...requests.values()],
	inOrder: false,
	send,
};

/** Sends one input, reads all responses, and checks that the connection ends. @returns the outcome of each stream. */
async function send(
	stage: InboundStage,
	{ input, sent, pair }: Attempt<FramesCase, SentStreams>,
	bytes: string,
	random: Random,
): Promise<string[]> {
	const socket = await connectTls(stage.proxy, { alpn: ['h2'] });
	const answers = new Answers(socket);
	const found = (what: string) =>
		new Finding('http2', `${what}; answers: ${answers.outcomes(sent.opened).join(', ')}`, input);
	try {
		for (const piece of random.cut(bytes, 3)) {
			if (!socket.writable) break;
			socket.write(piece, 'latin1');
			if (random.chance(0.5)) await sleep(0);
		}
		if (sent.holdsBack || sent.isUnfinished) await Promise.race([answers.whole(sent.awaited), sleep(100)]);
		else if (!sent.isBroken) await within(answers.whole(sent.awaited), 'the answers', PATIENCE_MS);
		socket.end();
		await within(answers.closed, 'the proxy to close the connection', PATIENCE_MS);
	} catch (error) {
		throw found((error as Error).message);
	} finally {
		socket.destroy();
	}
	if (answers.fault !== undefined) throw found(answers.fault);
	for (const { status, body, isWhole } of answers.streams.values()) {
		const wrong = wrongAnswer(status, isWhole ? body : '', [...sent.requests.values()], pair);
		if (wrong !== undefined) throw found(wrong);
	}
	const outcomes = answers.outcomes(sent.opened);
	if (input.valid !== undefined && (outcomes.length !== input.valid || outcomes.some((outcome) => outcome !== '200'))) {
		throw found('valid requests were not served');
	}
	return outcomes;
}

interface AnswerStream {
	status: number;
	body: string;
	isWhole: boolean;
}

/** The response frames, parsed strictly. */
class Answers {
	readonly streams = new Map<number, AnswerStream>();
	/** Violations of HTTP/2. */
	fault: string | undefined;
	readonly closed: Promise<unknown>;
	readonly #resets = new Map<number, number>();
	readonly #hpack = new HpackReader(Number.POSITIVE_INFINITY);
	readonly #changes = new Changes();
	#block = '';
	#goaway: number | undefined;
	#isClosed = false;

	constructor(socket: TLSSocket) {
		const frames = new FrameReader();
		socket.on('error', () => {});
		socket.on('data', (bytes: Buffer) => {
			try {
				for (const frame of frames.push(bytes)) this.#frame(frame);
			} catch (error) {
				this.fault ??= (error as Error).message;
			}
			this.#changes.notify();
		});
		this.closed = new Promise((resolve) => socket.once('close', resolve));
		void this.closed.then(() => {
			this.#isClosed = true;
			this.#changes.notify();
		});
	}

	/** Resolves when each of these streams has a complete response or a reset, or the connection has ended. */
	async whole(ids: readonly number[]): Promise<void> {
		const isOver = (id: number) => this.streams.get(id)?.isWhole === true || this.#resets.has(id);
		const done = () => this.#isClosed || this.fault !== undefined || ids.every(isOver);
		await this.#changes.until(done, 'the answers', Number.POSITIVE_INFINITY);
	}

	/** How each of these streams ended, and the connection if it did not end in order. */
	outcomes(ids: ReadonlySet<number>): string[] {
		const ends = [...ids].map((id) => {
			const status = this.streams.get(id)?.status;
			const code = this.#resets.get(id);
			if (status !== undefined) return String(status);
			return code === undefined ? 'no answer' : `reset with ${code}`;
		});
		return this.#goaway ? [...ends, `GOAWAY with ${this.#goaway}`] : ends;
	}

	#frame({ type, flags, streamId, payload }: Frame): void {
		const stream = this.streams.get(streamId);
		if (stream?.isWhole && (type === FRAME.DATA || type === FRAME.HEADERS))
			throw new Error('an answer goes on behind its end');
		switch (type) {
			case FRAME.HEADERS:
			case FRAME.CONTINUATION: {
				this.#block += payload.toString('latin1');
				if (!(flags & FLAG.END_HEADERS)) return;
				const fields = this.#hpack.read(this.#block);
				this.#block = '';
				const [name, value] = fields[0] ?? ['', ''];
				if (stream !== undefined || name !== ':status') throw new Error('an answer without a status, or with trailers');
				if (value === '100') return;
				this.streams.set(streamId, { status: Number(value), body: '', isWhole: (flags & FLAG.END_STREAM) !== 0 });
				return;
			}
			case FRAME.DATA:
				if (stream === undefined) throw new Error('DATA without a head');
				stream.body += payload.toString('latin1');
				if (flags & FLAG.END_STREAM) stream.isWhole = true;
				return;
			case FRAME.RST_STREAM:
				this.#resets.set(streamId, payload.readUInt32BE(0));
				return;
			case FRAME.GOAWAY:
				this.#goaway = payload.readUInt32BE(4);
		}
	}
}
