/** What each request of a run is to be: a function of the run's seed and the request's number, and of nothing else. */
import { hash } from 'node:crypto';
import { type AnswerImage, answerImage, type Framing } from './answer-image.ts';
import { type BodyOwner, checkedBody, SHORTEST_BODY } from './checked-body.ts';
import type { FaultKind, Method } from './fault-kinds.ts';
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
	/** Bytes of the answer's body, where there is one. */
	readonly answerLength: number;
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
	const withBody = method === 'POST' || method === 'PUT';
	const uploadLength = kind.longUpload ? random.between(300_000, 500_000) : lengthOfUpload(random);
	return {
		number,
		id: `r${(seed >>> 0).toString(36)}-${number}`,
		tenant: `tenant-${random.between(1, TENANTS)}`,
		protocol: number % 2 === 0 ? 'h1' : 'h2',
		kind,
		framing: random.pick(kind.framings),
		method,
		status: random.pick(kind.statuses),
		uploadLength: withBody ? uploadLength : undefined,
		uploadDeclared: random.chance(0.5),
		answerLength: lengthOfBody(random),
		random,
		clientRandom: new Random(seed, number, 1),
	};
}

/** The answer that belongs to the request. */
export function goodAnswer(plan: Plan): AnswerImage {
	const { method, status, framing, random } = plan;
	const bodiless = method === 'HEAD' || status === 204 || status === 304;
	return answerImage(
		{
			status,
			headers: [
				['X-Answer-To', plan.id],
				['X-Answer-For', plan.tenant],
				['Content-Type', 'application/octet-stream'],
				['ETag', `"${hash('sha256', plan.id).slice(0, 16)}"`],
			],
			body: bodiless ? undefined : checkedBody('down', plan, plan.answerLength),
			framing,
		},
		random,
	);
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
