import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { type H2Raw, h2Raw } from '../fixtures/clients.ts';
import {
	continuationFrame,
	dataFrame,
	ERROR_CODE,
	FLAG,
	FRAME,
	frame,
	headerBlock,
	headersFrame,
	rstStreamFrame,
	SETTING,
	statusOf,
} from '../fixtures/h2-frames.ts';
import { testPki } from '../fixtures/pki.ts';
import { BODY_MODE, testOnce } from '../fixtures/proxy.ts';
import { type Rises, type Stage, startStage } from '../fixtures/stage.ts';
import type { Exchange } from '../fixtures/upstream.ts';
import { until } from '../fixtures/wait.ts';

const MAX_BODY_BYTES = 100_000;
const MAX_STREAMS = 64;

type Lines = readonly (readonly [name: string, value: string])[];

let stage: Stage;
let token: string;

const respondOk = (exchange: Exchange) => exchange.respond({ body: 'ok' });

before(async () => {
	token = (await testPki()).token();
	stage = await startStage({ limits: { max_request_body_bytes: MAX_BODY_BYTES }, script: respondOk });
});
after(() => stage.end());

/** A whole head with a valid token; control data as given, `undefined` leaves it out. */
function head(control: Readonly<Record<string, string | undefined>> = {}, lines: Lines = []): Lines {
	const pseudo = { ':method': 'GET', ':path': '/a', ':scheme': 'https', ':authority': 'localhost', ...control };
	const present = Object.entries(pseudo).filter((entry): entry is [string, string] => entry[1] !== undefined);
	return [...present, ['authorization', `Bearer ${token}`], ...lines];
}

function post(lines: Lines = []): Lines {
	return head({ ':method': 'POST' }, lines);
}

/** Without a dynamic table (RFC 7541 section 4.2), so that a status can be read off its frame. */
function connect(): Promise<H2Raw> {
	return h2Raw(stage.proxy, { settings: [[SETTING.HEADER_TABLE_SIZE, 0]] });
}

/** The end of a stream: `400 bad path`, `reset 1` with the error code, or `closed` with the connection. */
async function outcome(connection: H2Raw, streamId = 1): Promise<string> {
	const of = (type: number) => connection.frames.filter((it) => it.type === type && it.streamId === streamId);
	const ended = () => [...of(FRAME.HEADERS), ...of(FRAME.DATA)].some(({ flags }) => flags & FLAG.END_STREAM);
	const over = () => ended() || of(FRAME.RST_STREAM).length > 0 || connection.socket.destroyed;
	await until(over, () => `an end of stream ${streamId}; there are ${connection.frames.length} frames`);
	if (ended()) {
		const body = Buffer.concat(of(FRAME.DATA).map(({ payload }) => payload));
		return `${statusOf(of(FRAME.HEADERS).at(-1)!)} ${body}`.trim();
	}
	const [reset] = of(FRAME.RST_STREAM);
	return reset === undefined ? 'closed' : `reset ${reset.payload.readUInt32BE(0)}`;
}

const PROTOCOL_ERROR = `reset ${ERROR_CODE.PROTOCOL_ERROR}`;
const WITHOUT_TOKEN = head().filter(([name]) => name !== 'authorization');
/** A request without a token, which the upstream hears nothing of. */
const ANOTHER: Rises = { 401: 1, missing: 1 };

/** Sends heads that are refused like this, as `Stage.refused` means it; their connections serve on. */
async function refused(heads: readonly Lines[], expected: string, rises: Rises = {}): Promise<void> {
	const all: Record<string, number> = {};
	for (const [name, rise] of [...Object.entries(ANOTHER), ...Object.entries(rises)]) {
		all[name] = (all[name] ?? 0) + rise * heads.length;
	}
	await stage.refused(all, async () => {
		for (const lines of heads) {
			using connection = await connect();
			connection.send(headersFrame(1, lines));
			assert.equal(await outcome(connection), expected, JSON.stringify(lines));
			connection.send(headersFrame(3, WITHOUT_TOKEN));
			assert.equal(await outcome(connection, 3), '401 unauthorized');
		}
	});
}

/** What the upstream has got of a request with this head. */
async function forwarded(lines: Lines, ...frames: Buffer[]) {
	using connection = await connect();
	const before = stage.upstream.requests.length;
	connection.send(headersFrame(1, lines, { endStream: frames.length === 0 }), ...frames);
	assert.equal(await outcome(connection), '200 ok', JSON.stringify(lines));
	await stage.counted({ '200 upstream': 1 });
	return stage.upstream.requests[before]!;
}

