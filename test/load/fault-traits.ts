/** What a kind of fault says of its requests and of what their clients may get, by whatever protocol the upstream plays it. */
import { FRAMINGS, type Framing } from './answer-image.ts';

export type Method = 'GET' | 'HEAD' | 'POST' | 'PUT' | 'DELETE';

/** What a request must come to, once the upstream has done with it what its kind says. */
export type Fate =
	/** The client gets the whole answer. */
	| 'whole'
	/** The upstream has not looked at it, and says so: it is sent again, and its client gets the whole answer. */
	| 'refused'
	/** It gets a 502, or a truncated response if its head had arrived. */
	| 'cut'
	/** The same at the limit of the round trip, with 504 for 502. */
	| 'late'
	/** There is more of it than the memory for bodies: 503, or aborted by the client itself. */
	| 'flooded'
	/** The answer may be lost to a reset that overtakes it, but if it comes it is whole. */
	| 'whole or cut'
	/** The client leaves first. */
	| 'left';

/** What a whole upstream does for one request. */
export type Solo = 'refuse' | 'reset on accept' | 'close on accept' | 'stall on accept' | 'poison while idle' | 'flood';

export interface FaultTraits {
	readonly name: string;
	/** What is spoken at the upstream. */
	readonly upstream: 'h1' | 'h2';
	/** How often it comes, relative to the others. */
	readonly weight: number;
	readonly fate: Fate;
	/** The answer's head has gone out when it fails. */
	readonly afterHead: boolean;
	readonly framings: readonly Framing[];
	readonly methods: readonly Method[];
	/** Statuses of the answer. */
	readonly statuses: readonly number[];
	/** The request's body is long enough to be under way for a while. */
	readonly longUpload: boolean;
	/** It is played when the head has arrived, not only when the body has. */
	readonly early: boolean;
	/** The client aborts the request after about this long, ms. */
	readonly leavesAfter: number | undefined;
	/** After it the connection must not carry another request. */
	readonly spoils: boolean;
	/** It needs a connection, or an upstream, of which no other request is in reach. */
	readonly alone: Solo | undefined;
	/** It ends a connection that others share, and what they have there. */
	readonly hitsConnection: boolean;
}

export const WITHOUT_BODY: readonly Method[] = ['GET', 'GET', 'HEAD', 'DELETE'];
export const WITH_BODY: readonly Method[] = ['POST', 'POST', 'PUT'];
const ANY_METHOD: readonly Method[] = ['GET', 'GET', 'GET', 'POST', 'POST', 'PUT', 'DELETE'];
export const DELIMITED: readonly Framing[] = ['length', 'chunked'];

/** What holds where a kind does not say otherwise. */
export const USUAL: Omit<FaultTraits, 'name' | 'fate' | 'upstream'> = {
	weight: 10,
	afterHead: false,
	framings: FRAMINGS,
	methods: ANY_METHOD,
	statuses: [200],
	longUpload: false,
	early: false,
	leavesAfter: undefined,
	spoils: false,
	alone: undefined,
	hitsConnection: false,
};
