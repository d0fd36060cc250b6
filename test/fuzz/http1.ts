/** The HTTP/1.1 front of the real command: heads and bodies, valid, wrong and corrupted, pipelined and cut anywhere. */
import { setImmediate as turn } from 'node:timers/promises';
import { EndedEarly } from '../fixtures/byte-reader.ts';
import { type H1Raw, h1Raw } from '../fixtures/clients.ts';
import { MalformedMessage, type RawResponse } from '../fixtures/http1-message.ts';
import { type InboundStage, PATIENCE_MS, wrongAnswer } from './inbound.ts';
import type { Attempt, InboundProtocol } from './inbound-target.ts';
import type { Random } from './random.ts';
import { readRequests, type SentRequests } from './request-reading.ts';
import { fillIn, oddRequests, REQUEST_KINDS, type RequestsCase } from './requests.ts';
import { Finding } from './target.ts';

export const HTTP1: InboundProtocol<RequestsCase, SentRequests> = {
	name: 'http1',
	odd(random, corpus) {
		const kind = random.weighted(REQUEST_KINDS);
		return { kind, input: oddRequests(random, kind, corpus) };
	},
	bytes: ({ text }, tokens) => fillIn(text, tokens),
	read: readRequests,
	requests: ({ requests }) => requests,
	inOrder: true,
	send,
};

/** Sends one input, reads all responses, and checks that the connection ends. @returns the outcome of each request. */
async function send(
	stage: InboundStage,
	attempt: Attempt<RequestsCase, SentRequests>,
	text: string,
	random: Random,
): Promise<string[]> {
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
			// Complete requests must get a response without further input. After that the client ends its side, and the proxy must end, too.
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

/** `undefined`: the connection ended instead. */
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
