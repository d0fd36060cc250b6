/** The HTTP/2 front of the real command: frames, right, wrong and damaged, many streams at once, cut anywhere. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { TLSSocket } from 'node:tls';
import { connectTls } from '../fixtures/clients.ts';
import { FLAG, FRAME, type Frame, FrameReader } from '../fixtures/h2-frames.ts';
import type { BodyMode } from '../fixtures/proxy.ts';
import { Changes, within } from '../fixtures/wait.ts';
import { readCorpus } from './corpus.ts';
import { FRAME_KINDS, type FramesCase, oddFrames, serialize } from './frames.ts';
import { HpackReader } from './hpack.ts';
import { InboundStage, PATIENCE_MS, type Pair, wrongAnswer } from './inbound.ts';
import { Random } from './random.ts';
import { readStreams, type SentStreams } from './stream-reading.ts';
import { Finding, type Tally, type Target } from './target.ts';

/** Inputs at the same time, each on a connection of its own. */
const CONCURRENCY = 12;

interface Attempt {
	readonly input: FramesCase;
	readonly pair: Pair;
	readonly sent: SentStreams;
}

interface Candidate {
	readonly kind: string;
	readonly input: FramesCase;
	readonly seed: number;
}

export class Http2Target implements Target {
	readonly #tally: Tally;
	readonly #mode: BodyMode;
	readonly #corpus = readCorpus<FramesCase>('http2').map(({ input }) => input);
	#stage: InboundStage | undefined;
	/** Late arrivals at the upstream are still compared with what was sent. */
	#before: Attempt[] = [];

	constructor(tally: Tally, mode: BodyMode) {
		this.#tally = tally;
		this.#mode = mode;
	}

	async batch(random: Random): Promise<void> {
		const inputs = random.list(CONCURRENCY, () => {
			const kind = random.weighted(FRAME_KINDS);
			return { kind, input: oddFrames(random, kind, this.#corpus), seed: random.word() };
		});
		try {
			await this.#try(inputs);
		} catch (error) {
			if (error instanceof Finding) throw error;
			throw await this.#suspect(inputs, error as Error);
		}
	}

	async replay(input: unknown): Promise<void> {
		// Cut at several places: what a read brings matters.
		await this.#try([0, 1, 2, 3].map((seed) => ({ kind: 'corpus', input: input as FramesCase, seed })));
	}

	async close(): Promise<void> {
		await this.#stage?.close();
		this.#stage = undefined;
		this.#before = [];
	}

	async #try(inputs: readonly Candidate[]): Promise<void> {
		this.#stage ??= await InboundStage.start(this.#mode);
		const stage = this.#stage;
		const attempts = await Promise.all(
			inputs.map(async ({ kind, input, seed }) => {
				const pair = stage.pair();
				const bytes = serialize(input, pair.tokens);
				const attempt = { input, pair, sent: readStreams(bytes) };
				this.#tally.add(`http2 ${this.#mode}, ${kind}`, await send(stage, attempt, bytes, new Random(seed)));
				return attempt;
			}),
		);
		await stage.check();
		for (const { input, pair, sent } of [...this.#before, ...attempts]) {
			const wrong = stage.wrongAtTheUpstream(pair, [...sent.requests.values()], false);
			if (wrong !== undefined) throw new Finding('http2', wrong, input);
		}
		this.#before = attempts;
	}

	/** Something is wrong that belongs to no input: each is tried once more, alone, before a new proxy. */
	async #suspect(inputs: readonly Candidate[], cause: Error): Promise<Finding> {
		const what = `${cause.message}${this.#stage?.proxy.output()}`;
		for (const suspect of inputs) {
			await this.close();
			try {
				await this.#try([suspect]);
			} catch (error) {
				return error instanceof Finding ? error : new Finding('http2', (error as Error).message, suspect.input);
			}
		}
		await this.close();
		return new Finding(
			'http2',
			`${what}\n(none of these inputs does it alone)`,
			inputs.map(({ input }) => input),
		);
	}
}

/** Sends one input, reads all answers, and sees to it that the connection ends. @returns how each stream ended. */
async function send(
	stage: InboundStage,
	{ input, sent, pair }: Attempt,
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

/** What comes back, read strictly. */
class Answers {
	readonly streams = new Map<number, AnswerStream>();
	/** What of it is no HTTP/2. */
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

	/** Resolves when each of these has got a whole answer or a refusal, or the connection is over. */
	async whole(ids: readonly number[]): Promise<void> {
		const isOver = (id: number) => this.streams.get(id)?.isWhole === true || this.#resets.has(id);
		const done = () => this.#isClosed || this.fault !== undefined || ids.every(isOver);
		await this.#changes.until(done, 'the answers', Number.POSITIVE_INFINITY);
	}

	/** How each of these streams ended, and the connection, if not in order. */
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
