import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { connect, connectTls, h1Raw, h2Raw, PROTOCOLS } from '../fixtures/clients.ts';
import {
	continuationFrame,
	dataFrame,
	ERROR_CODE,
	FRAME,
	headersFrame,
	PREFACE,
	pingFrame,
	SETTING,
	settingsFrame,
	statusOf,
} from '../fixtures/h2-frames.ts';
import { headerValues } from '../fixtures/http1-message.ts';
import { testPki } from '../fixtures/pki.ts';
import { BODY_MODE } from '../fixtures/proxy.ts';
import { type Stage, startStage } from '../fixtures/stage.ts';
import { until } from '../fixtures/wait.ts';

const FIRST_REQUEST_MS = 1000;
const REQUEST_BODY_MS = 1000;
const UPSTREAM_MS = 2000;
/** The body of a client that is too slow, by mode: what it gets, how it is counted, and when. */
const SLOW_BODY =
	BODY_MODE === 'collected'
		? { status: 408, text: 'slow client', rises: { 408: 1 }, ms: REQUEST_BODY_MS }
		: { status: 504, text: 'upstream timeout', rises: { '504 upstream': 1 }, ms: UPSTREAM_MS };

let stage: Stage;
let token: string;

before(async () => {
	token = (await testPki()).token();
	stage = await startStage({
		limits: {
			first_request_timeout_secs: FIRST_REQUEST_MS / 1000,
			request_body_timeout_secs: REQUEST_BODY_MS / 1000,
			upstream_timeout_secs: UPSTREAM_MS / 1000,
			h2_max_concurrent_streams: 3,
			max_header_bytes: 4096,
		},
	});
});
after(async () => {
	await stage.noConnections();
	await stage[Symbol.asyncDispose]();
});

function assertLimited(ms: number, limit: number): void {
	assert.ok(ms >= limit - 10, `after ${ms} ms`);
	// Below every limit that holds where nothing is said.
	assert.ok(ms < limit + 6000, `only after ${ms} ms`);
}

/** Sends `bytes` one by one until the connection is gone. */
function drip(send: (byte: Buffer) => void, bytes: Buffer, everyMs = 20): () => void {
	let sent = 0;
	const timer = setInterval(() => {
		if (sent < bytes.length) send(bytes.subarray(sent, ++sent));
	}, everyMs);
	return () => clearInterval(timer);
}

/** All cases at the same time, since each of them takes as long as the limit. */
async function sideBySide<T>(
	cases: Readonly<Record<string, () => T>>,
	run: (input: T) => Promise<void>,
): Promise<void> {
	await Promise.all(
		Object.entries(cases).map(async ([what, make]) => {
			try {
				await run(make());
			} catch (error) {
				throw new Error(`${what}: ${(error as Error).message}`, { cause: error });
			}
		}),
	);
}

const H2_HEAD = () =>
	[
		[':method', 'POST'],
		[':path', '/a'],
		[':scheme', 'https'],
		[':authority', 'localhost'],
		['authorization', `Bearer ${token}`],
	] as const;

