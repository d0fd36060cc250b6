import assert from 'node:assert/strict';
import type { ResponseFields } from '../../packages/proxy/src/data/client/response-fields.ts';
import type { ResponseEvents } from '../../packages/proxy/src/data/upstream/contract.ts';
import { ProtocolError } from '../../packages/proxy/src/data/upstream/response-head.ts';
import { ResponseParser } from '../../packages/proxy/src/data/upstream/response-parser.ts';
import { UNDECLARED } from '../../packages/proxy/src/gates/body-limit.ts';
import type { ResponseCase } from './responses.ts';

/** Everything that our parser reports of one response. */
export interface ParsedResponse {
	readonly verdict: 'complete' | 'waiting' | 'refused';
	readonly status: number;
	/** Forwarded fields, names and values in turn. */
	readonly fields: readonly string[];
	/** Latin1; includes what was reported before a refusal. */
	readonly body: string;
	/** Names and values in turn. */
	readonly trailers: readonly string[];
	/** Bytes that belong to the response. */
	readonly length: number;
	readonly keepAlive: boolean;
	/** Message of a refusal. */
	readonly reason: string;
}

/**
 * Parses these pieces. Each piece is overwritten afterwards, as the read buffer is.
 *
 * @param parser one that has parsed complete responses before; default: a new one.
 */
export function parsePieces(
	{ method, closes }: ResponseCase,
	pieces: readonly string[],
	parser: ResponseParser = new ResponseParser(),
): ParsedResponse {
	const recorder = new Recorder();
	parser.expect(method, recorder);
	let length = 0;
	let reason = '';
	try {
		for (const piece of pieces) {
			if (parser.isDone) break;
			const bytes = Buffer.from(piece, 'latin1');
			length += parser.push(bytes);
			bytes.fill('#');
		}
		if (closes && !parser.isDone) parser.close();
	} catch (error) {
		if (!(error instanceof ProtocolError)) throw error;
		reason = error.message;
	}
	const { trailers } = parser;
	assert.notDeepEqual(trailers, [], 'no trailers are undefined');
	const { status, fields, body } = recorder;
	const told = { status, fields, body, trailers: trailers ?? [], reason };
	if (reason !== '') return { ...told, verdict: 'refused', length: 0, keepAlive: false };
	if (!parser.isDone) return { ...told, verdict: 'waiting', length: 0, keepAlive: false };
	return { ...told, verdict: 'complete', length, keepAlive: parser.keepAlive };
}

class Recorder implements ResponseEvents {
	status = 0;
	fields: readonly string[] = [];
	body = '';

	onHead(status: number, { list }: ResponseFields, length: number): void {
		assert.equal(this.status, 0, 'one head');
		this.status = status;
		// The declared length comes last; other framing fields are not forwarded.
		this.fields = length === UNDECLARED ? [...list] : list.slice(0, -2);
	}

	onBody(chunk: Buffer): void {
		assert.notEqual(this.status, 0, 'a body after the head');
		assert.notEqual(chunk.length, 0, 'no empty piece');
		this.body += chunk.toString('latin1');
	}
}
