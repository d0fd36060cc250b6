/**
 * The parser of HTTP/1.1 requests, head and body, against a simple parser of the whole text, cut at every byte boundary, and against
 * llhttp: it must read what ours accepts in the same way.
 */
import { createServer, type IncomingMessage, METHODS, type ServerResponse } from 'node:http';
import { duplexPair } from 'node:stream';
import { setImmediate as turn } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import { Rejection } from '../../packages/gate/src/gates/rejection.ts';
import { RequestHeadReader } from '../../packages/proxy/src/data/http1/head-reader.ts';
import { type RequestBody, requestBody } from '../../packages/proxy/src/data/http1/request-body.ts';
import { type RequestHead, readHttp1Head } from '../../packages/proxy/src/gates/headers.ts';
import { readCorpus } from './corpus.ts';
import { Random } from './random.ts';
import { readRequests } from './request-reading.ts';
import { fillIn, MAX_HEAD, oddRequests, REQUEST_KINDS, type RequestsCase } from './requests.ts';
import { inLowerCase } from './response-reading.ts';
import { Finding, type Tally, type Target } from './target.ts';

/** Longer texts are cut at some places only. */
const CUT_EVERYWHERE = 600;
/** Placeholders for tokens; their content does not matter here. */
const TOKENS = [`a${'x'.repeat(200)}`, `b${'y'.repeat(200)}`] as const;

export class RequestReaderTarget implements Target {
	readonly #tally: Tally;
	readonly #corpus = readCorpus<RequestsCase>('http1').map(({ input }) => input);

	constructor(tally: Tally) {
		this.#tally = tally;
	}

	async batch(random: Random): Promise<void> {
		for (let i = 0; i < 8; i++) {
			const kind = random.weighted(REQUEST_KINDS);
			this.#tally.add(`reader, ${kind}`, await checkRequests(oddRequests(random, kind, this.#corpus), random));
		}
	}

	async replay(input: unknown): Promise<void> {
		this.#tally.add('reader, corpus', await checkRequests(input as RequestsCase));
	}

	async close(): Promise<void> {}
}

/** @returns how the readings agree. @throws Finding */
async function checkRequests(input: RequestsCase, random?: Random): Promise<string[]> {
	const text = fillIn(input.text, TOKENS);
	const ours = readPieces([text]);
	const found = (what: string) => new Finding('http1', `${what}\n  ours: ${JSON.stringify(ours)}`, input);

	for (const pieces of cuts(text, random)) {
		const cut = readPieces(pieces);
		if (!isDeepStrictEqual(cut, ours)) {
			throw found(`the reading depends on the cut after ${pieces[0]!.length}: ${JSON.stringify(cut)}`);
		}
	}
	const wanted = readByTheDecisions(text);
	if (!isDeepStrictEqual(ours.requests, wanted.requests)) {
		throw found(`the model reads it as ${JSON.stringify(wanted)}`);
	}
	// An incomplete request may be refused early, or not yet.
	if (wanted.end === 'malformed head' ? !ours.refused : ours.refused && wanted.end !== 'broken') {
		throw found(`the model finds at its end: ${wanted.end}`);
	}
	const theirs = await readByLlhttp(text);
	// Other methods are parsed here and refused by their gate; llhttp ends the connection.
	const unknown = ours.requests.findIndex(({ method }) => !METHODS.includes(method));
	const known = unknown === -1 ? ours.requests : ours.requests.slice(0, unknown);
	const same = known.map(({ method, body }) => ({ method, body }));
	if (!isDeepStrictEqual(theirs.slice(0, same.length), same)) {
		throw found(`llhttp reads it as ${JSON.stringify(theirs)}`);
	}
	return [ours.refused ? 'refused' : theirs.length > same.length ? 'llhttp takes more' : 'the same'];
}

interface ReadRequest {
	readonly method: string;
	readonly target: string;
	/** Facts and lines for the upstream, or the refusal's code. */
	readonly head: unknown;
	/** Latin1. */
	readonly body: string;
	/** Names in lower case, and values. */
	readonly trailers: readonly string[];
}

interface Reading {
	/** Complete requests. */
	readonly requests: readonly ReadRequest[];
	readonly refused: boolean;
}

