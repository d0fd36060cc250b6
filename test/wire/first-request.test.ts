import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { connect, connectTls, h1Raw, h2Raw } from '../fixtures/clients.ts';
import {
	continuationFrame,
	headersFrame,
	PREFACE,
	pingFrame,
	requestFields,
	settingsFrame,
} from '../fixtures/h2-frames.ts';
import { testPki } from '../fixtures/pki.ts';
import { type Stage, startStage } from '../fixtures/stage.ts';
import { assertLimited, drip, sideBySide } from '../fixtures/time-limits.ts';
import { until } from '../fixtures/wait.ts';

/** Clients that behave have to send a request in that time, on a busy machine, too. */
const FIRST_REQUEST_MS = 2000;

let stage: Stage;
let token: string;

before(async () => {
	token = (await testPki()).token();
	stage = await startStage({ limits: { first_request_timeout_secs: FIRST_REQUEST_MS / 1000 } });
});
after(() => stage.end());

const H2_HEAD = () => requestFields('POST', '/a', token);

describe('the time for the first request', () => {
	const h1Cases: Record<string, () => { sent: string; dripped?: string }> = {
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
		'with a preface that comes byte by byte': () => ({ sent: Buffer.alloc(0), dripped: PREFACE }),
		'with PING after PING': () => ({
			sent: Buffer.concat([PREFACE, settingsFrame()]),
			dripped: Buffer.concat(Array.from({ length: 100 }, () => pingFrame())),
		}),
		'with half a head': () => ({
			sent: Buffer.concat([PREFACE, settingsFrame(), headersFrame(1, H2_HEAD(), { endHeaders: false })]),
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
});
