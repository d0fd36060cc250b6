/** What HTTP/2 servers send: valid responses on several concurrent streams, and all kinds of wrong frames. */
import { ERROR_CODE, FRAME, SETTING } from '../fixtures/h2-frames.ts';
import {
	content,
	edits,
	type FrameSpec,
	type FramesCase,
	HARMLESS,
	headers,
	inserted,
	MANY,
	ODD_FIELDS,
	oddBlock,
	oddFrame,
	oddSettings,
	settings,
	shuffledFrames,
	uint,
} from './frames.ts';
import { HpackWriter } from './hpack.ts';
import type { Random } from './random.ts';
import type { Field } from './responses.ts';

export interface AskedRequest {
	readonly method: string;
	/** Bytes. */
	readonly body: number;
	/** Its body does not end before the response. */
	readonly isOpen: boolean;
}

/** The requests of one connection, and everything that the server sends. The n-th request has stream 2n + 1. */
export interface ServerCase extends Pick<FramesCase, 'frames' | 'edits'> {
	readonly requests: readonly AskedRequest[];
	/** Number of responses if all are valid and complete. */
	readonly valid?: true;
}

export const SERVER_KINDS = {
	valid: 4,
	'odd status': 3,
	'odd fields': 4,
	'odd lengths': 4,
	'odd trailers': 3,
	'odd frames': 5,
	'odd settings': 2,
	'odd compression': 3,
	'ends of streams': 4,
	'moved windows': 3,
	'many frames': 1,
	'frames shuffled': 5,
	'bytes mutated': 6,
	'mutated corpus': 6,
	'cut short': 1,
} as const;

type ServerKind = keyof typeof SERVER_KINDS;

/** @param corpus earlier cases to build on. */
export function oddServer(random: Random, kind: ServerKind, corpus: readonly ServerCase[]): ServerCase {
	const responses = random.list(random.between(1, 5), () => plainResponse(random));
	const requests = responses.map(({ request }) => request);
	const with1 = (change: (random: Random, response: ResponseSpec) => ResponseSpec) => {
		const at = random.below(responses.length);
		const changed = responses.with(at, change(random, responses[at]!));
		return { requests: changed.map(({ request }) => request), frames: connection(random, changed) };
	};
	const frames = () => connection(random, responses);
	switch (kind) {
		case 'valid':
			return { requests, frames: frames(), valid: true };
		case 'odd status':
			return with1(oddStatus);
		case 'odd fields':
			return with1(oddFields);
		case 'odd lengths':
			return with1(oddLength);
		case 'odd trailers':
			return with1(oddTrailers);
		case 'odd frames':
			return { requests, frames: inserted(random, frames(), () => oddFrame(random)) };
		case 'odd settings':
			return { requests, frames: inserted(random, frames(), () => oddSettings(random)) };
		case 'odd compression':
			return { requests, frames: inserted(random, frames(), () => oddBlock(random, '\x88\x5f\x04edge')) };
		case 'ends of streams':
			return { requests, frames: inserted(random, frames(), () => [ending(random)]) };
		case 'moved windows':
			return { requests, frames: inserted(random, frames(), () => windowMoves(random)) };
		case 'many frames': {
			const one = random.pick(MANY);
			return { requests, frames: inserted(random, frames(), () => random.list(random.between(20, 100), () => one)) };
		}
		case 'frames shuffled':
			return { requests, frames: shuffledFrames(random, frames()) };
		case 'bytes mutated':
			return { requests, frames: frames(), edits: edits(random) };
		case 'mutated corpus': {
			const { valid: _, ...base } = random.pick(corpus);
			const other = random.pick(corpus).frames;
			const spliced = [
				...base.frames.slice(0, random.between(1, base.frames.length)),
				...other.slice(random.below(other.length)),
			];
			const mixed = shuffledFrames(random, random.chance(0.5) ? spliced : base.frames);
			return { ...base, frames: mixed, edits: random.chance(0.3) ? edits(random) : [] };
		}
		case 'cut short':
			return { requests, frames: frames(), edits: [{ at: random.below(1500), remove: 1_000_000, insert: '' }] };
	}
}

/** One response as its frames describe it, and its request. */
interface ResponseSpec {
	readonly request: AskedRequest;
	readonly interims: readonly (readonly Field[])[];
	readonly fields: readonly Field[];
	readonly body: string;
	readonly trailers?: readonly Field[];
	/** The last frame lacks END_STREAM. */
	readonly endless?: boolean;
}

function plainResponse(random: Random): ResponseSpec {
	const method = random.pick(['GET', 'GET', 'POST', 'HEAD', 'DELETE']);
	const hasBody = method === 'POST';
	const request = {
		method,
		body: hasBody ? random.pick([0, 1, 1000, 70_000]) : 0,
		isOpen: hasBody && random.chance(0.2),
	};
	const status = random.pick(['200', '200', '200', '201', '204', '206', '304', '404', '500', '503', '599']);
	const isBodiless = method === 'HEAD' || status === '204' || status === '304';
	const body = isBodiless ? '' : random.bytes(random.length(300));
	const length: Field[] = !isBodiless && random.chance(0.5) ? [['content-length', String(body.length)]] : [];
	const interims = random.list(random.chance(0.2) ? random.between(1, 3) : 0, (): Field[] => [
		[':status', random.pick(['100', '102', '103'])],
		...(random.chance(0.5) ? [['link', '</a>'] as const] : []),
	]);
	const fields: Field[] = [[':status', status], ...random.list(random.below(4), () => random.pick(PLAIN)), ...length];
	if (isBodiless || random.chance(0.7)) return { request, interims, fields, body };
	return { request, interims, fields, body, trailers: random.list(random.between(1, 2), () => random.pick(PLAIN)) };
}