describe('the time for the first request', () => {
	const h1Cases: Record<string, () => { sent: string; dripped?: string }> = {
		'without a byte': () => ({ sent: '' }),
		'with half a head': () => ({ sent: 'GET /a HTTP/1.1\r\nHost: local' }),
		'with a head that lacks its last byte': () => ({ sent: `GET /a HTTP/1.1\r\nAuthorization: Bearer ${token}\r\n\r` }),
		'with a head that comes byte by byte': () => ({
			sent: '',
			dripped: `GET /a HTTP/1.1\r\nHost: ${'a'.repeat(1000)}`,
		}),
	};
	it('ends an HTTP/1.1 connection, whatever comes that is no whole head', async () => {
		await stage.refused({}, () =>
			sideBySide(h1Cases, async ({ sent, dripped = '' }) => {
				for (const alpn of [['http/1.1'], []]) {
					using connection = await h1Raw(stage.proxy, { alpn });
					const begun = performance.now();
					connection.send(sent);
					const stop = drip((byte) => connection.send(byte), Buffer.from(dripped));
					try {
						await connection.untilClosed();
					} finally {
						stop();
					}
					assertLimited(performance.now() - begun, FIRST_REQUEST_MS);
					assert.equal(connection.pending.length, 0);
				}
			}),
		);
	});

	const h2Cases: Record<string, () => { sent: Buffer; dripped?: Buffer; acknowledge?: boolean }> = {
		'without a byte': () => ({ sent: Buffer.alloc(0) }),
		'with half a preface': () => ({ sent: PREFACE.subarray(0, 10) }),
		'with a preface alone': () => ({ sent: PREFACE }),
		'with a preface that comes byte by byte': () => ({ sent: Buffer.alloc(0), dripped: PREFACE }),
		'with preface and SETTINGS alone': () => ({ sent: Buffer.concat([PREFACE, settingsFrame()]), acknowledge: true }),
		'without an answer to our SETTINGS': () => ({ sent: Buffer.concat([PREFACE, settingsFrame()]) }),
		'with PING after PING': () => ({
			sent: Buffer.concat([PREFACE, settingsFrame()]),
			dripped: Buffer.concat(Array.from({ length: 100 }, () => pingFrame())),
		}),
		'with half a head': () => ({
			sent: Buffer.concat([PREFACE, settingsFrame(), headersFrame(1, H2_HEAD(), { endHeaders: false })]),
		}),
		'with a head that comes byte by byte': () => ({
			sent: Buffer.concat([PREFACE, settingsFrame()]),
			dripped: headersFrame(1, [...H2_HEAD(), ['x-long', 'a'.repeat(1000)]]),
		}),
		'with a head whose frames come one by one': () => ({
			sent: Buffer.concat([PREFACE, settingsFrame(), headersFrame(1, H2_HEAD(), { endHeaders: false })]),
			dripped: Buffer.concat([continuationFrame(1, [], false), continuationFrame(1, [['x', 'a']], false)]),
		}),
	};
	it('ends an HTTP/2 connection, whatever comes that is no whole head', async () => {
		await stage.refused({}, () =>
			sideBySide(h2Cases, async ({ sent, dripped = Buffer.alloc(0), acknowledge = false }) => {
				using connection = await h2Raw(stage.proxy, { preface: false, acknowledge });
				const begun = performance.now();
				connection.send(sent);
				const stop = drip((byte) => connection.send(byte), dripped);
				try {
					await connection.untilClosed();
				} finally {
					stop();
				}
				assertLimited(performance.now() - begun, FIRST_REQUEST_MS);
			}),
		);
	});

	it('ends a connection whose client reads nothing, too', async () => {
		await stage.refused({}, async () => {
			for (const alpn of ['http/1.1', 'h2']) {
				const socket = await connectTls(stage.proxy, { alpn: [alpn] });
				socket.pause();
				socket.on('error', () => {});
				if (alpn === 'h2') socket.write(Buffer.concat([PREFACE, settingsFrame(), ...Array(900).fill(pingFrame())]));
				await until(async () => (await stage.openConnections())[alpn as 'h2'] === 1, 'the connection');
				await stage.noConnections();
				socket.destroy();
			}
		});
	});

	it('is over with the first request', async () => {
		await sideBySide({ h1: () => 'h1' as const, h2: () => 'h2' as const }, async (protocol) => {
			await using connection = await connect(protocol, stage.proxy);
			assert.equal((await connection.request()).status, 200);
			const late = performance.now() + 2 * FIRST_REQUEST_MS;
			await until(() => performance.now() > late, 'the limit to pass');
			assert.equal((await connection.request()).status, 200);
		});
		await stage.counted({ '200 upstream': 4 });
	});

	it('does not end a request that came in time, however long the upstream thinks', async () => {
		stage.script(async (exchange) => {
			await new Promise((resolve) => setTimeout(resolve, FIRST_REQUEST_MS + 150));
			exchange.respond({ body: 'late' });
		});
		try {
			await sideBySide({ h1: () => 'h1' as const, h2: () => 'h2' as const }, async (protocol) => {
				await using connection = await connect(protocol, stage.proxy);
				assert.equal((await connection.request()).text, 'late');
			});
			await stage.counted({ '200 upstream': 2 });
		} finally {
			stage.script((exchange) => exchange.respond({ body: 'ok' }));
		}
	});
});

describe('the time for the body', () => {
	/** The rises of so many slow bodies. */
	const slow = (count: number) =>
		Object.fromEntries(Object.entries(SLOW_BODY.rises).map(([name, n]) => [name, n * count]));

	it('ends a request over HTTP/1.1 whose body stops, or comes byte by byte', async () => {
		type Body = { line: string; sent?: string; dripped?: string };
		const bodies: Record<string, () => Body> = {
			'a length and nothing': () => ({ line: 'Content-Length: 1000' }),
			'a length and less': () => ({ line: 'Content-Length: 1000', sent: 'he' }),
			'a length and bytes': () => ({ line: 'Content-Length: 100000', dripped: 'x'.repeat(1000) }),
			'half a chunk': () => ({ line: 'Transfer-Encoding: chunked', sent: '5\r\nhe' }),
			'chunk after chunk': () => ({ line: 'Transfer-Encoding: chunked', dripped: '1\r\na\r\n'.repeat(1000) }),
			'no end of chunks': () => ({ line: 'Transfer-Encoding: chunked', sent: '5\r\nhello\r\n0\r\n' }),
		};
		await sideBySide(bodies, async ({ line, sent = '', dripped = '' }) => {
			using connection = await h1Raw(stage.proxy);
			const begun = performance.now();
			connection.send(`POST /a HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${token}\r\n${line}\r\n\r\n${sent}`);
			const stop = drip((byte) => connection.send(byte), Buffer.from(dripped));
			try {
				const response = await connection.readResponse();
				assertLimited(performance.now() - begun, SLOW_BODY.ms);
				assert.equal(`${response.status} ${response.body}`, `${SLOW_BODY.status} ${SLOW_BODY.text}`);
				if (headerValues(response.headers, 'connection').includes('close')) {
					assert.equal(String(await connection.readToEnd()), '');
				}
			} finally {
				stop();
			}
		});
		await stage.counted(slow(Object.keys(bodies).length));
	});

	it('ends a request over HTTP/2 whose body stops, or comes byte by byte', async () => {
		const bodies = {
			nothing: () => Buffer.alloc(0),
			'frame after frame': () => Buffer.concat(Array.from({ length: 100 }, () => dataFrame(1, 'x'))),
		};
		await sideBySide(bodies, async (dripped) => {
			using connection = await h2Raw(stage.proxy, { settings: [[SETTING.HEADER_TABLE_SIZE, 0]] });
			connection.send(headersFrame(1, H2_HEAD(), { endStream: false }), dataFrame(1, 'he'));
			const begun = performance.now();
			await connection.frameOf(FRAME.SETTINGS);
			const stop = drip((byte) => connection.send(byte), dripped);
			try {
				assert.equal(statusOf(await connection.frameOf(FRAME.HEADERS, 1)), SLOW_BODY.status);
			} finally {
				stop();
			}
			assertLimited(performance.now() - begun, SLOW_BODY.ms);
			assert.equal(await connection.resetCode(1), ERROR_CODE.NO_ERROR);
		});
		await stage.counted(slow(Object.keys(bodies).length));
	});

	it('is not that of the request behind it', async () => {
		using connection = await h1Raw(stage.proxy);
		const post = `POST /a HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${token}\r\nContent-Length: 3\r\n\r\n`;
		for (let i = 0; i < 8; i++) {
			connection.send(`${post}a`);
			const later = performance.now() + REQUEST_BODY_MS / 4;
			await until(() => performance.now() > later, 'a quarter of the limit to pass');
			connection.send('bc');
			assert.equal((await connection.readResponse()).status, 200);
		}
		await stage.counted({ '200 upstream': 8 });
	});
});

