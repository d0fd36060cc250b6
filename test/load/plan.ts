/** The plan of each request: a pure function of the run's seed and the request's number. */
import { hash } from 'node:crypto';
import type { HeaderList } from '../fixtures/http1-message.ts';
import { type AnswerImage, answerImage, type Framing } from './answer-image.ts';
import { type BodyOwner, checkedBody, type Direction, faultOfBody, SHORTEST_BODY } from './checked-body.ts';
import type { FaultKind } from './fault-kinds.ts';
import type { Method } from './fault-traits.ts';
import { Random } from './random.ts';

export type Protocol = 'h1' | 'h2';

export interface Plan extends BodyOwner {
	readonly protocol: Protocol;
	readonly kind: FaultKind;
	/** Protocol and framing of the response. */
	readonly framing: Framing;
	readonly method: Method;
	readonly status: number;
	/** Size of the request body, bytes; `undefined`: none. */
	readonly uploadLength: number | undefined;
	/** The request declares its length; otherwise its framing shows the end. */
	readonly uploadDeclared: boolean;
	/** The request has trailers. */
	readonly uploadTrailers: boolean;
	/** Size of the response body, bytes, if it has one. */
	readonly answerLength: number;
	/** The upstream sends trailers if its framing can carry them. */
	readonly trailers: boolean;
	/** An HTTP/1.1 client announces that it accepts trailers. */
	readonly wantsTrailers: boolean;
	/** A unary gRPC call: both bodies are one message. */
	readonly isCall: boolean;
	/** Random numbers for how the upstream plays it. */
	readonly random: Random;
	/** Random numbers for how the client sends it. */
	readonly clientRandom: Random;
}

export const TENANTS = 40;

export function planRequest(seed: number, number: number, kinds: readonly FaultKind[]): Plan {
	const random = new Random(seed, number);
	const kind = random.weighted(kinds);
	const method = random.pick(kind.methods);
	const protocol = number % 2 === 0 ? 'h1' : 'h2';
	const withBody = method === 'POST' || method === 'PUT';
	const status = random.pick(kind.statuses);
	const mayCall = kind.upstream === 'h2' && protocol === 'h2' && method === 'POST' && status === 200;
	// A call's status follows its message, whose length is in its own prefix.
	const isCall = mayCall && kind.framings.includes('chunked') && random.chance(0.4);
	const uploadLength = kind.longUpload ? random.between(300_000, 500_000) : lengthOfUpload(random);
	const uploadDeclared = !isCall && random.chance(0.5);
	return {
		number,
		id: `r${(seed >>> 0).toString(36)}-${number}`,
		tenant: `tenant-${random.between(1, TENANTS)}`,
		protocol,
		kind,
		framing: isCall ? 'chunked' : random.pick(kind.framings),
		method,
		status,
		uploadLength: withBody ? (isCall ? Math.max(uploadLength, SHORTEST_BODY + PREFIX) : uploadLength) : undefined,
		uploadDeclared,
		uploadTrailers: withBody && !isCall && !uploadDeclared && random.chance(0.3),
		answerLength: lengthOfBody(random) + (isCall ? PREFIX : 0),
		trailers: isCall || random.chance(0.3),
		wantsTrailers: random.chance(0.5),
		isCall,
		random,
		clientRandom: new Random(seed, number, 1),
	};
}

/** Names of trailers that carry the request's identifier. */
export const UPLOAD_TRAILER = 'x-trailer-of-request';
export const ANSWER_TRAILER = 'x-trailer-of-answer';
/** Prefix of a gRPC message: uncompressed, and its length. */
const PREFIX = 5;

/** The request's body. It has one. */
export function uploadBody(plan: Plan): Buffer {
	const length = plan.uploadLength!;
	return length === 0 ? Buffer.alloc(0) : bodyOf('up', plan, length);
}

