/** How much one HTTP/2 client may cost, limit by limit. Each limit ends the connection with a reason, and affects no other client. */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { LINES } from '../../packages/gate/src/shared/rate-limited-log.ts';
import { type H2Connection, type H2Raw, h2Connect, h2Raw } from '../fixtures/clients.ts';
import {
	continuationFrame,
	dataFrame,
	ERROR_CODE,
	FLAG,
	FRAME,
	frame,
	headersFrame,
	pingFrame,
	requestFields,
	rstStreamFrame,
	SETTING,
	windowUpdateFrame,
} from '../fixtures/h2-frames.ts';
import { testPki } from '../fixtures/pki.ts';
import { type Stage, startStage } from '../fixtures/stage.ts';
import { until } from '../fixtures/wait.ts';

let stage: Stage;
let token: string;
let bystander: H2Connection;

before(async () => {
	token = (await testPki()).token();
	stage = await startStage({ script: (exchange) => exchange.stall(), early: true });
	bystander = await h2Connect(stage.proxy);
	assert.equal((await bystander.request({ path: '/bystander' })).status, 200);
});
after(async () => {
	await bystander.close();
	await stage.noConnections();
	await stage[Symbol.asyncDispose]();
});

const times = (count: number, make: (i: number) => Buffer) => Array.from({ length: count }, (_, i) => make(i));
const idOf = (i: number) => 1 + 2 * i;
/** An upload that does not end. */
const open = (id: number) => headersFrame(id, requestFields('POST', '/upload', token), { endStream: false });
/** A block that says nothing but that the table changes its size, over and over. */
const sizeUpdates = (count: number) => frame(FRAME.HEADERS, FLAG.END_HEADERS, 1, Buffer.alloc(count, 0x20));

const { ENHANCE_YOUR_CALM, PROTOCOL_ERROR, FLOW_CONTROL_ERROR, COMPRESSION_ERROR, STREAM_CLOSED, FRAME_SIZE_ERROR } =
	ERROR_CODE;
/** What is sent, the code of the GOAWAY, and the reason for operators: at least one for each reason. unit/data/http2/protocol.test.ts has all floods. */
const CASES: Record<string, [frames: () => Buffer[], code: number, reason: string]> = {
	'streams that are opened and reset (CVE-2023-44487)': [
		() => times(1200, (i) => Buffer.concat([open(idOf(i)), rstStreamFrame(idOf(i))])),
		ENHANCE_YOUR_CALM,
		'reset-flood',
	],
	'streams that we are made to reset (CVE-2025-8671)': [
		() => times(1200, (i) => Buffer.concat([open(idOf(i)), windowUpdateFrame(idOf(i), 0)])),
		ENHANCE_YOUR_CALM,
		'reset-flood',
	],
	'a head without end (CVE-2024-27316)': [
		() => [headersFrame(1, [], { endHeaders: false }), ...times(20, () => continuationFrame(1, [], false))],
		ENHANCE_YOUR_CALM,
		'continuation-flood',
	],
	PING: [() => times(20_000, () => pingFrame()), ENHANCE_YOUR_CALM, 'control-flood'],
	'changes of the table size': [() => [sizeUpdates(16_000)], COMPRESSION_ERROR, 'compression'],
	'a window of the connection that is opened too far': [
		() => [windowUpdateFrame(0, 0x7fffffff)],
		FLOW_CONTROL_ERROR,
		'flow-control',
	],
	'a frame that is too large': [() => [frame(FRAME.DATA, 0, 1, Buffer.alloc(16_385))], FRAME_SIZE_ERROR, 'frame-size'],
	'DATA on a stream that was passed over': [() => [open(3), dataFrame(1, 'x')], STREAM_CLOSED, 'stream-closed'],
	'a frame inside of a head': [
		() => [headersFrame(1, [], { endHeaders: false }), pingFrame()],
		PROTOCOL_ERROR,
		'protocol',
	],
};

const errorsOf = (reason: string) => stage.proxy.metric('proxy_http2_connection_errors_total', { reason });
const delays = () => stage.proxy.metric('proxy_reads_delayed_total', { protocol: 'h2' });
/** The lines that the log has about it. */
const linesOf = (reason: string) => stage.proxy.logs.filter((line) => JSON.stringify(line).includes(`"${reason}"`));

describe('an HTTP/2 connection is ended, told why, and counted for', () => {
	for (const [what, [frames, code, reason]] of Object.entries(CASES)) {
		it(what, async () => {
			const before = await errorsOf(reason);
			using connection = await connect();
			connection.send(...frames());
			assert.equal(await connection.goawayCode(), code);
			await connection.untilClosed();
			await until(async () => (await errorsOf(reason)) === before + 1, 'it to be counted');
			await until(() => linesOf(reason).length > 0, 'a line in the log');
			assert.equal((await bystander.request({ path: '/bystander' })).status, 200);
		});
	}

	it('DATA of one byte is charged: its connection is read later', async () => {
		const before = await delays();
		using connection = await connect();
		// Tens of reads, within the stream's window. A single one contains more frames than there are tokens for.
		connection.send(open(1), ...times(60_000, () => dataFrame(1, 'x')));
		await until(async () => (await delays()) > before, 'a delay');
		assert.equal((await bystander.request({ path: '/bystander' })).status, 200);
	});

	it('admitted requests that are reset are charged: their connection is read later', async () => {
		using connection = await connect();
		const before = await delays();
		// Tokens return while a slow machine reads the resets, so one round may not be enough.
		for (let round = 0; (await delays()) === before; round++) {
			assert.ok(round < 10, 'no delay');
			const ids = Array.from({ length: 60 }, (_, i) => idOf(60 * round + i));
			connection.send(...ids.map(open));
			await until(async () => (await stage.proxy.metric('proxy_requests_in_flight')) === ids.length, 'all uploads');
			connection.send(...ids.map((id) => rstStreamFrame(id)));
			await until(async () => (await stage.proxy.metric('proxy_requests_in_flight')) === 0, 'their end');
		}
	});

	it('HTTP/2 connection errors are logged at a bounded rate, and all counted', async () => {
		const before = { errors: await errorsOf('preface'), lines: linesOf('preface').length };
		for (let i = 0; i < 3 * LINES; i++) {
			using connection = await h2Raw(stage.proxy, { preface: false });
			connection.send(Buffer.from('GET / HTTP/1.1\r\n\r\n'));
			await connection.untilClosed();
		}
		await until(async () => (await errorsOf('preface')) === before.errors + 3 * LINES, 'all to be counted');
		assert.ok(linesOf('preface').length - before.lines <= 2 * LINES);
	});
});

function connect(): Promise<H2Raw> {
	return h2Raw(stage.proxy, { settings: [[SETTING.HEADER_TABLE_SIZE, 0]] });
}
