/** How far a request has come. Numbers, so that checking a transition costs one test of bits. */
export const STATE = {
	/** Its head passes the gates; in collected mode its body is read. */
	reading: 0,
	/** It waits to be dispatched at the end of a turn of the loop. */
	queued: 1,
	/** It waits for an upstream that is at a limit. */
	waiting: 2,
	/** An upstream has it, and no response has begun. */
	sent: 3,
	/** A response has begun; no other one can be given. */
	responding: 4,
	/** The client has the response, or has left. */
	done: 5,
} as const;

export type State = (typeof STATE)[keyof typeof STATE];

/** @throws Error for a transition that cannot happen: a fault of the proxy. */
export function checkTransition(from: State, to: State): void {
	if ((MAY_FOLLOW[from]! & (1 << to)) === 0)
		throw new Error(`a request cannot go from ${nameOf(from)} to ${nameOf(to)}`);
}

function nameOf(state: State): string {
	return Object.keys(STATE)[state]!;
}

function oneOf(...states: readonly State[]): number {
	let bits = 0;
	for (const state of states) bits |= 1 << state;
	return bits;
}

const { queued, waiting, sent, responding, done } = STATE;

/** By state, in the order of `STATE`. A client may leave, and a refusal be given, at any time before the response. */
const MAY_FOLLOW: readonly number[] = [
	oneOf(queued, responding, done),
	oneOf(waiting, sent, responding, done),
	oneOf(sent, responding, done),
	// It is sent again at once, or waits for another upstream.
	oneOf(waiting, sent, responding, done),
	oneOf(done),
	0,
];
