/**
 * Every kind of fault of an HTTP/1.1 upstream, and what its client may see. How a response is cut, delayed or falsified follows from the
 * request's own random numbers, so that a run can be repeated.
 */
import type { Socket } from 'node:net';
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises';
import { type AnswerImage, chunk, FRAMINGS, type Framing } from './answer-image.ts';
import { DELIMITED, type Fate, type FaultTraits, USUAL, WITH_BODY, WITHOUT_BODY } from './fault-traits.ts';
import { MALFORMED_CHUNKS, MALFORMED_HEADS, POISONS } from './malformed.ts';
import type { Random } from './random.ts';

/** One request at the upstream, as a kind sees it. */
export interface Act {
	readonly random: Random;
	readonly framing: Framing;
	/** The response of a good upstream. */
	readonly image: AnswerImage;
	readonly socket: Socket;
	/** Resolves when the connection is gone. */
	readonly closed: Promise<void>;
	/** Text is latin1. */
	write(bytes: Buffer | string): void;
	/** FIN, after everything that was written. */
	fin(): void;
	/** RST, after what was written has left. */
	reset(): void;
}

/** A kind that an HTTP/1.1 upstream plays. */
export interface Http1Kind extends FaultTraits {
	readonly upstream: 'h1';
	play(act: Act): void | Promise<void>;
}

function kind(name: string, fate: Fate, play: Http1Kind['play'], more: Partial<Http1Kind> = {}): Http1Kind {
	return { ...USUAL, name, fate, upstream: 'h1', play, ...more };
}

/** Longer than any round-trip limit of the runs. */
const NOT_READING_MS = 3000;

/** How far a response gets, and how it stops there: each stage with each ending. */
function* broken(): Generator<Http1Kind> {
	const stages: readonly {
		at: string;
		cut: (act: Act) => number;
		afterHead: boolean;
	}[] = [
		{ at: 'before the answer', cut: () => 0, afterHead: false },
		{
			at: 'within the head',
			cut: ({ image, random }) => random.between(1, image.headEnd - 1),
			afterHead: false,
		},
		{
			at: 'after the head',
			cut: ({ image }) => image.headEnd,
			afterHead: true,
		},
		{
			at: 'within the body',
			cut: ({ image, random }) => random.between(image.headEnd + 1, image.bytes.length - 1),
			afterHead: true,
		},
		{
			at: 'before the last byte',
			cut: ({ image }) => image.bytes.length - 1,
			afterHead: true,
		},
	];
	for (const { at, cut, afterHead } of stages) {
		const begin = (act: Act) => act.write(act.image.bytes.subarray(0, cut(act)));
		// If the body ends with the connection, an orderly end completes it: no reader can tell (RFC 9112 section 6.3).
		yield kind(
			`closes ${at}`,
			'cut',
			(act) => {
				begin(act);
				act.fin();
			},
			{ afterHead, framings: afterHead ? DELIMITED : FRAMINGS },
		);
		yield kind(
			`resets ${at}`,
			'cut',
			(act) => {
				begin(act);
				act.reset();
			},
			{ afterHead },
		);
		yield kind(
			`stalls ${at}`,
			'late',
			async (act) => {
				begin(act);
				await act.closed;
			},
			{ afterHead, weight: 2 },
		);
	}
}

/** Good responses, some of them unusual: they must come through whatever the other kinds do. */
const GOOD: readonly Http1Kind[] = [
	kind('answers', 'whole', (act) => act.write(act.image.bytes), { weight: 120 }),
	kind('answers without a body', 'whole', (act) => act.write(act.image.bytes), {
		weight: 20,
		methods: WITHOUT_BODY,
		statuses: [200, 204, 304],
	}),
	kind('answers in pieces', 'whole', inPieces, { weight: 30 }),
	kind('drips', 'whole', drip, { weight: 4 }),
	kind('answers with an error of its own', 'whole', (act) => act.write(act.image.bytes), {
		weight: 15,
		statuses: [400, 401, 404, 418, 429, 500, 500, 501, 502, 503, 504, 599],
	}),
	kind('sends a few interim responses', 'whole', fewInterim),
	kind('sends trailers', 'whole', trailers, { framings: ['chunked'] }),
	kind('promises a short keep-alive', 'whole', (act) => {
		act.write(withLine(act.image, `Keep-Alive: timeout=${act.random.between(0, 3)}`));
	}),
	kind(
		'announces the end of the connection',
		'whole',
		(act) => {
			act.write(withLine(act.image, 'Connection: close'));
			act.fin();
		},
		{ spoils: true },
	),
	kind('closes unannounced after the answer', 'whole', async (act) => {
		act.write(act.image.bytes);
		await sleep(act.random.between(0, 3));
		act.fin();
	}),
	// A reset may overtake a response, but must not look like its end.
	kind(
		'resets unannounced after the answer',
		'whole or cut',
		async (act) => {
			act.write(act.image.bytes);
			if (act.random.chance(0.7)) await sleep(act.random.between(0, 3));
			act.reset();
		},
		{ afterHead: true },
	),
	kind('answers before the request is complete', 'whole', (act) => act.write(act.image.bytes), {
		methods: WITH_BODY,
		longUpload: true,
		early: true,
	}),
];