/** One for each rule: unit/data/http2/protocol.test.ts and unit/gates have all the cases. */
describe('the head of an HTTP/2 request', () => {
	const adding = (name: string, value: string) => head({}, [[name, value]]);

	testOnce('resets its stream if it is malformed', async () => {
		await refused(
			[
				...['', '/a b', '*'].map((path) => head({ ':path': path })),
				head({ ':method': 'CONNECT' }),
				head({ ':authority': 'user@localhost' }),
				[...head({ ':method': undefined }), [':method', 'GET']],
				...['a\rb', 'a\x00b'].map((value) => adding('x-evil', value)),
				...['x\r\nevil', 'X-Upper'].map((name) => adding(name, 'evil')),
				adding('transfer-encoding', 'gzip'),
				adding('content-length', '+0'),
			],
			PROTOCOL_ERROR,
		);
	});

	testOnce(
		'is refused if it is well-formed and two readers could understand it in two ways, or asks for a tunnel',
		async () => {
			const paths = ['/a#b', '/a/%2e%2E/b', '/%00'];
			await refused(
				paths.map((path) => head({ ':path': path })),
				'400 bad path',
				{ 400: 1 },
			);
			await refused([head({ ':scheme': 'ftp' }), adding('host', 'other'), adding('x-a', 'a ')], '400 bad request', {
				400: 1,
			});
			await refused([head({ ':method': 'HEAD', ':path': '/..' })], '400', { 400: 1 });
			const tunnel = head({ ':method': 'CONNECT', ':path': undefined, ':scheme': undefined });
			await refused([tunnel], '501 protocol upgrades are not supported', { 501: 1 });
		},
	);

	testOnce('is passed on byte by byte beyond ASCII', async () => {
		// As UTF-8 these would be U+010A and U+010D, which cut down to a byte are LF and CR.
		const request = await forwarded(adding('x-bytes', '\xc4\x8a\xc4\x8d\xff'));
		assert.equal(request.header('x-bytes'), '\xc4\x8a\xc4\x8d\xff');
	});
});

describe('the size of an HTTP/2 head', () => {
	testOnce('is limited for the head as a whole, over all its frames', async () => {
		await stage.refused({ 431: 1, ...ANOTHER }, async () => {
			using connection = await connect();
			const rest = [0, 1, 2, 3].map((i) => continuationFrame(1, [[`x-${i}`, 'a'.repeat(14_000)]], i === 3));
			connection.send(headersFrame(1, head(), { endHeaders: false }), ...rest);
			assert.equal(await outcome(connection), '431 headers too large');
			connection.send(headersFrame(3, WITHOUT_TOKEN));
			assert.equal(await outcome(connection, 3), '401 unauthorized');
		});
	});

	testOnce('an HTTP/2 head that is small on the wire and above the limit when decoded is refused', async () => {
		await stage.refused(ANOTHER, async () => {
			using connection = await connect();
			const value = Buffer.alloc(3900, 'a');
			// RFC 7541: a field for the dynamic table (6.2.1), then references to it (6.1) by one byte each.
			const literal = Buffer.concat([
				Buffer.of(0x40, 0x01, 0x78, 0x7f, 0x80 | ((3900 - 127) & 0x7f), (3900 - 127) >> 7),
				value,
			]);
			const references = Buffer.alloc(10_000, 0x80 | 62);
			const flags = FLAG.END_HEADERS | FLAG.END_STREAM;
			connection.send(frame(FRAME.HEADERS, flags, 1, Buffer.concat([headerBlock(WITHOUT_TOKEN), literal])));
			assert.equal(await outcome(connection), '401 unauthorized');
			connection.send(frame(FRAME.HEADERS, flags, 3, Buffer.concat([headerBlock(head()), references])));
			assert.equal(await outcome(connection, 3), `reset ${ERROR_CODE.ENHANCE_YOUR_CALM}`);
		});
	});
});

