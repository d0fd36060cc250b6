/** The client half of HTTP/2: frames of a server, valid, wrong and corrupted, cut anywhere, judged by nghttp2. */
import { isDeepStrictEqual } from 'node:util';
import { FRAME } from '../fixtures/h2-frames.ts';
import { explainLaxer, isStricter } from './client-differences.ts';
import { BrokenInvariant, type ConnectionReading, frameByFrame, type ReadResponse, readByUs } from './client-judge.ts';
import { readCorpus } from './corpus.ts';
import { serialize } from './frames.ts';
import { JudgeProcess } from './judge-process.ts';
import { Random } from './random.ts';
import type { Field } from './responses.ts';
import { type AskedRequest, oddServer, SERVER_KINDS, type ServerCase } from './server-frames.ts';
import { Finding, type Tally, type Target } from './target.ts';

/** Concurrent inputs: nghttp2 takes several turns of the event loop. */
const CONCURRENCY = 16;

export class Http2ClientTarget implements Target {
	readonly #tally: Tally;
	readonly #judge = new JudgeProcess();
	readonly #corpus = readCorpus<ServerCase>('http2-client').map(({ input }) => input);

	constructor(tally: Tally) {
		this.#tally = tally;
	}

	async batch(random: Random): Promise<void> {
		const inputs = random.list(CONCURRENCY, () => {
			const kind = random.weighted(SERVER_KINDS);
			return { kind, input: oddServer(random, kind, this.#corpus), seed: random.word() };
		});
		await Promise.all(
			inputs.map(async ({ kind, input, seed }) => {
				this.#tally.add(`http2 client, ${kind}`, await checkServer(input, new Random(seed), this.#judge));
			}),
		);
	}

	async replay(input: unknown): Promise<void> {
		this.#tally.add('http2 client, corpus', await checkServer(input as ServerCase, new Random(0), this.#judge));
	}

	async close(): Promise<void> {
		this.#judge.close();
	}
}

/** @returns the outcome of each response, in our words. @throws Finding */
async function checkServer(input: ServerCase, random: Random, judge: JudgeProcess): Promise<string[]> {
	const text = serialize({ frames: input.frames, edits: input.edits ?? [], preface: '' }, ['', '']);
	const bytes = Buffer.from(text, 'latin1');
	const pieces = frameByFrame(bytes);
	const read = (cut: readonly Buffer[]) => {
		try {
			return readByUs(input.requests, cut);
		} catch (error) {
			if (error instanceof BrokenInvariant) throw new Finding('http2-client', error.message, input);
			throw error;
		}
	};
	const ours = read(pieces);
	for (const cut of [[text], random.cut(text, 8), text.length < 2000 ? [...text] : random.cut(text, 50)]) {
		const other = read(cut.map((piece) => Buffer.from(piece, 'latin1')));
		if (isDeepStrictEqual(decided(other), decided(ours)) || dependsOnOutput(other) || dependsOnOutput(ours)) continue;
		throw new Finding('http2-client', `what is read depends on the cuts:\n${show(ours)}\n${show(other)}`, input);
	}
	const theirs = await judge.ask(input.requests, pieces);
	const wrong = difference(input.requests, ours, theirs, pieces);
	if (wrong !== undefined) {
		const frame = pieces[Math.min(ours.brokenAt, theirs.brokenAt)]?.toString('hex', 0, 60);
		throw new Finding(
			'http2-client',
			`${wrong}, frame ${frame}\n  ours: ${show(ours)}\n  nghttp2: ${show(theirs)}`,
			input,
		);
	}
	if (input.valid && ours.responses.some(({ isWhole }) => !isWhole)) {
		throw new Finding('http2-client', `valid responses are not whole: ${show(ours)}`, input);
	}
	return ours.responses.map(({ isWhole, cause }) => (isWhole ? 'whole' : cause!));
}

/** How much of a body is forwarded before an error is found depends on the cuts. */
function decided({ responses, why }: ConnectionReading): unknown {
	return { responses: responses.map((response) => (response.isWhole ? response : { ...response, body: '' })), why };
}

/** Whether a window is exceeded depends on how much has been sent, and output is sent between reads. */
function dependsOnOutput({ responses, why }: ConnectionReading): boolean {
	return [why, ...responses.map(({ cause }) => cause)].includes('a window above 2^31-1');
}

function show({ responses, brokenAt, why, silentFrom, resets }: ConnectionReading): string {
	return JSON.stringify({ responses, brokenAt, why, silentFrom, resets: [...resets] });
}

/** @param pieces frames. @returns what one of the two did wrong; `undefined`: nothing, or a known difference. */
function difference(
	requests: readonly AskedRequest[],
	ours: ConnectionReading,
	theirs: ConnectionReading,
	pieces: readonly Buffer[],
): string | undefined {
	const isExplained = theirs.brokenAt < pieces.length && explains(requests, ours, theirs.brokenAt, pieces);
	const wrongStream = ours.responses.flatMap((our, i) => {
		const their = theirs.responses[i]!;
		const isJudged = theirs.silentFrom === Number.POSITIVE_INFINITY && !isExplained && !hasLengthOfNothing(our);
		const wrong = otherMeaning(our, their, isJudged);
		return wrong === undefined ? [] : [`stream ${2 * i + 1} ${wrong}`];
	})[0];
	if (wrongStream !== undefined) return wrongStream;
	const isAfter = (at: number) => at >= theirs.silentFrom;
	if (theirs.brokenAt < ours.brokenAt && !isAfter(theirs.brokenAt) && !isExplained) {
		return `nghttp2 refuses the connection at frame ${theirs.brokenAt}: ${theirs.why}`;
	}
	if (ours.brokenAt < theirs.brokenAt && !isAfter(ours.brokenAt) && !isStricter(ours.why)) {
		return `only we refuse the connection at frame ${ours.brokenAt}: ${ours.why}`;
	}
	for (const [id, at] of theirs.resets) {
		const our = ours.responses[(id - 1) / 2];
		if (our === undefined || !our.isWhole || ours.brokenAt <= at || isAfter(at)) continue;
		// Responses completed before stay complete. Node resets all streams when it ends a connection over one of them.
		if (theirs.responses[(id - 1) / 2]!.isWhole || (theirs.brokenAt <= at && streamOf(pieces[at]!) !== id)) continue;
		if (hasLengthOfNothing(our) || explainLaxer(pieces[at]!) !== undefined) continue;
		return `nghttp2 refuses stream ${id} at frame ${at}`;
	}
	for (const [id, at] of ours.resets) {
		const cause = ours.responses[(id - 1) / 2]!.cause ?? '';
		if (theirs.resets.has(id) || theirs.brokenAt <= at || isAfter(at) || isStricter(cause)) continue;
		return `only we refuse stream ${id} at frame ${at}: ${cause}`;
	}
	return undefined;
}

/** @param isJudged a complete response must be complete for both. */
function otherMeaning(our: ReadResponse, their: ReadResponse, isJudged: boolean): string | undefined {
	if (
		our.status !== undefined &&
		their.status !== undefined &&
		!isDeepStrictEqual(comparable(our), comparable(their))
	) {
		return 'has other fields';
	}
	if (!our.body.startsWith(their.body) && !their.body.startsWith(our.body)) return 'has another body';
	if (our.isWhole && their.isWhole) {
		if (our.body !== their.body) return 'has a longer body';
		if (!isDeepStrictEqual(our.trailers, their.trailers)) return 'has other trailers';
	}
	if (our.isWhole && !their.isWhole && isJudged) return 'is whole only for us';
	if (their.isWhole && !our.isWhole && !isStricter(our.cause!)) return 'is whole only for nghttp2';
	return undefined;
}

/** RFC 9110 section 8.6 forbids Content-Length in a 204. It never has a body, and we do not forward the field. */
function hasLengthOfNothing({ status, fields }: ReadResponse): boolean {
	return status === '204' && fields.some(([name]) => name === 'content-length');
}

/** nghttp2 drops a zero Content-Length of a response without a body. */
function comparable({ status, fields }: ReadResponse): readonly Field[] {
	return status === '204' ? fields.filter(([name]) => name !== 'content-length') : fields;
}

/** Whether it is known why only nghttp2 ends the connection at this frame. */
function explains(
	requests: readonly AskedRequest[],
	{ resets, responses }: ConnectionReading,
	brokenAt: number,
	pieces: readonly Buffer[],
): boolean {
	const frame = pieces[brokenAt]!;
	if (explainLaxer(frame) !== undefined) return true;
	const id = streamOf(frame);
	const at = resets.get(id);
	if (at !== undefined && at <= brokenAt) return true;
	// We stop sending a request whose response is complete: the stream is over for us.
	const isOver = (i: number) => responses[i]?.isWhole === true;
	if (frame[3] === FRAME.SETTINGS) return requests.some(({ body, isOpen }, i) => (isOpen || body > 0) && isOver(i));
	return BEHIND_THE_END.has(frame[3]!) && isOver((id - 1) / 2);
}

const BEHIND_THE_END: ReadonlySet<number> = new Set([FRAME.DATA, FRAME.HEADERS, FRAME.WINDOW_UPDATE]);

/** @param frame with its header. */
function streamOf(frame: Buffer): number {
	return frame.readUInt32BE(5) & 0x7fffffff;
}
