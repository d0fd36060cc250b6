/** How slowly an answer may be taken (`min_answer_bytes_per_sec`), in both body modes. */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { connect, connectTls, h1Raw, h2Raw, PROTOCOLS, type Protocol } from '../fixtures/clients.ts';
import {
	FRAME,
	headersFrame,
	PREFACE,
	requestFields,
	SETTING,
	settingsFrame,
	windowUpdateFrame,
} from '../fixtures/h2-frames.ts';
import { testPki } from '../fixtures/pki.ts';
import type { LogLine } from '../fixtures/program.ts';
import { type Stage, startStage } from '../fixtures/stage.ts';
import { until } from '../fixtures/wait.ts';

const BODY = 24_000_000;
/** Room for one such body, also while it is copied into a larger buffer, and not for two. */
const ROOM = 46_000_000;
const LIMIT_MS = 3000;
const TICK_MS = 50;

/** Bytes in each tick: a pace far above the minimum of `upstream_timeout_secs`, and far below the speed of a busy machine. */
const PER_TICK = 50_000;
const BYTES_PER_SEC = (PER_TICK * 1000) / TICK_MS;

let token: string;
before(async () => {
	token = (await testPki()).token();
});

/** Asks for the answer and takes so much of it in each tick. @returns how many bytes have come, whole or cut off. */
function take(protocol: Protocol, stage: Stage, perTick: number): Promise<number> {
	return protocol === 'h1' ? takeH1(stage, perTick) : takeH2(stage, perTick);
}

async function takeH1(stage: Stage, perTick: number): Promise<number> {
	using connection = await h1Raw(stage.proxy);
	const { socket } = connection;
	let allowed = 0;
	socket.on('data', (bytes: Buffer) => {
		allowed -= bytes.length;
		if (allowed <= 0) socket.pause();
	});
	const ticks = setInterval(() => {
		allowed = Math.min(allowed, 0) + perTick;
		if (allowed > 0) socket.resume();
	}, TICK_MS);
	try {
		connection.send(`GET /a HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${token}\r\n\r\n`);
		const { status, body } = await connection.readResponse('GET', 60_000);
		assert.equal(status, 200);
		return body.length;
	} finally {
		clearInterval(ticks);
	}
}

async function takeH2(stage: Stage, perTick: number): Promise<number> {
	using connection = await h2Raw(stage.proxy, { settings: [[SETTING.INITIAL_WINDOW_SIZE, 65_535]] });
	connection.send(headersFrame(1, requestFields('GET', '/a', token)));
	const ticks = setInterval(() => {
		connection.send(windowUpdateFrame(0, perTick), windowUpdateFrame(1, perTick));
	}, TICK_MS);
	const of = (type: number) => connection.frames.filter((frame) => frame.type === type && frame.streamId === 1);
	const taken = () => of(FRAME.DATA).reduce((sum, { payload }) => sum + payload.length, 0);
	try {
		await until(() => taken() === BODY || of(FRAME.RST_STREAM).length > 0, 'the end of the stream', 60_000);
		return taken();
	} finally {
		clearInterval(ticks);
	}
}

describe('an answer that is taken more slowly than it may be', () => {
	let stage: Stage;
	before(async () => {
		stage = await startStage({
			limits: {
				upstream_timeout_secs: LIMIT_MS / 1000,
				max_buffered_bytes: ROOM,
				max_buffered_bytes_per_tenant: ROOM,
				min_answer_bytes_per_sec: 3 * BYTES_PER_SEC,
			},
			script: (exchange) => exchange.respond({ body: Buffer.alloc(BODY, 'x') }),
		});
	});
	after(() => stage.end());

	for (const protocol of PROTOCOLS) {
		it(`is cut off, though something of it is taken all the time, and gives its memory back, over ${protocol}`, async () => {
			assert.ok((await take(protocol, stage, PER_TICK)) < BODY);
			await stage.counted({ '200 upstream': 1 });
			await until(
				async () => (await stage.proxy.metric('proxy_upstream_connections', { state: 'active' })) === 0,
				'the upstream to be let go',
			);
			await using other = await connect('h2', stage.proxy);
			assert.equal((await other.request()).body.length, BODY);
			await stage.counted({ '200 upstream': 1 });
		});
	}
});

describe('an answer that fits the buffers of the kernel', () => {
	const SIZES = { '/short': 37, '/longer': 30_000 };
	const requests: Record<Protocol, (path: string) => Buffer> = {
		h1: (path) => Buffer.from(`GET ${path} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${token}\r\n\r\n`),
		h2: (path) => Buffer.concat([PREFACE, settingsFrame([]), headersFrame(1, requestFields('GET', path, token))]),
	};
	let stage: Stage;
	before(async () => {
		stage = await startStage({
			limits: { upstream_timeout_secs: LIMIT_MS / 1000 },
			log: { access: 'all' },
			script: (exchange) => {
				const size = SIZES[exchange.request.target as keyof typeof SIZES];
				return exchange.respond({ body: Buffer.alloc(size, 'x') });
			},
		});
	});
	after(() => stage.close());

	for (const protocol of PROTOCOLS) {
		it(`is logged whole at once, although its client reads nothing, over ${protocol}`, async () => {
			const from = stage.proxy.logs.length;
			for (const [path, size] of Object.entries(SIZES)) {
				const socket = await connectTls(stage.proxy, { alpn: [protocol === 'h2' ? 'h2' : 'http/1.1'] });
				socket.pause().on('error', () => {});
				socket.write(requests[protocol](path));
				const isOurs = (one: LogLine) => one.target === 'proxy::access' && one.path === path;
				const line = await stage.proxy.waitForLog(isOurs, undefined, from);
				assert.deepEqual([line.status, line.ending, line.reason, line.bytes_out], [200, undefined, undefined, size]);
				socket.destroy();
			}
		});
	}
});
