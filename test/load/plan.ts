/** What each request of a run is to be: a function of the run's seed and the request's number, and of nothing else. */
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
	/** Of the answer. */
	readonly framing: Framing;
	readonly method: Method;
	readonly status: number;
	/** Bytes of the request's body; `undefined`: it has none. */
	readonly uploadLength: number | undefined;
	/** The request's length is announced; otherwise its end is told by its framing. */
	readonly uploadDeclared: boolean;
	/** Trailers follow the request's body. */
	readonly uploadTrailers: boolean;
	/** Bytes of the answer's body, where there is one. */
	readonly answerLength: number;
	/** The upstream has trailers to send, where its framing has room for them. */
	readonly trailers: boolean;
	/** An HTTP/1.1 client says that it takes them. */
	readonly wantsTrailers: boolean;
	/** A unary call of gRPC: both bodies are a message. */
	readonly isCall: boolean;
	/** For the details of how the upstream plays it. */
	readonly random: Random;
	/** For the details of how the client sends it. */
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
	// A call's status comes behind its message, whose length is in its own prefix.
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

/** Of trailers, which name their request. */
export const UPLOAD_TRAILER = 'x-trailer-of-request';
export const ANSWER_TRAILER = 'x-trailer-of-answer';
/** Before a message of gRPC: not compressed, and its length. */
const PREFIX = 5;

/** The body that belongs to the request. It has one. */
export function uploadBody(plan: Plan): Buffer {
	const length = plan.uploadLength!;
	return length === 0 ? Buffer.alloc(0) : bodyOf('up', plan, length);
}

/** @returns what is wrong with a request as it has come whole, in words. @param trailer `UPLOAD_TRAILER`. */
export function faultOfUpload(plan: Plan, body: Buffer, trailer: string | undefined): string | undefined {
	const length = plan.uploadLength ?? 0;
	if (body.length !== length) return `${body.length} bytes for ${length}`;
	const expected = plan.uploadTrailers ? plan.id : undefined;
	if (trailer !== expected) return `a trailer of ${trailer} for ${expected}`;
	return length === 0 ? undefined : faultIn(body, 'up', plan);
}

/** @returns likewise, of a whole answer. @param trailer `ANSWER_TRAILER`. */
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

/** Names and values of the answer's head, without its framing. */
export function answerHead(plan: Plan): HeaderList {
	return [
		['X-Answer-To', plan.id],
		['X-Answer-For', plan.tenant],
		['Content-Type', plan.isCall ? 'application/grpc' : 'application/octet-stream'],
		['ETag', `"${hash('sha256', plan.id).slice(0, 16)}"`],
	];
}

/** `undefined`: by rule it has none. */
export function replyBody(plan: Plan): Buffer | undefined {
	return isBodiless(plan) ? undefined : bodyOf('down', plan, plan.answerLength);
}

/** `undefined`: none. */
export function answerTrailers(plan: Plan): Record<string, string> | undefined {
	if (!hasTrailers(plan)) return undefined;
	return { [ANSWER_TRAILER]: plan.id, ...(plan.isCall && { 'grpc-status': '0' }) };
}

/** The answer that belongs to the request, over HTTP/1.1. */
export function goodAnswer(plan: Plan): AnswerImage {
	const { status, framing, random } = plan;
	const trailers = Object.entries(answerTrailers(plan) ?? {}).map(([name, value]) => `${name}: ${value}\r\n`);
	const parts = { status, headers: answerHead(plan), body: replyBody(plan), framing, trailers: trailers.join('') };
	return answerImage(parts, random);
}

/** Some have nothing to send and frame it all the same. */
function lengthOfUpload(random: Random): number {
	return random.chance(0.08) ? 0 : lengthOfBody(random);
}

/** Mostly short; some long; some just around what buffers hold. */
function lengthOfBody(random: Random): number {
	const sort = random.next();
	if (sort < 0.05) return random.between(SHORTEST_BODY, 300_000);
	if (sort < 0.1) return random.pick([4096, 16_384, 65_536, 131_072]) + random.between(-2, 2);
	return random.between(SHORTEST_BODY, 3000);
}
