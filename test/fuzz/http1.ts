/** The HTTP/1.1 front of the real command: heads and bodies, right, wrong and damaged, pipelined and cut anywhere. */
import { setImmediate as turn } from 'node:timers/promises';
import { EndedEarly } from '../fixtures/byte-reader.ts';
import { type H1Raw, h1Raw } from '../fixtures/clients.ts';
import { MalformedMessage, type RawResponse } from '../fixtures/http1-message.ts';
import type { BodyMode } from '../fixtures/proxy.ts';
import { readCorpus } from './corpus.ts';
import { InboundStage, PATIENCE_MS, type Pair, wrongAnswer } from './inbound.ts';
import { Random } from './random.ts';
import { readRequests, type SentRequests } from './request-reading.ts';
import { fillIn, oddRequests, REQUEST_KINDS, type RequestsCase } from './requests.ts';
import { Finding, type Tally, type Target } from './target.ts';

/** Inputs at the same time, each on a connection of its own. */
const CONCURRENCY = 12;

interface Attempt {
	readonly kind: string;
	readonly input: RequestsCase;
	readonly pair: Pair;
	readonly sent: SentRequests;
}

export class Http1Target implements Target {
	readonly #tally: Tally;
	readonly #mode: BodyMode;
	readonly #corpus = readCorpus<RequestsCase>('http1').map(({ input }) => input);
	#stage: InboundStage | undefined;
	/** Late arrivals at the upstream are still compared with what was sent. */
	#before: Attempt[] = [];

	constructor(tally: Tally, mode: BodyMode) {
		this.#tally = tally;
		this.#mode = mode;
	}

	async batch(random: Random): Promise<void> {
		const inputs = random.list(CONCURRENCY, () => {
			const kind = random.weighted(REQUEST_KINDS);
			return { kind, input: oddRequests(random, kind, this.#corpus), seed: random.word() };
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
		await this.#try([0, 1, 2, 3].map((seed) => ({ kind: 'corpus', input: input as RequestsCase, seed })));
	}

	async close(): Promise<void> {
		await this.#stage?.close();
		this.#stage = undefined;
		this.#before = [];
	}

	async #try(inputs: readonly { kind: string; input: RequestsCase; seed: number }[]): Promise<void> {
		this.#stage ??= await InboundStage.start(this.#mode);
		const stage = this.#stage;
		const attempts = await Promise.all(
			inputs.map(async ({ kind, input, seed }) => {
				const pair = stage.pair();
				const text = fillIn(input.text, pair.tokens);
				const attempt = { kind, input, pair, sent: readRequests(text) };
				this.#tally.add(`http1 ${this.#mode}, ${kind}`, await send(stage, attempt, text, new Random(seed)));
				return attempt;
			}),
		);
		await stage.check();
		for (const { input, pair, sent } of [...this.#before, ...attempts]) {
			const wrong = stage.wrongAtTheUpstream(pair, sent.requests, true);
			if (wrong !== undefined) throw new Finding('http1', wrong, input);
		}
		this.#before = attempts;
	}

	/** Something is wrong that belongs to no input: each is tried once more, alone, before a new proxy. */
	async #suspect(
		inputs: readonly { kind: string; input: RequestsCase; seed: number }[],
		cause: Error,
	): Promise<Finding> {
		const what = `${cause.message}${this.#stage?.proxy.output()}`;
		for (const suspect of inputs) {
			await this.close();
			try {
				await this.#try([suspect]);
			} catch (error) {
				return error instanceof Finding ? error : new Finding('http1', (error as Error).message, suspect.input);
			}
		}
		await this.close();
		return new Finding(
			'http1',
			`${what}\n(none of these inputs does it alone)`,
			inputs.map(({ input }) => input),
		);
	}
}

/** Sends one input, reads all answers, and sees to it that the connection ends. @returns how each request ended. */
async function send(stage: InboundStage, attempt: Attempt, text: string, random: Random): Promise<string[]> {
	const { input, sent, pair } = attempt;
	const complete = sent.requests.filter(({ isComplete }) => isComplete).length;
	const raw = await h1Raw(stage.proxy);
	const outcomes: string[] = [];
	const found = (what: string) =>
		new Finding('http1', `${what}; answers: ${outcomes.join(', ')}; read as ${sent.end}`, input);
	try {
		for (const piece of random.cut(text, 3)) {
			if (!raw.socket.writable) break;
			raw.send(piece);
			if (random.chance(0.5)) await turn();
		}
		let finished = false;
		for (;;) {
			// What was sent whole is answered without further ado; after that the client is done, and so must be the proxy.
			if (outcomes.length >= complete && !finished) {
				finished = true;
				raw.socket.end();
			}
			const asked = sent.requests[outcomes.length]?.method ?? (sent.endsOnHead ? 'HEAD' : 'GET');
			const answer = await nextAnswer(raw, asked);
			if (answer === undefined) break;
			const wrong = wrongAnswer(answer.status, answer.body.toString('latin1'), sent.requests, pair);
			if (wrong !== undefined) throw found(wrong);
			outcomes.push(String(answer.status));
			if (outcomes.length > sent.requests.length + 1) throw found('more answers than requests');
			if (input.valid !== undefined && answer.status !== 200) throw found(`a valid request got ${answer.status}`);
		}
	} catch (error) {
		if (error instanceof Finding) throw error;
		throw found((error as Error).message);
	} finally {
		raw.close();
	}
	if (input.valid !== undefined && outcomes.length !== input.valid)
		throw found('valid requests went without an answer');
	return outcomes.length > 0 ? outcomes : [`no answer, ${sent.end}`];
}

/** `undefined`: the connection has ended instead. */
async function nextAnswer(raw: H1Raw, method: string): Promise<RawResponse | undefined> {
	try {
		const answer = await raw.readResponse(method, PATIENCE_MS);
		if (answer.ended !== 'complete') throw new MalformedMessage(`an answer that breaks off: ${answer.raw}`);
		return answer;
	} catch (error) {
		if (error instanceof EndedEarly && error.partial.length === 0) return undefined;
		throw error;
	}
}
