import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { type Duplex, duplexPair } from 'node:stream';
import { after, before, describe, it } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import type { TLSSocket } from 'node:tls';
import { Http1Front } from '../../../../packages/proxy/src/data/http1/front.ts';
import { Http2Front } from '../../../../packages/proxy/src/data/http2/front.ts';
import { PacedReads, ReadQueue, type ReadSink } from '../../../../packages/proxy/src/data/loop/paced-reads.ts';
import { ALLOWANCE, ConnectionShare, PeerShare, SHARE } from '../../../../packages/proxy/src/data/loop/read-share.ts';
import { TurnEnd } from '../../../../packages/proxy/src/data/loop/turn-end.ts';
import { headersFrame, PREFACE, requestFields, settingsFrame } from '../../../fixtures/h2-frames.ts';
import { until } from '../../../fixtures/wait.ts';
import { FakePlane } from '../fixtures/fake-plane.ts';

const server = createServer();
before(async () => {
	server.listen(0, '127.0.0.1');
	await once(server, 'listening');
});
after(() => server.close());

/** Both ends of a connection. */
async function connected(): Promise<{ client: Socket; served: Socket }> {
	const client = connect((server.address() as AddressInfo).port, '127.0.0.1');
	const [served] = (await once(server, 'connection')) as [Socket];
	return { client, served };
}

const plane = new FakePlane();
const GET = requestFields('GET', '/');

function pace(
	socket: Duplex,
	sink: Partial<ReadSink> & Pick<ReadSink, 'onData'>,
	share = new ConnectionShare(new PeerShare()),
) {
	const reads = new PacedReads(socket, share, plane.reads, { onDelayed() {}, onFault: assert.ifError, ...sink });
	reads.begin();
	return reads;
}

/** What is handed on, and how often as an event. */
function reading(socket: Duplex): { text: string; events: number } {
	const seen = { text: '', events: 0 };
	pace(socket, {
		onData(bytes) {
			seen.text += bytes.toString('latin1');
			return bytes.length;
		},
	});
	const { emit } = socket;
	socket.emit = (name: string | symbol, ...rest: unknown[]) => {
		if (name === 'data') seen.events++;
		return emit.call(socket, name, ...rest);
	};
	return seen;
}

describe('what a socket reads', () => {
	it('is handed on without an event, and its end as one', async () => {
		const { client, served } = await connected();
		const seen = reading(served);
		for (const text of ['a', 'b', 'c']) {
			client.write(text);
			await until(() => seen.text.endsWith(text), text);
		}
		client.end('d');
		await once(served, 'end');
		assert.deepEqual(seen, { text: 'abcd', events: 0 });
		served.end();
	});

	it('waits in bounded memory while the socket is paused, and then comes whole and in order', async () => {
		const { client, served } = await connected();
		const seen = reading(served);
		let sent = '';
		for (let round = 0; round < 8; round++) {
			const text = `${round}`.repeat(60_000);
			sent += text;
			const isPaused = round % 2 === 1;
			if (isPaused) served.pause();
			client.write(text, 'latin1');
			for (let turns = 0; turns < 5; turns++) await turn();
			if (isPaused) {
				assert.ok(!seen.text.endsWith(`${round}`));
				served.resume();
			}
			await until(() => seen.text.length === sent.length, 'what was sent');
		}
		assert.ok(seen.text === sent);
		served.pause();
		client.write(Buffer.alloc(64 << 20));
		for (let turns = 0; turns < 100; turns++) await turn();
		assert.ok(served.readableLength <= 2 * served.readableHighWaterMark, `${served.readableLength} bytes`);
		served.destroy();
		client.destroy();
	});

	it('comes as an event from a stream that is no socket of the system', async () => {
		const [client, served] = duplexPair();
		const seen = reading(served);
		for (const text of ['a', 'b', 'c']) client.write(text);
		client.end();
		await once(served, 'end');
		assert.deepEqual(seen, { text: 'abc', events: 3 });
	});
});

