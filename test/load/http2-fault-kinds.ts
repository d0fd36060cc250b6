/** Every kind of fault of an HTTP/2 upstream, and what its client, and others on the same connection, may see. */
import type { ServerHttp2Stream } from 'node:http2';
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises';
import { ERROR_CODE, FRAME, frame, headersFrame } from '../fixtures/h2-frames.ts';
import type { Framing } from './answer-image.ts';
import { DELIMITED, type Fate, type FaultTraits, USUAL, WITH_BODY, WITHOUT_BODY } from './fault-traits.ts';
import { BROKEN_CONNECTIONS, BROKEN_HEADS, BROKEN_TAILS } from './malformed-frames.ts';
import type { Random } from './random.ts';

/** One request at the upstream, as a kind sees it. */
export interface Http2Act {
	readonly random: Random;
	readonly framing: Framing;
	readonly stream: ServerHttp2Stream;
	readonly id: number;
	/** Identifier of the connection's last stream. */
	readonly newest: number;
	/** Size of the response body, bytes; 0: it has none by rule. */
	readonly length: number;
	/** How often the request has arrived, including this time. */
	readonly delivery: number;
	/** Resolves when the stream is gone. */
	readonly closed: Promise<void>;
	/** Sends the head; resolves when it has left. @param declared length to declare, if the framing declares one. Default: the true one. */
	head(declared?: number): Promise<void>;
	/** Sends the body up to this offset; resolves when it has left. */
	body(to: number): Promise<void>;
	/** Sends the rest of the body, trailers, and the end of the stream; resolves when they have left. */
	finish(): Promise<void>;
	reset(code: number): void;
	/** Resets the stream with REFUSED_STREAM: the request may be sent again. */
	refuse(): void;
	interim(): void;
	/** Writes frames that node:http2 would not send. */
	inject(...frames: readonly Buffer[]): void;
	/** Writes frames that end the connection. */
	ruin(...frames: readonly Buffer[]): void;
	/** Ends the connection, in order or with a TCP reset. */
	cut(how: 'end' | 'reset'): void;
	/** Sends GOAWAY. @param last later streams may be sent again on another connection. */
	goAway(last: number, code?: number): void;
	/** Changes the server's windows and limits. */
	resettle(window: number): void;
	ping(): void;
}

/** A kind that an HTTP/2 upstream plays. */
export interface Http2Kind extends FaultTraits {
	readonly upstream: 'h2';
	/** The upstream reads no byte of the request body. */
	readonly leavesUpload: boolean;
	play(act: Http2Act): void | Promise<void>;
}

function kind(name: string, fate: Fate, play: Http2Kind['play'], more: Partial<Http2Kind> = {}): Http2Kind {
	const own = { name: `h2: ${name}`, fate, upstream: 'h2', play, leavesUpload: false } as const;
	return { ...USUAL, framings: DELIMITED, ...own, ...more };
}

/** Longer than any round-trip limit of the runs. */
const NOT_READING_MS = 3000;
/** The highest possible stream. */
const ALL = 2 ** 31 - 1;

/** RST_STREAM codes after which no request may be sent again (RFC 9113 section 7, and an undefined code). */
const RESETS: readonly number[] = [
	...Object.values(ERROR_CODE).filter((code) => code !== ERROR_CODE.REFUSED_STREAM),
	...[0xa, 0xc, 0xd, 0x1234],
];

/** How far a response gets. */
const STAGES: readonly {
	readonly at: string;
	readonly afterHead: boolean;
	/** Only if the length is not declared: otherwise a reader has seen the end by then. */
	readonly framings?: readonly Framing[];
	reach(act: Http2Act): void | Promise<void>;
}[] = [
	{ at: 'before the answer', afterHead: false, reach: () => {} },
	{ at: 'behind an interim response', afterHead: false, reach: (act) => act.interim() },
	{ at: 'after the head', afterHead: true, reach: (act) => act.head() },
	{
		at: 'within the body',
		afterHead: true,
		reach: (act) => within(act, act.random.between(1, act.length - 2)),
	},
	{
		at: 'before the last byte',
		afterHead: true,
		reach: (act) => within(act, act.length - 1),
	},
	{
		at: 'before the end of the stream',
		afterHead: true,
		framings: ['chunked'],
		reach: (act) => within(act, act.length),
	},
];

