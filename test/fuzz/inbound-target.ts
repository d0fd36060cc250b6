import type { BodyMode } from '../fixtures/proxy.ts';
import { readCorpus } from './corpus.ts';
import { InboundStage, type Pair } from './inbound.ts';
import { Random } from './random.ts';
import type { SentRequest } from './request-reading.ts';
import { Finding, type Tally, type Target } from './target.ts';

/** Concurrent inputs, each on its own connection. */
const CONCURRENCY = 12;

/** Differences between the client protocols. */
export interface InboundProtocol<Input, Sent> {
	readonly name: 'http1' | 'http2';
	/** Makes an input, or mutates one of the corpus. @returns the input with its kind. */
	odd(random: Random, corpus: readonly Input[]): { readonly kind: string; readonly input: Input };
	/** The bytes of an input, as latin1, with its tenants' tokens. */
	bytes(input: Input, tokens: Pair['tokens']): string;
	/** What an independent parser finds in these bytes. */
	read(bytes: string): Sent;
	requests(sent: Sent): readonly SentRequest[];
	/** Whether the upstream must see the requests in this order. */
	readonly inOrder: boolean;
	/** Sends one input, reads all responses, and checks that the connection ends. @returns the outcome of each request. */
	send(stage: InboundStage, attempt: Attempt<Input, Sent>, bytes: string, random: Random): Promise<string[]>;
}

export interface Attempt<Input, Sent> {
	readonly input: Input;
	readonly pair: Pair;
	readonly sent: Sent;
}

interface Candidate<Input> {
	readonly kind: string;
	readonly input: Input;
	readonly seed: number;
}

/** One front of the real command: inputs run concurrently against one proxy. */
export class InboundTarget<Input, Sent> implements Target {
	readonly #protocol: InboundProtocol<Input, Sent>;
	readonly #tally: Tally;
	readonly #mode: BodyMode;
	readonly #corpus: readonly Input[];
	#stage: InboundStage | undefined;
	/** Requests that reach the upstream late are still compared with what was sent. */
	#before: Attempt<Input, Sent>[] = [];

	constructor(protocol: InboundProtocol<Input, Sent>, tally: Tally, mode: BodyMode) {
		this.#protocol = protocol;
		this.#tally = tally;
		this.#mode = mode;
		this.#corpus = readCorpus<Input>(protocol.name).map(({ input }) => input);
	}

	async batch(random: Random): Promise<void> {
		const inputs = random.list(CONCURRENCY, () => {
			const { kind, input } = this.#protocol.odd(random, this.#corpus);
			return { kind, input, seed: random.word() };
		});
		try {
			await this.#try(inputs);
		} catch (error) {
			if (error instanceof Finding) throw error;
			throw await this.#suspect(inputs, error as Error);
		}
	}

	async replay(input: unknown): Promise<void> {
		// Cut at several places: it matters which bytes arrive in one read.
		await this.#try([0, 1, 2, 3].map((seed) => ({ kind: 'corpus', input: input as Input, seed })));
	}

	async close(): Promise<void> {
		await this.#stage?.close();
		this.#stage = undefined;
		this.#before = [];
	}

	async #try(inputs: readonly Candidate<Input>[]): Promise<void> {
		this.#stage ??= await InboundStage.start(this.#mode);
		const stage = this.#stage;
		const { name, inOrder } = this.#protocol;
		const attempts = await Promise.all(
			inputs.map(async ({ kind, input, seed }) => {
				const pair = stage.pair();
				const bytes = this.#protocol.bytes(input, pair.tokens);
				const attempt = { input, pair, sent: this.#protocol.read(bytes) };
				const outcomes = await this.#protocol.send(stage, attempt, bytes, new Random(seed));
				this.#tally.add(`${name} ${this.#mode}, ${kind}`, outcomes);
				return attempt;
			}),
		);
		await stage.check();
		for (const { input, pair, sent } of [...this.#before, ...attempts]) {
			const wrong = stage.wrongAtTheUpstream(pair, this.#protocol.requests(sent), inOrder);
			if (wrong !== undefined) throw new Finding(name, wrong, input);
		}
		this.#before = attempts;
	}

	/** It is unknown which input is the cause, so each one is tried again with a new proxy. */
	async #suspect(inputs: readonly Candidate<Input>[], cause: Error): Promise<Finding> {
		const { name } = this.#protocol;
		const what = `${cause.message}${this.#stage?.proxy.output()}`;
		for (const suspect of inputs) {
			await this.close();
			try {
				await this.#try([suspect]);
			} catch (error) {
				return error instanceof Finding ? error : new Finding(name, (error as Error).message, suspect.input);
			}
		}
		await this.close();
		const all = inputs.map(({ input }) => input);
		return new Finding(name, `${what}\n(none of these inputs does it alone)`, all);
	}
}