describe('a connection that has used up its share', () => {
	/** Each byte costs a certain number of tokens; what was taken, in its order. */
	function costly(socket: Socket, tokens: number, share: ConnectionShare) {
		const seen = { text: '', last: false, delays: 0 };
		pace(
			socket,
			{
				onData(bytes) {
					const taken = bytes.subarray(0, 1);
					share.spend(tokens);
					seen.text += taken.toString('latin1');
					return taken.length;
				},
				onLast: () => {
					seen.last = true;
				},
				onDelayed: () => {
					seen.delays++;
				},
			},
			share,
		);
		return seen;
	}

	it('is read later, in order and with its end behind it, and nothing is read of it meanwhile', async () => {
		const { client, served } = await connected();
		const seen = costly(served, 400, plane.share());
		let ended = false;
		served.on('end', () => {
			ended = true;
		});
		client.write('0123456789');
		await until(() => seen.text.length >= 4, 'what there are tokens for');
		for (let turns = 0; turns < 20; turns++) await turn();
		assert.deepEqual(seen, { text: '0123', last: false, delays: 1 });
		client.end(Buffer.alloc(64 << 10, 'x'));
		for (let turns = 0; turns < 20; turns++) await turn();
		assert.ok(served.bytesRead <= 10, `${served.bytesRead} bytes`);
		for (let ms = 0; !seen.text.startsWith('0123456789xxx'); ms++) {
			assert.ok(ms < 1000 && !ended && !seen.last);
			await plane.pass(10);
			await new Promise((resolve) => setTimeout(resolve, 3));
		}
		served.destroy();
		client.destroy();
	});

	it('gets no more bytes if work that was deferred for lack of tokens pauses it', async () => {
		const { client, served } = await connected();
		const share = plane.share();
		const seen = { text: '', pauses: 0 };
		const reads = pace(
			served,
			{
				onData(bytes) {
					share.spend(600);
					seen.text += bytes.toString('latin1', 0, 1);
					return 1;
				},
				onTokens() {
					reads.pause();
					seen.pauses++;
				},
			},
			share,
		);
		client.write('abcdefgh');
		await until(() => seen.text !== '', 'the first byte');
		const { length } = seen.text;
		for (; seen.pauses === 0; await new Promise((resolve) => setTimeout(resolve, 3))) await plane.pass(100);
		assert.equal(seen.text.length, length);
		served.destroy();
		client.destroy();
	});

	it('sees the end of the client after what is held', async () => {
		const { client, served } = await connected();
		const seen = costly(served, 600, plane.share());
		const ended = once(served, 'end');
		client.write('abcde');
		await until(() => seen.text !== '', 'the first byte');
		// As TLS has it whose last record is in the same segment.
		served.push(null);
		assert.deepEqual([seen.text.length < 5, seen.last], [true, false]);
		while (!seen.last) {
			await plane.pass(10);
			await new Promise((resolve) => setTimeout(resolve, 3));
		}
		await ended;
		assert.equal(seen.text, 'abcde');
		client.destroy();
	});

	it('does not delay others of its certificate that stay within their allowance', async () => {
		const certificate = new PeerShare();
		const [flooding, calm] = [await connected(), await connected()];
		const flood = costly(flooding.served, 700, new ConnectionShare(certificate));
		const seen = costly(calm.served, 1, new ConnectionShare(certificate));
		flooding.client.write('x'.repeat(100));
		await until(() => flood.delays === 1, 'the flood to be delayed');
		calm.client.write('calm');
		await until(() => seen.text === 'calm', 'the other one');
		assert.ok(flood.text.length < 5);
		for (const { client, served } of [flooding, calm]) {
			served.destroy();
			client.destroy();
		}
	});
});

