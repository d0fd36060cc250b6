/** Traits of a kind of fault: how its requests are sent and what their clients may see, for any upstream protocol. */
import { FRAMINGS, type Framing } from './answer-image.ts';

export type Method = 'GET' | 'HEAD' | 'POST' | 'PUT' | 'DELETE';

/** The outcome that a request must have after the upstream has played its fault. */
export type Fate =
	/** The client gets the complete response. */
	| 'whole'
	/** The upstream says that it did not process the request: the proxy sends it again, and the client gets the complete response. */
	| 'refused'
	/** The client gets a 502, or a truncated response if the head had arrived. */
	| 'cut'
	/** As before, but at the round-trip limit, with 504 instead of 502. */
	| 'late'
	/** The body exceeds the memory for bodies: 503, or the client aborts. */
	| 'flooded'
	/** A reset may overtake the response; if it arrives, it is complete. */
	| 'whole or cut'
	/** The client leaves first. */
	| 'left';

/** What a whole upstream does for one request. */
export type Solo = 'refuse' | 'reset on accept' | 'close on accept' | 'stall on accept' | 'poison while idle' | 'flood';

export interface FaultTraits {
	readonly name: string;
	/** The upstream's protocol. */
	readonly upstream: 'h1' | 'h2';
	/** Relative frequency. */
	readonly weight: number;
	readonly fate: Fate;
	/** The response head has left when the fault happens. */
	readonly afterHead: boolean;
	readonly framings: readonly Framing[];
	readonly methods: readonly Method[];
	/** Statuses of the response. */
	readonly statuses: readonly number[];
	/** The request body is long enough to be in flight for a while. */
	readonly longUpload: boolean;
	/** The fault is played when the head has arrived, not only after the body. */
	readonly early: boolean;
	/** The client aborts the request after about this time, ms. */
	readonly leavesAfter: number | undefined;
	/** After it the connection must not carry another request. */
	readonly spoils: boolean;
	/** It needs a connection, or an upstream, without other requests. */
	readonly alone: Solo | undefined;
	/** It ends a shared connection and the requests on it. */
	readonly hitsConnection: boolean;
}

export const WITHOUT_BODY: readonly Method[] = ['GET', 'GET', 'HEAD', 'DELETE'];
export const WITH_BODY: readonly Method[] = ['POST', 'POST', 'PUT'];
const ANY_METHOD: readonly Method[] = ['GET', 'GET', 'GET', 'POST', 'POST', 'PUT', 'DELETE'];
export const DELIMITED: readonly Framing[] = ['length', 'chunked'];

/** Defaults of a kind. */
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