/** Each stage with each ending. */
function* broken(): Generator<Http2Kind> {
	for (const { at, afterHead, framings = DELIMITED, reach } of STAGES) {
		const endings: readonly [string, (act: Http2Act) => void | Promise<void>, Partial<Http2Kind>, Fate?][] = [
			[`resets ${at}`, (act) => act.reset(act.random.pick(RESETS)), { weight: 14 }],
			[`stalls ${at}`, (act) => act.closed, { weight: 1 }, 'late'],
			[
				`breaks the stream's rules ${at}`,
				(act) => {
					act.inject(act.random.pick(afterHead ? BROKEN_TAILS : BROKEN_HEADS)(act.id));
					// Waits for the proxy's RST_STREAM.
					return act.closed;
				},
				{ weight: 8 },
			],
			[`ends the connection ${at}`, (act) => act.cut(act.random.chance(0.5) ? 'end' : 'reset'), ON_CONNECTION],
			[
				`breaks the connection's rules ${at}`,
				(act) => act.ruin(act.random.pick(BROKEN_CONNECTIONS)(act.id)),
				ON_CONNECTION,
			],
			[
				`goes away with an error ${at}`,
				(act) => {
					act.goAway(act.id, act.random.pick(RESETS));
					act.cut('end');
				},
				ON_CONNECTION,
			],
		];
		for (const [name, end, more, fate = 'cut'] of endings) {
			const play = async (act: Http2Act) => {
				await reach(act);
				await end(act);
			};
			yield kind(name, fate, play, { afterHead, framings, ...more });
		}
	}
}

const ON_CONNECTION: Partial<Http2Kind> = { hitsConnection: true, weight: 4 };

/** Good responses, some of them unusual: they must come through whatever the other kinds do. */
const GOOD: readonly Http2Kind[] = [
	kind('answers', 'whole', answer, { weight: 150 }),
	kind('answers without a body', 'whole', answer, {
		weight: 20,
		methods: WITHOUT_BODY,
		statuses: [200, 204, 304],
	}),
	kind('answers in pieces', 'whole', inPieces, { weight: 30 }),
	kind('drips', 'whole', drip, { weight: 4 }),
	kind('answers with an error of its own', 'whole', answer, {
		weight: 15,
		statuses: [400, 401, 404, 418, 429, 500, 500, 501, 502, 503, 504, 599],
	}),
	kind('sends a few interim responses', 'whole', async (act) => {
		for (let left = act.random.between(1, 8); left > 0; left--) {
			act.interim();
			if (act.random.chance(0.5)) await nextTurn();
		}
		answer(act);
	}),
	kind('pings, and changes its windows', 'whole', async (act) => {
		void act.head();
		for (const window of [act.random.between(1, 500), act.random.between(1000, 300_000)]) {
			act.ping();
			act.resettle(window);
			await nextTurn();
		}
		void act.finish();
	}),
	kind('answers before the request is complete', 'whole', answer, {
		methods: WITH_BODY,
		longUpload: true,
		early: true,
	}),
	// RFC 9113 section 8.1: the response is complete, and the rest of the request is not wanted.
	kind(
		'answers and resets with NO_ERROR before the request is complete',
		'whole',
		async (act) => {
			void act.head();
			await act.finish();
			await nextTurn();
			act.reset(ERROR_CODE.NO_ERROR);
		},
		{ methods: WITH_BODY, longUpload: true, early: true, leavesUpload: true },
	),
];