describe('connections that get tokens at the same moment', () => {
	it('go on one after the other, in their order: a turn has a millisecond for all of them', async (t) => {
		t.mock.timers.enable({ apis: ['setTimeout'] });
		let now = 0;
		const turnEnd = new TurnEnd();
		const queue = new ReadQueue(turnEnd, { now: () => now, wallSeconds: () => 0 });
		const taken: number[] = [];
		const perTurn: number[] = [];
		for (let i = 0; i < 9; i++) {
			const [client, served] = duplexPair();
			const share = new ConnectionShare(new PeerShare());
			const onData = () => {
				// What it takes to decode a large head, ms and tokens.
				now += 0.4;
				share.spend(2000);
				taken.push(i);
				return 1;
			};
			new PacedReads(served, share, queue, { onData, onDelayed() {}, onFault: assert.ifError }).begin();
			client.write('ab');
		}
		for (let turns = 0; taken.length < 9 || turns < 5; turns++) await turn();
		now += 10_000;
		for (let looks = 0; looks < 3; looks++) {
			const before = taken.length;
			t.mock.timers.tick(2);
			perTurn.push(taken.length - before);
		}
		assert.deepEqual(taken, [...Array(9).keys(), ...Array(9).keys()]);
		assert.deepEqual(perTurn, [3, 3, 3]);
	});

	it('are asked soon, however many have none and however long it takes to ask them', async (t) => {
		t.mock.timers.enable({ apis: ['setTimeout'] });
		let now = 0;
		const queue = new ReadQueue(new TurnEnd(), { now: () => now, wallSeconds: () => 0 });
		let asked = 0;
		const refused = {
			goOn() {
				now += 0.1;
				asked++;
				return false;
			},
		};
		let isServed = false;
		const COUNT = 100;
		for (let i = 0; i < COUNT; i++) queue.add(refused);
		queue.add({ goOn: () => (isServed = true) });
		await turn();
		while (!isServed) {
			assert.ok(asked <= 2 * COUNT, 'others are asked again and again');
			t.mock.timers.tick(2);
		}
	});
});

describe('requests that are refused', () => {
	const COUNT = 1000;
	const FRONTS = {
		'HTTP/1.1': {
			accept: (plane: FakePlane, served: Duplex) =>
				new Http1Front(plane).accept(served as TLSSocket, '::1', plane.share()),
			request: () => Buffer.from('GET / HTTP/1.1\r\nHost: localhost\r\n\r\n'),
			preface: Buffer.alloc(0),
			price: 45,
		},
		'HTTP/2': {
			accept: (plane: FakePlane, served: Duplex) =>
				new Http2Front(plane).accept(served as TLSSocket, '::1', plane.share()),
			request: (i: number) => headersFrame(1 + 2 * i, GET),
			preface: Buffer.concat([PREFACE, settingsFrame()]),
			price: 12,
		},
	};
	for (const [protocol, { accept, request, preface, price }] of Object.entries(FRONTS)) {
		it(`are read as slowly as the share of their certificate allows, over ${protocol}, and all others at once`, async () => {
			for (const isPaid of [false, true]) {
				const plane = new FakePlane();
				Object.assign(plane.limits, { h2MaxConcurrentStreams: 2 * COUNT });
				plane.letsPass = isPaid;
				const answered = () => [...plane.stats.read().responses.values()].reduce((sum, count) => sum + count, 0);
				const [client, served] = duplexPair();
				client.resume();
				accept(plane, served);
				client.write(Buffer.concat([preface, ...Array.from({ length: COUNT }, (_, i) => request(i))]));
				if (isPaid) {
					await until(() => answered() === COUNT, 'all responses');
				} else {
					for (let turns = 0; turns < 500; turns++) await turn();
					const paidFor = (SHARE.burst + ALLOWANCE.burst) / price;
					assert.ok(answered() > paidFor / 2 && answered() < paidFor * 1.25, `${answered()} answers`);
					const [before] = [answered()];
					await plane.pass(Math.ceil(price / 40));
					await until(() => answered() > before, 'more responses');
					assert.ok(answered() < before + 20, `${answered() - before} answers at once`);
					assert.equal(plane.stats.read().readsDelayed.get(protocol === 'HTTP/2' ? 'h2' : 'http/1.1')! > 0, true);
				}
				client.destroy();
				served.destroy();
			}
		});
	}
});