const PLAIN: readonly Field[] = [
	['x-a', '1'],
	['x-a', '2'],
	['x-empty', ''],
	['x-obs', '\xe4\xff'],
	['set-cookie', 'a=b; c'],
	['content-type', 'text/plain'],
	['server', 'fuzz'],
	['grpc-status', '0'],
	['cookie', 'a=1'],
	['__proto__', '1'],
	['x-tab', 'a\tb'],
];

/** All frames of a connection: heads in any order of their streams, bodies interleaved. */
function connection(random: Random, responses: readonly ResponseSpec[]): FrameSpec[] {
	const writer = new HpackWriter(random);
	const frames: FrameSpec[] = [settings(random.chance(0.3) ? [[SETTING.MAX_CONCURRENT_STREAMS, 100]] : [])];
	const waiting = responses.map((response, i) => ({ response, stream: 2 * i + 1 }));
	const open: FrameSpec[][] = [];
	while (waiting.length > 0 || open.length > 0) {
		if (random.chance(0.1)) frames.push(random.pick(HARMLESS));
		if (waiting.length > 0 && (open.length === 0 || random.chance(0.5))) {
			const [{ response, stream }] = waiting.splice(random.below(waiting.length), 1) as [(typeof waiting)[number]];
			for (const interim of response.interims) frames.push(...headers(random, stream, writer.write(interim), false));
			const ends = response.body === '' && response.trailers === undefined && response.endless !== true;
			frames.push(...headers(random, stream, writer.write(response.fields), ends));
			if (!ends) open.push(content(random, stream, response));
			continue;
		}
		const at = random.below(open.length);
		// The frames of a header block must be contiguous.
		do frames.push(...open[at]!.splice(0, 1));
		while (open[at]![0]?.type === FRAME.CONTINUATION);
		if (open[at]!.length === 0) open.splice(at, 1);
	}
	return frames;
}

const STATUSES = [
	'',
	'099',
	'0',
	'20',
	'2000',
	'2x0',
	'+20',
	' 200',
	'200 ',
	'600',
	'999',
	'101',
	'100',
	'199',
	'205',
	'204',
];

function oddStatus(random: Random, response: ResponseSpec): ResponseSpec {
	const status: Field = [':status', random.pick(STATUSES)];
	const rest = response.fields.filter(([name]) => name !== ':status');
	const fields = random.pick<readonly Field[]>([
		[status, ...rest],
		[status, ...rest],
		[...rest, status],
		[status, status, ...rest],
		rest,
		[status, [random.pick([':path', ':unknown', ':', ':Status', ':protocol']), 'x'], ...rest],
	]);
	return { ...response, fields };
}

function oddFields(random: Random, response: ResponseSpec): ResponseSpec {
	const fields = [...response.fields];
	for (let count = random.between(1, 2); count > 0; count--) {
		fields.splice(random.between(1, fields.length), 0, random.pick(ODD_FIELDS));
	}
	if (random.chance(0.05)) fields.push(['x-long', 'v'.repeat(random.between(10_000, 17_000))]);
	return { ...response, fields };
}

function oddLength(random: Random, response: ResponseSpec): ResponseSpec {
	const { body } = response;
	const lengths = [
		body.length,
		body.length + 1,
		body.length - 1,
		0,
		5,
		'',
		'x',
		'5, 5',
		'+5',
		'05',
		'9007199254740993',
	];
	const others = response.fields.filter(([name]) => name !== 'content-length');
	const declared = random.list(random.pick([1, 1, 2]), (): Field => ['content-length', String(random.pick(lengths))]);
	const isLate = random.chance(0.3);
	return { ...response, fields: [...others, ...declared], body: isLate ? random.bytes(5) : body };
}

function oddTrailers(random: Random, response: ResponseSpec): ResponseSpec {
	const trailers = random.list(random.between(0, 3), () =>
		random.pick<Field>([...PLAIN, ...ODD_FIELDS, [':status', '200'], [':path', '/']]),
	);
	return { ...response, trailers, endless: random.chance(0.2) };
}

function ending(random: Random): FrameSpec {
	const stream = random.pick([1, 1, 3, 3, 5, 7, 9]);
	const code = uint(random.pick([ERROR_CODE.NO_ERROR, ERROR_CODE.REFUSED_STREAM, ERROR_CODE.CANCEL, 2, 99]), 4);
	if (random.chance(0.5)) return { type: FRAME.RST_STREAM, flags: 0, stream, payload: [code] };
	const last = uint(random.pick([0, 1, 3, 5, 9, 0x7fffffff]), 4);
	return { type: FRAME.GOAWAY, flags: 0, stream: 0, payload: [last, random.chance(0.7) ? uint(0, 4) : code, 'debug'] };
}

function windowMoves(random: Random): FrameSpec[] {
	return random.list(random.between(1, 4), () => {
		if (random.chance(0.5)) {
			return settings([[SETTING.INITIAL_WINDOW_SIZE, random.pick([0, 1, 1000, 65_535, 100_000, 0x7fffffff])]]);
		}
		const increment = uint(random.pick([1, 1000, 65_535, 0x7fff0000, 0x7fffffff]), 4);
		return { type: FRAME.WINDOW_UPDATE, flags: 0, stream: random.pick([0, 0, 1, 3, 5]), payload: [increment] };
	});
}
