import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { connect, h1Raw, h2Raw, PROTOCOLS } from '../fixtures/clients.ts';
import { dataFrame, ERROR_CODE, FRAME, headersFrame, requestFields, SETTING, statusOf } from '../fixtures/h2-frames.ts';
import { headerValues } from '../fixtures/http1-message.ts';
import { testPki } from '../fixtures/pki.ts';
import { BODY_MODE } from '../fixtures/proxy.ts';
import { type Stage, startStage } from '../fixtures/stage.ts';
import { assertLimited, drip, sideBySide } from '../fixtures/time-limits.ts';

const REQUEST_BODY_MS = 1000;
const UPSTREAM_MS = 2000;
/** A client whose body is too slow, by mode: its response, the counter, and the time. */
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
			request_body_timeout_secs: REQUEST_BODY_MS / 1000,
			upstream_timeout_secs: UPSTREAM_MS / 1000,
			h2_max_concurrent_streams: 3,
			max_header_bytes: 4096,
		},
	});
});
after(() => stage.end());

const H2_HEAD = () => requestFields('POST', '/a', token);

describe('the time for the body', () => {
	/** How much this number of slow bodies raises each count. */
	const slow = (count: number) =>
		Object.fromEntries(Object.entries(SLOW_BODY.rises).map(([name, n]) => [name, n * count]));

	it('ends a request over HTTP/1.1 whose body stops, or comes byte by byte', async () => {
		type Body = { line: string; sent?: string; dripped?: string };
		const bodies: Record<string, () => Body> = {
			'a length and less': () => ({ line: 'Content-Length: 1000', sent: 'he' }),
			'a length and bytes': () => ({ line: 'Content-Length: 100000', dripped: 'x'.repeat(1000) }),
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
			// Its client sends nothing more, so the rest of it is waited for no longer.
			assert.equal(await connection.resetCode(1), ERROR_CODE.NO_ERROR);
			await stage.proxy.waitForLog('upload cut after its response');
		});
		await stage.counted(slow(Object.keys(bodies).length));
	});
});

describe('[limits]', () => {
	it('h2_max_concurrent_streams is announced to clients and enforced', async () => {
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