/** @returns what is wrong with a complete request, as text. @param trailer `UPLOAD_TRAILER`. */
export function faultOfUpload(plan: Plan, body: Buffer, trailer: string | undefined): string | undefined {
	const length = plan.uploadLength ?? 0;
	if (body.length !== length) return `${body.length} bytes for ${length}`;
	const expected = plan.uploadTrailers ? plan.id : undefined;
	if (trailer !== expected) return `a trailer of ${trailer} for ${expected}`;
	return length === 0 ? undefined : faultIn(body, 'up', plan);
}

/** @returns what is wrong with a complete response, as text. @param trailer `ANSWER_TRAILER`. */
export function faultOfAnswer(plan: Plan, body: Buffer, trailer: string | undefined): string | undefined {
	if (isBodiless(plan)) return body.length === 0 ? undefined : 'a body by no rule';
	const expected = hasTrailers(plan) && (plan.protocol === 'h2' || plan.wantsTrailers) ? plan.id : undefined;
	if (trailer !== expected) return `a trailer of ${trailer} for ${expected}`;
	return body.length === plan.answerLength ? faultIn(body, 'down', plan) : `${body.length} bytes`;
}

function bodyOf(direction: Direction, plan: Plan, length: number): Buffer {
	if (!plan.isCall) return checkedBody(direction, plan, length);
	const prefix = Buffer.alloc(PREFIX);
	prefix.writeUInt32BE(length - PREFIX, 1);
	return Buffer.concat([prefix, checkedBody(direction, plan, length - PREFIX)]);
}

function faultIn(body: Buffer, direction: Direction, plan: Plan): string | undefined {
	if (!plan.isCall) return faultOfBody(body, direction, plan);
	if (body[0] !== 0 || body.readUInt32BE(1) !== body.length - PREFIX) return 'a message with another prefix';
	return faultOfBody(body.subarray(PREFIX), direction, plan);
}

/** By rule: HEAD, 204, 304. */
function isBodiless({ method, status }: Plan): boolean {
	return method === 'HEAD' || status === 204 || status === 304;
}

function hasTrailers({ trailers, framing }: Plan): boolean {
	return trailers && framing === 'chunked';
}

/** Names and values of the response head, without its framing. */
export function answerHead(plan: Plan): HeaderList {
	return [
		['X-Answer-To', plan.id],
		['X-Answer-For', plan.tenant],
		['Content-Type', plan.isCall ? 'application/grpc' : 'application/octet-stream'],
		['ETag', `"${hash('sha256', plan.id).slice(0, 16)}"`],
	];
}

/** `undefined`: it has none by rule. */
export function replyBody(plan: Plan): Buffer | undefined {
	return isBodiless(plan) ? undefined : bodyOf('down', plan, plan.answerLength);
}

/** `undefined`: none. */
export function answerTrailers(plan: Plan): Record<string, string> | undefined {
	if (!hasTrailers(plan)) return undefined;
	return { [ANSWER_TRAILER]: plan.id, ...(plan.isCall && { 'grpc-status': '0' }) };
}

/** The request's response, over HTTP/1.1. */
export function goodAnswer(plan: Plan): AnswerImage {
	const { status, framing, random } = plan;
	const trailers = Object.entries(answerTrailers(plan) ?? {}).map(([name, value]) => `${name}: ${value}\r\n`);
	const parts = { status, headers: answerHead(plan), body: replyBody(plan), framing, trailers: trailers.join('') };
	return answerImage(parts, random);
}

/** Some requests frame an empty body. */
function lengthOfUpload(random: Random): number {
	return random.chance(0.08) ? 0 : lengthOfBody(random);
}

/** Mostly short; some long; some around the sizes of buffers. */
function lengthOfBody(random: Random): number {
	const sort = random.next();
	if (sort < 0.05) return random.between(SHORTEST_BODY, 300_000);
	if (sort < 0.1) return random.pick([4096, 16_384, 65_536, 131_072]) + random.between(-2, 2);
	return random.between(SHORTEST_BODY, 3000);
}