/** One connection that reads these pieces, as `http1/connection.ts` does. */
function readPieces(pieces: readonly string[]): Reading {
	const reader = new RequestHeadReader(MAX_HEAD);
	const requests: ReadRequest[] = [];
	let unread: Buffer = Buffer.alloc(0);
	let current: Current | undefined;
	for (const piece of pieces) {
		unread = Buffer.concat([unread, Buffer.from(piece, 'latin1')]);
		for (;;) {
			if (current === undefined) {
				if (unread.length === 0) break;
				const end = reader.read(unread, 0);
				if (reader.refusal !== undefined || (end !== -1 && reader.block.head instanceof Rejection)) {
					return { requests, refused: true };
				}
				if (end === -1) break;
				unread = unread.subarray(end);
				current = begin(reader);
			}
			const taken = current.body.read(unread, 0);
			current.content += current.body.piece.toString('latin1');
			unread = unread.subarray(taken);
			if (current.body.problem !== undefined) return { requests, refused: true };
			if (!current.body.isComplete) break;
			requests.push({ ...current.request, body: current.content, trailers: current.body.trailers ?? [] });
			if (current.isLast) return { requests, refused: false };
			current = undefined;
		}
	}
	return { requests, refused: false };
}

interface Current {
	readonly request: Omit<ReadRequest, 'body' | 'trailers'>;
	readonly body: RequestBody;
	content: string;
	readonly isLast: boolean;
}

function begin({ method, target, minor, block }: RequestHeadReader): Current {
	const head = block.head as RequestHead;
	const length = method === 'CONNECT' ? 0 : head.bodyLength;
	const isLast = block.close || block.upgrade || method === 'CONNECT' || (minor === 0 && !block.keepAlive);
	return {
		request: { method, target, head: factsOf(head) },
		body: requestBody(length, MAX_HEAD),
		content: '',
		isLast,
	};
}

function factsOf({ authorization, lines, bodyLength, wantsUpgrade, expectsContinue }: RequestHead): unknown {
	return { authorization, lines, bodyLength, wantsUpgrade, expectsContinue };
}

type End = 'clean' | 'malformed head' | 'broken';

function readByTheDecisions(text: string): { requests: ReadRequest[]; end: End } {
	const { requests, end } = readRequests(text);
	const read: ReadRequest[] = [];
	for (const { method, wireTarget, fields, minor, body, isComplete, trailers = [] } of requests) {
		const head = readHttp1Head(fields.flat(), minor!);
		if (head instanceof Rejection) return { requests: read, end: 'malformed head' };
		if (!isComplete) return { requests: read, end: 'broken' };
		read.push({
			...{ method, target: wireTarget!, head: factsOf(head), body },
			trailers: inLowerCase(trailers).flat(),
		});
	}
	return { requests: read, end: end === 'malformed' ? 'malformed head' : end === 'unfinished' ? 'broken' : 'clean' };
}

/** What Node's own server parses: complete requests, in order. */
async function readByLlhttp(text: string): Promise<Pick<ReadRequest, 'method' | 'body'>[]> {
	const requests: { method: string; body: string; isComplete: boolean }[] = [];
	const server = createServer({ maxHeaderSize: MAX_HEAD, keepAliveTimeout: 0 });
	server.maxHeadersCount = 0;
	const take = (req: IncomingMessage): { method: string; body: string; isComplete: boolean } => {
		const request = { method: req.method!, body: '', isComplete: false };
		requests.push(request);
		req.setEncoding('latin1').on('data', (chunk: string) => {
			request.body += chunk;
		});
		req.on('end', () => {
			request.isComplete = true;
		});
		req.on('error', () => {});
		return request;
	};
	const answer = (req: IncomingMessage, res: ServerResponse) => {
		take(req);
		res.end();
	};
	server.on('request', answer).on('checkContinue', answer).on('checkExpectation', answer);
	server.on('upgrade', take).on('connect', (req) => {
		take(req).isComplete = true;
	});
	server.on('clientError', () => {});
	const [client, served] = duplexPair();
	client.on('error', () => {}).resume();
	served.on('error', () => {});
	server.emit('connection', served);
	client.write(text, 'latin1');
	for (let quiet = 0, before = ''; quiet < QUIET_TURNS; ) {
		await turn();
		const now = JSON.stringify(requests);
		quiet = now === before ? quiet + 1 : 0;
		before = now;
	}
	client.destroy();
	served.destroy();
	server.close();
	return requests.filter(({ isComplete }) => isComplete).map(({ method, body }) => ({ method, body }));
}

/** After this many turns of the event loop without news nothing more comes; all of it is in memory. */
const QUIET_TURNS = 12;

function* cuts(text: string, random: Random | undefined): Generator<string[]> {
	if (text === '') return;
	const step = Math.ceil(text.length / CUT_EVERYWHERE);
	for (let at = 1; at < text.length; at += step) yield [text.slice(0, at), text.slice(at)];
	if (step === 1) yield [...text];
	yield (random ?? new Random(text.length)).cut(text, 8);
}
