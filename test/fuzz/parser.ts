/**
 * The parser of upstream responses against three third-party clients and a simple parser of the whole text, cut at
 * every byte boundary.
 */
import { isDeepStrictEqual } from 'node:util';
import { ResponseParser } from '../../packages/proxy/src/data/upstream/response-parser.ts';
import { type Field, returnedByTheContract, trailersBeyond } from '../models/header-contract.ts';
import { readCorpus } from './corpus.ts';
import { type ParsedResponse, parsePieces } from './parsed-response.ts';
import { Random } from './random.ts';
import { CLIENTS, type ClientName } from './response-clients.ts';
import { type Comparison, explain } from './response-differences.ts';
import { type CompleteResponse, readWholeResponse } from './response-reading.ts';
import { oddResponse, RESPONSE_KINDS, type ResponseCase, type ValidResponse, validResponse } from './responses.ts';
import { Finding, type Tally, type Target } from './target.ts';

/** Longer texts are cut at some places only. */
const CUT_EVERYWHERE = 1500;

export class ParserTarget implements Target {
	readonly #tally: Tally;
	readonly #corpus = readCorpus<ResponseCase>('parser').map(({ input }) => input);

	constructor(tally: Tally) {
		this.#tally = tally;
	}

	async batch(random: Random): Promise<void> {
		const cases = random.list(16, () => {
			const kind = random.weighted(RESPONSE_KINDS);
			return { kind, input: oddResponse(random, kind, this.#corpus) };
		});
		// Concurrently: the clients take several turns of the event loop.
		await Promise.all(
			cases.map(async ({ kind, input }) => {
				if (kind === 'valid') checkMeaning(input as ValidResponse);
				const { method, closes, text } = input;
				this.#tally.add(`parser, ${kind}`, await checkResponse({ method, closes, text }, random));
			}),
		);
	}

	async replay(input: unknown): Promise<void> {
		this.#tally.add('parser, corpus', await checkResponse(input as ResponseCase));
	}

	async close(): Promise<void> {}
}

/** For a valid response the expected content is known. */
function checkMeaning(valid: ValidResponse): void {
	const read = readWholeResponse(valid);
	const { status, fields, body, text, trailers } = valid;
	const wanted = { status, fields, body, trailers, length: text.length, keepAlive: true };
	if (!isDeepStrictEqual({ ...read, keepAlive: true }, wanted)) {
		throw new Finding('parser', `a valid response is not read as it was written: ${JSON.stringify(read)}`, valid);
	}
}

/**
 * Compares all readings of one response.
 *
 * @param random cuts the clients' input; without it they get the whole text and single bytes.
 * @returns how they agree, one line per client.
 * @throws Finding
 */
export async function checkResponse(input: ResponseCase, random?: Random): Promise<string[]> {
	const ours = parsePieces(input, [input.text]);
	const found = (what: string) => new Finding('parser', `${what}\n  ours: ${JSON.stringify(ours)}`, input);

	for (const pieces of everyCut(input.text, random)) {
		const cut = parsePieces(input, pieces);
		// Another rule may notice the same fault first.
		if (!isDeepStrictEqual({ ...cut, reason: '' }, { ...ours, reason: '' })) {
			throw found(`the verdict depends on the cut after ${pieces[0]!.length}: ${JSON.stringify(cut)}`);
		}
	}

	for (const before of [validResponse(random ?? new Random(input.text.length)), input]) {
		const parser = new ResponseParser();
		if (parsePieces(before, [before.text], parser).verdict !== 'complete') continue;
		const after = parsePieces(input, [input.text], parser);
		if (!isDeepStrictEqual(after, ours)) {
			throw found(`the verdict depends on the response before, ${JSON.stringify(before)}: ${JSON.stringify(after)}`);
		}
	}

	const wanted = readWholeResponse(input);
	if (!isDeepStrictEqual(meaningOf(ours), wanted && passedOn(wanted))) {
		throw found(`the model reads it as ${JSON.stringify(wanted)}`);
	}

	const outcomes: string[] = [];
	for (const client of Object.keys(CLIENTS) as ClientName[]) {
		const comparison = await compare(client, input, ours, random);
		const explanation = explain(comparison);
		if (explanation === undefined) {
			throw found(`${client} differs, and nothing explains it: ${JSON.stringify(comparison.theirs)}`);
		}
		outcomes.push(`${client}: ${explanation}`);
	}
	return outcomes;
}

async function compare(
	client: ClientName,
	input: ResponseCase,
	ours: ParsedResponse,
	random: Random | undefined,
): Promise<Comparison> {
	const { method, text } = input;
	const pieces = (part: string) => (random === undefined ? [...part] : random.cut(part, 6));
	if (ours.verdict !== 'complete') {
		return { client, input, ours, theirs: await CLIENTS[client](method, pieces(text), input.closes), early: undefined };
	}
	// Exactly the response's bytes, and one byte less: both must find the same end.
	const own = text.slice(0, ours.length);
	const untilClose = ours.length === text.length && input.closes;
	const theirs = await CLIENTS[client](method, pieces(own), untilClose);
	const early = own.length > 1 && !untilClose ? await CLIENTS[client](method, [own.slice(0, -1)], false) : undefined;
	return { client, input, ours, theirs, early };
}

function* everyCut(text: string, random: Random | undefined): Generator<string[]> {
	const step = Math.ceil(text.length / CUT_EVERYWHERE);
	for (let at = 1; at < text.length; at += step) yield [text.slice(0, at), text.slice(at)];
	// Line ends matter most.
	if (step > 1) {
		for (const { index } of text.matchAll(/\r\n(?=.{0,9}$)|\r\n\r\n/g)) {
			for (const at of [index - 1, index, index + 1, index + 2, index + 3]) {
				if (at > 0 && at < text.length) yield [text.slice(0, at), text.slice(at)];
			}
		}
	} else if (text !== '') {
		yield [...text];
	}
	if (random !== undefined && text !== '') yield random.cut(text, 8);
}

function meaningOf({ verdict, status, fields, body, trailers, length, keepAlive }: ParsedResponse): unknown {
	if (verdict !== 'complete') return undefined;
	return { status, fields: pairs(fields), body, trailers: pairs(trailers), length, keepAlive };
}

function passedOn({ fields, trailers, ...rest }: CompleteResponse): unknown {
	return { ...rest, fields: returnedByTheContract(fields), trailers: trailersBeyond(fields, trailers) };
}

function pairs(list: readonly string[]): Field[] {
	return Array.from({ length: list.length / 2 }, (_, i): Field => [list[2 * i]!, list[2 * i + 1]!]);
}