describe('the body of an HTTP/2 request', () => {
	/** The upstream gets nothing, or, where bodies are streamed, a request that is never complete. Nothing is counted. */
	async function neverComplete(...frames: Buffer[]): Promise<string> {
		const { bytesReceived, requests } = stage.upstream;
		const before = requests.length;
		using connection = await connect();
		connection.send(...frames);
		const result = await outcome(connection);
		connection.close();
		await stage.noConnections();
		await stage.counted({});
		if (BODY_MODE === 'collected') assert.equal(stage.upstream.bytesReceived, bytesReceived);
		else
			await stage.upstream.until(() => requests.slice(before).every(({ state }) => state === 'aborted'), 'the abort');
		return result;
	}

	it('an HTTP/2 body shorter or longer than content-length resets the stream', async () => {
		const open = (length: string) => headersFrame(1, post([['content-length', length]]), { endStream: false });
		assert.equal(await neverComplete(open('10'), dataFrame(1, 'hello', true)), PROTOCOL_ERROR);
		assert.equal(await neverComplete(headersFrame(1, post([['content-length', '10']]))), PROTOCOL_ERROR);
		assert.equal(await neverComplete(open('3'), dataFrame(1, 'he'), dataFrame(1, 'llo', true)), PROTOCOL_ERROR);
	});

	it('an HTTP/2 body that is reset between its last byte and END_STREAM is not forwarded as complete', async () => {
		const before = stage.upstream.requests.length;
		using connection = await connect();
		const open = headersFrame(1, post([['content-length', '5']]), { endStream: false });
		connection.send(open, dataFrame(1, 'hello'));
		// Streaming: the upstream has the head by now, and must not have got the byte that makes it a request.
		if (BODY_MODE === 'streaming') await stage.upstream.request(before + 1);
		connection.send(rstStreamFrame(1, ERROR_CODE.CANCEL), headersFrame(3, WITHOUT_TOKEN));
		assert.equal(await outcome(connection, 3), '401 unauthorized');
		await stage.counted(ANOTHER);
		if (BODY_MODE === 'streaming') {
			const request = stage.upstream.requests[before]!;
			await stage.upstream.until(() => request.state !== 'receiving', 'the request to end');
			assert.equal(request.state, 'aborted');
		} else {
			assert.equal(stage.upstream.requests.length, before);
		}
	});

	it('an HTTP/2 body that breaks off is not forwarded as complete', async () => {
		for (const lines of [post(), post([['content-length', '10']])]) {
			const before = stage.upstream.requests.length;
			const { bytesReceived } = stage.upstream;
			using connection = await connect();
			connection.send(headersFrame(1, lines, { endStream: false }), dataFrame(1, 'hello'));
			if (BODY_MODE === 'streaming') {
				const request = await stage.upstream.request(before + 1);
				await until(() => String(request.body) === 'hello', 'the first bytes');
			}
			connection.send(rstStreamFrame(1, ERROR_CODE.NO_ERROR), headersFrame(3, WITHOUT_TOKEN));
			assert.equal(await outcome(connection, 3), '401 unauthorized');
			await stage.counted(ANOTHER);
			if (BODY_MODE === 'streaming') {
				const request = stage.upstream.requests[before]!;
				await stage.upstream.until(() => request.state === 'aborted', 'the request to be aborted');
			} else {
				assert.equal(stage.upstream.bytesReceived, bytesReceived);
			}
		}
	});

	it('malformed HTTP/2 trailers, and trailers without END_STREAM, reset the stream', async () => {
		const open = headersFrame(1, post(), { endStream: false });
		for (const [name, value] of [
			[':path', '/evil'],
			['connection', 'close'],
		] as const) {
			assert.equal(await neverComplete(open, dataFrame(1, 'a'), headersFrame(1, [[name, value]])), PROTOCOL_ERROR);
		}
		const more = headersFrame(1, [['x-a', 'b']], { endStream: false });
		assert.equal(await neverComplete(open, dataFrame(1, 'a'), more, dataFrame(1, 'b', true)), PROTOCOL_ERROR);
	});

	it('an HTTP/2 body above the limit gets a whole 413, and then a reset with NO_ERROR', async () => {
		const tooLarge = BODY_MODE === 'collected' ? '413' : '413 upstream';
		const pieces = Array.from({ length: 10 }, () => dataFrame(1, 'x'.repeat(16_000)));
		// The bytes that the windows allow at first, and those after the windows have been opened again.
		const cases: [answer: string, frames: Buffer[], more?: Buffer[]][] = [
			['413 payload too large', [headersFrame(1, post([['content-length', '999999']]), { endStream: false })]],
			[
				'413 payload too large',
				[headersFrame(1, post(), { endStream: false }), ...pieces.slice(0, 4)],
				pieces.slice(4, 7),
			],
			['401 unauthorized', [headersFrame(1, WITHOUT_TOKEN, { endStream: false }), ...pieces.slice(0, 3)]],
		];
		// Side by side, for each waits some seconds for the reset.
		const run = async ([answer, frames, more]: (typeof cases)[number]) => {
			using connection = await connect();
			connection.send(...frames);
			if (more !== undefined) {
				await connection.frameOf(FRAME.WINDOW_UPDATE, 1);
				connection.send(...more);
			}
			assert.equal(await outcome(connection), answer);
			assert.equal(await connection.resetCode(1), ERROR_CODE.NO_ERROR);
			// Late frames belong to no stream, and do not end the connection.
			connection.send(dataFrame(1, 'late'), dataFrame(1, 'too late', true), headersFrame(3, WITHOUT_TOKEN));
			assert.equal(await outcome(connection, 3), '401 unauthorized');
		};
		await Promise.all(cases.map(run));
		await stage.counted({ [tooLarge]: 2, 401: 4, missing: 4 });
	});
});