const BAD: readonly Http1Kind[] = [
	...broken(),
	// Closing a socket with unread bytes resets it; the reset may overtake the response.
	kind(
		'answers and closes before the request is complete',
		'whole or cut',
		(act) => {
			act.socket.pause();
			act.write(withLine(act.image, 'Connection: close'));
			act.socket.destroySoon();
		},
		{
			spoils: true,
			methods: WITH_BODY,
			longUpload: true,
			early: true,
			afterHead: true,
		},
	),
	kind(
		'resets within the request',
		'cut',
		async (act) => {
			await nextTurn();
			act.reset();
		},
		{ methods: WITH_BODY, longUpload: true, early: true },
	),
	kind(
		'stops reading within the request',
		'late',
		async (act) => {
			act.socket.pause();
			// A paused socket reports its end only after it is read on.
			await Promise.race([act.closed, sleep(NOT_READING_MS)]);
			act.socket.resume();
			await act.closed;
		},
		{ methods: WITH_BODY, longUpload: true, early: true, weight: 2 },
	),

	kind('malformed head', 'cut', (act) => act.write(act.random.pick(MALFORMED_HEADS)), { weight: 30 }),
	kind('malformed chunk', 'cut', malformedChunk, { framings: ['chunked'], afterHead: true, weight: 20 }),
	kind(
		'declares more than it sends',
		'cut',
		(act) => {
			act.write(withLength(act.image, act.random.between(1, 5000)));
			act.fin();
		},
		{ framings: ['length'], afterHead: true },
	),
	kind('sends more than it declares', 'whole', excess, { framings: DELIMITED, spoils: true }),
	kind(
		'sends a second answer',
		'whole',
		(act) => {
			act.write(Buffer.concat([act.image.bytes, FORGED_ANSWER]));
		},
		{ framings: DELIMITED, spoils: true },
	),
	kind(
		'sends a body where there is none',
		'whole',
		(act) => {
			act.write(Buffer.concat([act.image.bytes, FORGED_ANSWER]));
		},
		{ methods: ['GET', 'HEAD', 'DELETE'], statuses: [204, 304], spoils: true },
	),
	kind('switches protocols unasked', 'cut', (act) => {
		act.write('HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n');
	}),
	kind(
		'storms with interim responses',
		'cut',
		(act) => {
			const storm = 'HTTP/1.1 103 Early Hints\r\nLink: </style.css>; rel=preload\r\n\r\n'.repeat(2000);
			act.write(Buffer.concat([Buffer.from(storm), act.image.bytes]));
		},
		{ weight: 4 },
	),
	kind(
		'sends a head of 100 kB',
		'cut',
		(act) => {
			act.write(withLine(act.image, `X-Long: ${'x'.repeat(100_000)}`));
		},
		{ weight: 4 },
	),
	kind(
		'sends a head without end',
		'cut',
		(act) => pourUntilClosed(act, 'HTTP/1.1 200 OK\r\n', Buffer.from('X-More: and more\r\n'.repeat(500))),
		{ weight: 4 },
	),
	kind(
		'sends trailers without end',
		'cut',
		(act) => {
			const { bytes } = act.image;
			// Without the empty line that would end the trailers.
			act.write(bytes.subarray(0, bytes.length - 2));
			return pourUntilClosed(act, '', Buffer.from('X-More: and more\r\n'.repeat(500)));
		},
		{ framings: ['chunked'], afterHead: true, weight: 4 },
	),
	kind(
		'goes on for ever after the answer',
		'whole',
		(act) => {
			return pourUntilClosed(act, Buffer.concat([act.image.bytes, FORGED_ANSWER]), FORGED_ANSWER);
		},
		{ framings: DELIMITED, spoils: true, weight: 4 },
	),

	kind('thinks, and its client leaves', 'left', (act) => act.closed, { weight: 10, leavesAfter: 20 }),
	kind(
		'answers half, and its client leaves',
		'left',
		async (act) => {
			act.write(act.image.bytes.subarray(0, act.random.between(1, act.image.bytes.length - 1)));
			await act.closed;
		},
		{ weight: 10, leavesAfter: 20 },
	),
	kind('is still being sent to when its client leaves', 'left', (act) => act.closed, {
		methods: WITH_BODY,
		longUpload: true,
		early: true,
		weight: 10,
		leavesAfter: 3,
	}),

	kind('refuses the connection', 'cut', () => {}, { alone: 'refuse', weight: 5 }),
	kind('resets the connection at once', 'cut', () => {}, { alone: 'reset on accept', weight: 5 }),
	kind('closes the connection at once', 'cut', () => {}, { alone: 'close on accept', weight: 5 }),
	kind('accepts and does not read', 'late', () => {}, { alone: 'stall on accept', weight: 1 }),
	kind('poisons an idle connection', 'whole', (act) => act.write(act.image.bytes), {
		alone: 'poison while idle',
		framings: DELIMITED,
		weight: 5,
	}),
	kind('floods', 'flooded', flood, { alone: 'flood', afterHead: true, leavesAfter: 300, weight: 0.5 }),
];