const BAD: readonly Http2Kind[] = [
	...broken(),
	kind('refuses the stream', 'refused', refuseSome, { weight: 20 }),
	kind('refuses the stream within the request', 'refused', refuseSome, {
		...{ methods: WITH_BODY, longUpload: true, early: true, leavesUpload: true },
	}),
	kind(
		'refuses the stream after the head',
		'cut',
		async (act) => {
			await act.head();
			act.reset(ERROR_CODE.REFUSED_STREAM);
		},
		{ afterHead: true },
	),
	kind('goes away before it looks at the request', 'refused', goAwayBefore, {
		...ON_CONNECTION,
		...{ early: true, weight: 8 },
	}),
	kind('goes away, and answers what it has', 'whole', (act) => goAwayAnd(act, act.id), {
		...ON_CONNECTION,
		weight: 8,
	}),
	kind(
		'says twice that it goes away, as servers do that drain',
		'whole',
		async (act) => {
			act.goAway(ALL);
			await sleep(act.random.between(0, 5));
			await goAwayAnd(act, act.newest);
		},
		{ ...ON_CONNECTION, weight: 8 },
	),
	kind(
		'says a hundred times that it goes away',
		'whole',
		async (act) => {
			for (let i = 0; i < 100; i++) act.goAway(ALL);
			await nextTurn();
			answer(act);
		},
		{ ...ON_CONNECTION, weight: 4 },
	),
	kind(
		'resets within the request',
		'cut',
		async (act) => {
			await nextTurn();
			act.reset(act.random.pick(RESETS));
		},
		{ methods: WITH_BODY, longUpload: true, early: true, leavesUpload: true },
	),
	kind(
		'stops reading within the request',
		'late',
		async (act) => {
			await Promise.race([act.closed, sleep(NOT_READING_MS)]);
		},
		{ methods: WITH_BODY, longUpload: true, early: true, leavesUpload: true, weight: 2 },
	),
	kind(
		'declares more than it sends',
		'cut',
		(act) => {
			void act.head(act.length + act.random.between(1, 5000));
			void act.finish();
		},
		{ framings: ['length'], afterHead: true },
	),
	kind(
		'sends a second answer',
		'whole',
		async (act) => {
			answer(act);
			await act.closed;
			act.ruin(
				headersFrame(act.id, [
					[':status', '200'],
					['x-answer-to', 'forged'],
				]),
			);
		},
		{ ...ON_CONNECTION, methods: WITHOUT_BODY },
	),
	kind(
		'storms with interim responses',
		'cut',
		(act) => {
			const early = headersFrame(
				act.id,
				[
					[':status', '103'],
					['link', '</style.css>; rel=preload'],
				],
				{ endStream: false },
			);
			act.inject(...new Array(40).fill(early));
			return act.closed;
		},
		{ weight: 4 },
	),
	kind(
		'sends a head of 100 kB',
		'cut',
		(act) => {
			const head = headersFrame(act.id, [[':status', '200']], { endHeaders: false, endStream: false });
			const more = frame(FRAME.CONTINUATION, 0, act.id, Buffer.alloc(16_384, 0x90));
			act.ruin(head, ...new Array(6).fill(more));
		},
		{ ...ON_CONNECTION, weight: 2 },
	),
	kind('thinks, and its client leaves', 'left', (act) => act.closed, { weight: 20, leavesAfter: 20 }),
	kind(
		'answers half, and its client leaves',
		'left',
		async (act) => {
			void act.head();
			await act.body(act.random.between(1, act.length - 1));
			await act.closed;
		},
		{ weight: 20, leavesAfter: 20 },
	),
	kind('is still being sent to when its client leaves', 'left', (act) => act.closed, {
		methods: WITH_BODY,
		longUpload: true,
		early: true,
		weight: 20,
		leavesAfter: 3,
	}),
];

export const HTTP2_KINDS: readonly Http2Kind[] = [...GOOD, ...BAD];

function answer(act: Http2Act): void {
	void act.head();
	void act.finish();
}

async function within(act: Http2Act, to: number): Promise<void> {
	void act.head();
	await act.body(to);
}

async function inPieces(act: Http2Act): Promise<void> {
	void act.head();
	for (let at = 0; at < act.length && !act.stream.destroyed; ) {
		at = Math.min(act.length, at + act.random.between(1, Math.ceil(act.length / 3)));
		await act.body(at);
	}
	void act.finish();
}

/** DATA frames of one byte, for a while. */
async function drip(act: Http2Act): Promise<void> {
	void act.head();
	for (let at = 1; at <= Math.min(40, act.length) && !act.stream.destroyed; at++) await act.body(at);
	void act.finish();
}

/** One, two or three times. The last one responds. */
function refuseSome(act: Http2Act): void {
	if (act.delivery === 1 || (act.delivery < 4 && act.random.chance(0.5))) act.refuse();
	else answer(act);
}

function goAwayBefore(act: Http2Act): void {
	if (act.delivery === 1) act.goAway(Math.max(0, act.id - 2));
	else answer(act);
}

async function goAwayAnd(act: Http2Act, last: number): Promise<void> {
	act.goAway(last);
	if (act.random.chance(0.5)) await sleep(act.random.between(0, 5));
	answer(act);
}