describe('a flood of', () => {
	const times = (count: number, make: (i: number) => Buffer) => Array.from({ length: count }, (_, i) => make(i));

	testOnce(
		'resets of streams ends the connection, and never has more requests in flight than streams allowed',
		async () => {
			stage.script((exchange) => exchange.stall());
			let most = 0;
			let reached = 0;
			try {
				const before = stage.upstream.requests.length;
				using connection = await connect();
				const watch = setInterval(() => {
					most = Math.max(most, stage.upstream.trafficConnections.filter(({ socket }) => !socket.destroyed).length);
				}, 1);
				try {
					// As many as may be open, each of them well on its way before it is reset, unless it was refused.
					const refusals = () => connection.frames.filter(({ type }) => type === FRAME.RST_STREAM).length;
					for (let id = 1; id < 2 * 5000 && !connection.socket.destroyed; id += 2 * MAX_STREAMS) {
						const ids = Array.from({ length: MAX_STREAMS }, (_, i) => id + 2 * i);
						connection.send(...ids.map((it) => headersFrame(it, head())));
						const sent = (id - 1) / 2 + MAX_STREAMS;
						const settled = () => stage.upstream.requests.length - before + refusals() >= sent;
						await until(() => connection.socket.destroyed || settled(), 'the upstream');
						connection.send(...ids.map((it) => rstStreamFrame(it)));
					}
					await connection.untilClosed();
				} finally {
					clearInterval(watch);
				}
				reached = stage.upstream.requests.length - before;
				await stage.noConnections();
				await stage.upstream.until(({ requests }) => requests.length === before + reached, 'the end of it');
				await stage.counted({});
			} finally {
				stage.script(respondOk);
			}
			assert.ok(reached >= MAX_STREAMS && reached < 2000, `${reached} requests reached the upstream`);
			// Those that end are still being closed when the next ones come.
			assert.ok(most <= 2 * MAX_STREAMS, `${most} connections at once`);
		},
	);

	testOnce('streams that are reset at once ends the connection and costs the upstream little', async () => {
		const rss = () => stage.proxy.metric('process_resident_memory_bytes');
		const { upstream } = stage;
		const streams = 5 * 5000;
		stage.script((exchange) => exchange.stall());
		try {
			const before = { requests: upstream.requests.length, rss: await rss() };
			for (let i = 0; i < 5; i++) {
				using connection = await connect();
				connection.send(
					...times(5000, (i) => Buffer.concat([headersFrame(1 + 2 * i, head()), rstStreamFrame(1 + 2 * i)])),
				);
				await connection.untilClosed();
			}
			await stage.noConnections();
			await stage.counted({});
			// A connection that has used up its share is read later: a stream whose reset has to wait may be on its way by then.
			const reached = upstream.requests.length - before.requests;
			assert.ok(reached < streams / 20, `${reached} of ${streams} requests have reached the upstream`);
			const grown = (await rss()) - before.rss;
			assert.ok(grown < 60e6, `the process has grown by ${grown / 1e6} MB`);
		} finally {
			stage.script(respondOk);
		}
	});

	testOnce('streams beyond the limit ends the connection of a client that has acknowledged the limit', async () => {
		stage.script((exchange) => exchange.stall());
		try {
			using connection = await connect();
			await connection.frame(({ type, flags }) => type === FRAME.SETTINGS && (flags & FLAG.ACK) !== 0);
			connection.send(...times(MAX_STREAMS + 1, (i) => headersFrame(1 + 2 * i, head())));
			await connection.untilClosed();
			await stage.noConnections();
			await stage.counted({});
		} finally {
			stage.script(respondOk);
		}
	});
});

describe('a body that grows too large after the answer has begun', () => {
	it('has the stream reset, whatever more of it comes in the same read', async () => {
		// The answer begins with the request's head, where bodies are streamed.
		await using small = await startStage({
			limits: { max_request_body_bytes: 1000 },
			script: async (exchange) => {
				exchange.startChunked();
				await exchange.stall();
			},
			early: true,
		});
		const tooLarge = BODY_MODE === 'collected' ? '413 payload too large' : `reset ${ERROR_CODE.INTERNAL_ERROR}`;
		for (let i = 0; i < 3; i++) {
			using connection = await h2Raw(small.proxy, { settings: [[SETTING.HEADER_TABLE_SIZE, 0]] });
			connection.send(headersFrame(1, post(), { endStream: false }), dataFrame(1, 'x'));
			if (BODY_MODE === 'streaming') await connection.frameOf(FRAME.HEADERS, 1);
			const rest = Array.from({ length: 50 }, () => dataFrame(1, 'x'.repeat(300)));
			connection.send(...rest, headersFrame(3, WITHOUT_TOKEN));
			assert.equal(await outcome(connection), tooLarge);
			assert.equal(await outcome(connection, 3), '401 unauthorized');
			await small.counted({ ...ANOTHER, [BODY_MODE === 'collected' ? '413' : '200 upstream']: 1 });
		}
	});
});