export const HTTP1_KINDS: readonly Http1Kind[] = [...GOOD, ...BAD];

/** A complete response without a request; its receiver can recognize it. */
const FORGED_ANSWER = Buffer.from(
	'HTTP/1.1 200 Forged\r\nX-Answer-To: forged\r\nContent-Length: 6\r\n\r\nforged',
	'latin1',
);

/** What an upstream sends on an idle connection: a forgery, a polite farewell, a line break, a byte. */
export function poison(random: Random): Buffer {
	return random.chance(0.4) ? FORGED_ANSWER : Buffer.from(random.pick(POISONS), 'latin1');
}

async function inPieces(act: Act): Promise<void> {
	const { bytes } = act.image;
	for (let at = 0; at < bytes.length && !act.socket.destroyed; ) {
		const end = at + act.random.between(1, Math.ceil(bytes.length / 3));
		act.write(bytes.subarray(at, end));
		at = end;
		await nextTurn();
	}
}

/** Byte by byte around the end of the head, where a parser keeps the most state; in about 60 pieces. */
async function drip(act: Act): Promise<void> {
	const { bytes, headEnd } = act.image;
	const from = Math.max(0, headEnd - 20);
	const to = Math.min(bytes.length, headEnd + 30);
	act.write(bytes.subarray(0, from));
	for (let at = from; at < to && !act.socket.destroyed; at++) {
		act.write(bytes.subarray(at, at + 1));
		await sleep(1);
	}
	act.write(bytes.subarray(to));
}

async function fewInterim(act: Act): Promise<void> {
	for (let left = act.random.between(1, 8); left > 0; left--) {
		act.write(`HTTP/1.1 ${act.random.pick([100, 102, 103])} Interim\r\nX-Answer-To: interim\r\n\r\n`);
		if (act.random.chance(0.5)) await nextTurn();
	}
	act.write(act.image.bytes);
}

function trailers({ image, random, write }: Act): void {
	const { bytes } = image;
	const lines = random.pick(['X-Proxy-Tenant: somebody\r\n', 'X-Answer-To: trailer\r\nETag: "1"\r\n']);
	// Before the empty line that ends the message.
	write(Buffer.concat([bytes.subarray(0, bytes.length - 2), Buffer.from(lines), Buffer.from('\r\n')]));
}

function malformedChunk(act: Act): void {
	const { bytes, headEnd } = act.image;
	const good = act.random.chance(0.5) ? chunk(Buffer.from('good so far')) : Buffer.alloc(0);
	act.write(
		Buffer.concat([bytes.subarray(0, headEnd), good, Buffer.from(act.random.pick(MALFORMED_CHUNKS), 'latin1')]),
	);
}

function excess({ image, random, write }: Act): void {
	write(Buffer.concat([image.bytes, Buffer.alloc(random.between(1, 3000), random.pick(['0', '\r', '\n', '\0', 'H']))]));
}

function flood(act: Act): Promise<void> {
	const piece = Buffer.alloc(65_536, 'flood ');
	const { bytes, headEnd } = act.image;
	const head = act.framing === 'length' ? withLength(act.image, 1e12) : bytes;
	const end = act.framing === 'length' ? head.indexOf('\r\n\r\n') + 4 : headEnd;
	return pourUntilClosed(act, head.subarray(0, end), act.framing === 'chunked' ? chunk(piece) : piece);
}

/** As fast as the other side reads. */
async function pourUntilClosed({ socket, closed, write }: Act, first: Buffer | string, piece: Buffer): Promise<void> {
	const pour = () => {
		while (!socket.destroyed && socket.write(piece));
	};
	write(first);
	socket.on('drain', pour);
	pour();
	await closed;
}

/** With one more line at the end of the head. */
function withLine({ bytes, headEnd }: AnswerImage, line: string): Buffer {
	return Buffer.concat([bytes.subarray(0, headEnd - 2), Buffer.from(`${line}\r\n\r\n`), bytes.subarray(headEnd)]);
}

/** Declares `more` bytes than there are. */
function withLength({ bytes, headEnd }: AnswerImage, more: number): Buffer {
	const head = bytes.toString('latin1', 0, headEnd);
	const lied = head.replace(/content-length: (\d+)/, (_, length) => `content-length: ${Number(length) + more}`);
	return Buffer.concat([Buffer.from(lied, 'latin1'), bytes.subarray(headEnd)]);
}