describe('the time to take the answer', () => {
	it('ends the connection of an HTTP/1.1 client that takes nothing, and lets the upstream go', async () => {
		const body = Buffer.alloc(8_000_000, 'x');
		stage.script((exchange) => exchange.respond({ body }));
		try {
			using connection = await h1Raw(stage.proxy);
			connection.socket.pause();
			connection.send(`GET /a HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${token}\r\n\r\n`);
			await stage.counted({ '200 upstream': 1 });
			await stage.noConnections();
			// What it would have got was not whole, and it can tell.
			connection.socket.resume();
			const response = await connection.readResponse();
			assert.notEqual(response.ended, 'complete');
			assert.ok(response.body.length < body.length);
		} finally {
			stage.script((exchange) => exchange.respond({ body: 'ok' }));
		}
	});

	it('is given anew with every piece to a client that takes its time', async () => {
		const body = Buffer.alloc(40_000_000, 'x');
		// More than the sockets hold on both sides together.
		const portion = 8_000_000;
		stage.script((exchange) => exchange.respond({ body }));
		try {
			using connection = await h1Raw(stage.proxy);
			const { socket } = connection;
			let taken = 0;
			socket.on('data', (bytes: Buffer) => {
				taken += bytes.length;
				if (taken < portion) return;
				taken -= portion;
				socket.pause();
				setTimeout(() => socket.resume(), UPSTREAM_MS * 0.4);
			});
			const begun = performance.now();
			connection.send(`GET /a HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${token}\r\n\r\n`);
			const response = await connection.readResponse();
			assert.equal(response.ended, 'complete');
			assert.equal(response.body.length, body.length);
			assert.ok(performance.now() - begun > 1.5 * UPSTREAM_MS);
			await stage.counted({ '200 upstream': 1 });
		} finally {
			stage.script((exchange) => exchange.respond({ body: 'ok' }));
		}
	});
});

describe('[limits]', () => {
	it('h2_max_concurrent_streams is what clients are told, and what is enforced', async () => {
		stage.script((exchange) => exchange.stall());
		try {
			// What goes beyond a limit that was acknowledged is worse: it ends the connection.
			using connection = await h2Raw(stage.proxy, { acknowledge: false });
			const { payload } = await connection.frameOf(FRAME.SETTINGS);
			const at = [0, 6, 12, 18].find((offset) => payload.readUInt16BE(offset) === SETTING.MAX_CONCURRENT_STREAMS)!;
			assert.equal(payload.readUInt32BE(at + 2), 3);
			for (let id = 1; id <= 9; id += 2) connection.send(headersFrame(id, H2_HEAD()));
			for (const id of [7, 9]) assert.equal(await connection.resetCode(id), ERROR_CODE.REFUSED_STREAM);
		} finally {
			stage.script((exchange) => exchange.respond({ body: 'ok' }));
		}
		await stage.noConnections();
		await stage.whateverCounted();
	});

	it('max_header_bytes holds for both protocols', async () => {
		const long = 'a'.repeat(4096);
		await stage.refused({ 431: 2 }, async () => {
			for (const protocol of PROTOCOLS) {
				await using connection = await connect(protocol, stage.proxy);
				const answer = await connection.request({ headers: { 'x-long': long } });
				assert.equal(`${answer.status} ${answer.text}`, '431 headers too large');
			}
		});
	});
});
