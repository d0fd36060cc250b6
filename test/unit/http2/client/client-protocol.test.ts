import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import {
	continuationFrame,
	dataFrame,
	ERROR_CODE,
	FLAG,
	FRAME,
	frame,
	goawayFrame,
	headersFrame,
	pingFrame,
	priorityFrame,
	rstStreamFrame,
	SETTING,
	settingsAck,
	settingsFrame,
	windowUpdateFrame,
} from '../../../fixtures/h2-frames.ts';
import { ClientPeer, LIMITS, TestRequest } from './fixtures/client-peer.ts';

type Lines = readonly (readonly [string, string])[];

const OK: Lines = [[':status', '200']];
const head = (id: number, lines: Lines = OK, endStream = false) => headersFrame(id, lines, { endStream });
const reasonOf = ({ error }: ClientPeer) => error?.reason;
const whole = (id: number, body: string) => Buffer.concat([head(id), dataFrame(id, body, true)]);
const settings = (id: number, value: number) => settingsFrame([[id, value]]);

describe('the client’s half of HTTP/2: begin (RFC 9113 section 3.4)', () => {
	it('sends the preface and SETTINGS that disable push, and acknowledges the server’s', () => {
		const peer = new ClientPeer();
		const [first] = peer.frames;
		assert.equal(first!.type, FRAME.SETTINGS);
		assert.equal(first!.payload.readUInt16BE(0), SETTING.ENABLE_PUSH);
		assert.equal(first!.payload.readUInt32BE(2), 0);
		assert.equal(peer.of(FRAME.SETTINGS).filter(({ flags }) => flags === FLAG.ACK).length, 1);
		assert.equal(peer.settings, 1);
	});

	it('ends the connection if the first frame is not SETTINGS', () => {
		for (const bytes of [pingFrame(), settingsAck(), Buffer.from('HTTP/1.1 400 Bad Request\r\n\r\n')]) {
			const peer = new ClientPeer(false).send(bytes);
			assert.ok(peer.error, bytes.toString('latin1'));
		}
	});

	it('disables the dynamic table with its first block', () => {
		const peer = new ClientPeer();
		peer.request();
		peer.request();
		const [one, two] = peer.of(FRAME.HEADERS);
		assert.equal(one!.payload[0], 0x20);
		assert.notEqual(two!.payload[0], 0x20);
	});
});

describe('the client’s half of HTTP/2: responses (section 8)', () => {
	it('delivers head, body and trailers to the right request, however streams interleave', () => {
		const peer = new ClientPeer();
		const [a, b] = [peer.request(), peer.request()];
		peer.send(head(3), head(1), dataFrame(3, 'bbb'), dataFrame(1, 'aaa'), dataFrame(3, 'B', true));
		peer.send(headersFrame(1, [['x-sum', '1']]));
		assert.deepEqual([a.body, b.body], ['aaa', 'bbbB']);
		assert.deepEqual([a.isWhole, b.isWhole], [true, true]);
		assert.deepEqual(a.trailers, ['x-sum', '1']);
		assert.equal(b.trailers, undefined);
		assert.equal(peer.protocol.streams.size, 0);
		assert.equal(peer.outcome, '');
	});

	it('swallows interim responses, up to 32', () => {
		const peer = new ClientPeer();
		const request = peer.request();
		for (let i = 0; i < 32; i++) peer.send(head(1, [[':status', i % 2 === 0 ? '103' : '100']]));
		assert.equal(request.facts, undefined);
		peer.send(whole(1, 'ok'));
		assert.equal(request.body, 'ok');
		const other = peer.request();
		for (let i = 0; i < 33; i++) peer.send(head(3, [[':status', '103']]));
		assert.equal(other.end?.kind, 'malformed');
	});

	const malformed: Record<string, Buffer[]> = {
		'no :status': [head(1, [['a', 'b']])],
		'two :status': [head(1, [...OK, ...OK])],
		':status behind a field': [head(1, [['a', 'b'], ...OK])],
		'status 101': [head(1, [[':status', '101']])],
		'status 99': [head(1, [[':status', '99']])],
		'status 2000': [head(1, [[':status', '2000']])],
		'control data of requests': [head(1, [...OK, [':path', '/']])],
		'a name in upper case': [head(1, [...OK, ['Server', 'x']])],
		'a name with a blank': [head(1, [...OK, ['a b', 'x']])],
		'a value with CR LF': [head(1, [...OK, ['a', 'b\r\nc: d']])],
		'a value with NUL': [head(1, [...OK, ['a', '\0']])],
		'a padded value': [head(1, [...OK, ['a', ' b']])],
		'transfer-encoding': [head(1, [...OK, ['transfer-encoding', 'chunked']])],
		'te of something else than trailers': [head(1, [...OK, ['te', 'gzip']])],
		connection: [head(1, [...OK, ['connection', 'close']])],
		'a malformed content-length': [head(1, [...OK, ['content-length', '+1']])],
		'two content-lengths': [head(1, [...OK, ['content-length', '1'], ['content-length', '1']])],
		'more body than content-length': [head(1, [...OK, ['content-length', '1']]), dataFrame(1, 'ab', true)],
		'less body than content-length': [head(1, [...OK, ['content-length', '3']]), dataFrame(1, 'ab', true)],
		'no body, and a content-length': [head(1, [...OK, ['content-length', '3']], true)],
		'an interim response that ends the stream': [head(1, [[':status', '103']], true)],
		'DATA before the head': [dataFrame(1, 'x')],
		'a body with 204': [head(1, [[':status', '204']]), dataFrame(1, 'x', true)],
		'a body with 304': [head(1, [[':status', '304']]), dataFrame(1, 'x', true)],
		'trailers that do not end the stream': [head(1), head(1, [['a', 'b']])],
		'control data in trailers': [head(1), headersFrame(1, OK)],
		'connection in trailers': [head(1), headersFrame(1, [['connection', 'a']])],
		'a head longer than the limit': [
			headersFrame(1, [...OK, ['a', 'x'.repeat(9_000)]], { endStream: false, endHeaders: false }),
			continuationFrame(1, [['b', 'x'.repeat(9_000)]]),
		],
	};
	for (const [what, frames] of Object.entries(malformed)) {
		it(`resets the stream of a response with ${what}, and no other`, () => {
			const peer = new ClientPeer();
			const [bad, good] = [peer.request(), peer.request()];
			peer.send(...frames);
			assert.equal(bad.end?.kind, 'malformed', what);
			assert.equal(bad.isWhole, false);
			assert.equal(peer.outcome, `reset 1 ${ERROR_CODE.PROTOCOL_ERROR}`);
			peer.send(whole(3, 'fine'));
			assert.equal(good.body, 'fine');
		});
	}

	it('accepts a content-length without a body for HEAD, and refuses a body', () => {
		const peer = new ClientPeer();
		const [one, two] = [peer.request('HEAD'), peer.request('HEAD')];
		peer.send(head(1, [...OK, ['content-length', '10']], true));
		assert.equal(one.isWhole, true);
		peer.send(head(3, [...OK, ['content-length', '1']]), dataFrame(3, 'x', true));
		assert.equal(two.end?.kind, 'malformed');
	});
});

describe('the client’s half of HTTP/2: ends of streams', () => {
	it('distinguishes a refused stream from a broken one (section 8.7)', () => {
		const peer = new ClientPeer();
		const [refused, reset] = [peer.request(), peer.request()];
		peer.send(rstStreamFrame(1, ERROR_CODE.REFUSED_STREAM), rstStreamFrame(3, ERROR_CODE.INTERNAL_ERROR));
		assert.equal(refused.end?.kind, 'refused');
		assert.deepEqual(reset.end, { kind: 'reset', cause: 'stream reset with INTERNAL_ERROR' });
	});

	it('treats a request with a response head as processed', () => {
		const peer = new ClientPeer();
		const request = peer.request();
		peer.send(head(1), rstStreamFrame(1, ERROR_CODE.REFUSED_STREAM));
		assert.equal(request.end?.kind, 'reset');
	});

	it('nothing goes out on a stream that was never opened: its identifier would be the connection’s', () => {
		const peer = new ClientPeer();
		const request = new TestRequest(peer.protocol.streams);
		assert.throws(() => request.sendData('', true), /not open/);
		assert.throws(() => request.sendTrailers(''), /not open/);
		peer.flush();
		assert.deepEqual(peer.of(FRAME.DATA), []);
		assert.deepEqual(peer.of(FRAME.HEADERS), []);
	});

	it('counts every reset, whatever its code', () => {
		const peer = new ClientPeer();
		const [early, malformed, cancelled, whole_] = [0, 1, 2, 3].map(() => peer.request('POST', 'some', false));
		peer.send(whole(early!.id, 'early'), head(malformed!.id, [[':status', '99']]));
		peer.protocol.streams.cancel(cancelled!);
		whole_!.sendData('', true);
		peer.send(whole(whole_!.id, 'late'));
		assert.equal(peer.protocol.streams.resets, 3);
		assert.equal(peer.of(FRAME.RST_STREAM).length, 3);
	});

	it('accepts a response that did not wait for the body, with NO_ERROR after it or without (section 8.1)', () => {
		for (const after of [[], [rstStreamFrame(1, ERROR_CODE.NO_ERROR)]]) {
			const peer = new ClientPeer();
			const request = peer.request('POST', 'begin', false);
			peer.send(whole(1, 'early'), ...after);
			assert.equal(request.body, 'early');
			assert.equal(request.isWhole, true);
			assert.equal(peer.outcome, `reset 1 ${ERROR_CODE.NO_ERROR}`);
			assert.equal(peer.error, undefined);
			assert.equal(request.sendData(Buffer.from('more'), true), true);
			assert.equal(peer.body(1), 'begin');
		}
	});

	it('ignores frames in flight for a stream that it has reset', () => {
		const peer = new ClientPeer();
		const request = peer.request();
		peer.protocol.streams.cancel(request);
		peer.send(whole(1, 'late'), rstStreamFrame(1), windowUpdateFrame(1, 5));
		assert.equal(request.body, '');
		assert.equal(peer.outcome, `reset 1 ${ERROR_CODE.CANCEL}`);
		assert.equal(peer.error, undefined);
	});

	it('ignores what was on its way to all streams that it has reset, however many', () => {
		const peer = new ClientPeer();
		// Beyond what is remembered of each.
		const ids = Array.from({ length: 600 }, () => {
			const request = peer.request();
			peer.protocol.streams.cancel(request);
			return request.id;
		});
		for (const id of ids) peer.send(head(id), dataFrame(id, 'late', true));
		assert.equal(reasonOf(peer), undefined);
		peer.send(whole(peer.request().id, 'ok'), dataFrame(1201, 'behind the end'));
		assert.equal(reasonOf(peer), 'stream-closed');
	});

	for (const [what, bytes] of [
		['bytes', 1],
		['large frames', 16_384],
	] as const) {
		it(`a server that sends on a stream that was reset, beyond its window, is a flood: ${what}`, () => {
			const peer = new ClientPeer();
			const [cancelled, other] = [peer.request(), peer.request()];
			peer.send(head(cancelled.id));
			peer.protocol.streams.cancel(cancelled);
			const frame = dataFrame(cancelled.id, Buffer.alloc(bytes));
			const onItsWay = Buffer.concat(Array.from({ length: Math.min(10_000, Math.floor(65_535 / bytes)) }, () => frame));
			peer.send(onItsWay);
			assert.equal(reasonOf(peer), undefined);
			const more = Buffer.concat(Array.from({ length: 200 }, () => frame));
			for (let i = 0; i < 200 && peer.error === undefined; i++) peer.send(more);
			assert.equal(reasonOf(peer), 'control-flood');
			assert.ok(other.end !== undefined);
		});
	}

	it('GOAWAY: streams above the last one were not processed, the others go on (section 6.8)', () => {
		const peer = new ClientPeer();
		const [first, second] = [peer.request(), peer.request()];
		peer.send(goawayFrame(1));
		assert.equal(second.end?.kind, 'refused');
		assert.equal(first.end, undefined);
		assert.equal(peer.protocol.streams.hasRoom, false);
		peer.send(whole(1, 'late, and whole'));
		assert.equal(first.body, 'late, and whole');
	});

	it('GOAWAY in two steps excludes only with the second one', () => {
		const peer = new ClientPeer();
		const [first, second] = [peer.request(), peer.request()];
		peer.send(goawayFrame(0x7fffffff));
		assert.deepEqual([first.end, second.end], [undefined, undefined]);
		peer.send(goawayFrame(1, ERROR_CODE.NO_ERROR));
		assert.equal(second.end?.kind, 'refused');
	});

	it('at the end of the connection it returns each open stream once', () => {
		const peer = new ClientPeer();
		const [a] = [peer.request(), peer.request()];
		peer.send(whole(1, 'a'));
		assert.deepEqual(
			peer.protocol.streams.end(ERROR_CODE.NO_ERROR).map(({ id }) => id),
			[3],
		);
		assert.equal(a.isWhole, true);
		assert.deepEqual(peer.protocol.streams.end(ERROR_CODE.NO_ERROR), []);
	});
});

describe('the client’s half of HTTP/2: SETTINGS and windows (sections 5.2, 6.5 and 6.9)', () => {
	it('keeps to MAX_CONCURRENT_STREAMS, whenever it changes, and to its own limit', () => {
		const peer = new ClientPeer(true, { ...LIMITS, maxStreams: 3 });
		assert.equal(peer.protocol.streams.maxStreams, 3);
		peer.request();
		peer.request();
		peer.send(settings(SETTING.MAX_CONCURRENT_STREAMS, 2));
		assert.equal(peer.protocol.streams.hasRoom, false);
		peer.send(whole(1, ''));
		assert.equal(peer.protocol.streams.hasRoom, true);
		peer.send(settings(SETTING.MAX_CONCURRENT_STREAMS, 1));
		assert.equal(peer.protocol.streams.hasRoom, false);
		peer.send(settings(SETTING.MAX_CONCURRENT_STREAMS, 0));
		assert.equal(peer.protocol.streams.hasRoom, false);
	});

	it('opens at most 100 streams before the SETTINGS of the server', () => {
		assert.equal(new ClientPeer(false, { ...LIMITS, maxStreams: 500 }).protocol.streams.maxStreams, 100);
	});

	it('a stream whose window is closed does not delay others', () => {
		const peer = new ClientPeer(false).send(settings(SETTING.INITIAL_WINDOW_SIZE, 10));
		peer.request('POST', 'x'.repeat(25));
		peer.request('POST', 'short');
		assert.equal(peer.body(3), 'short');
	});

	it('sends trailers after the whole body', () => {
		const peer = new ClientPeer(false).send(settings(SETTING.INITIAL_WINDOW_SIZE, 4));
		const request = peer.request('POST', 'abcdef', false);
		request.sendTrailers('\x00\x01a\x01b');
		peer.flush();
		assert.equal(peer.of(FRAME.HEADERS).length, 1);
		peer.send(windowUpdateFrame(1, 2));
		const [, trailers] = peer.of(FRAME.HEADERS, 1);
		assert.equal(peer.body(1), 'abcdef');
		assert.equal(trailers!.flags, FLAG.END_HEADERS | FLAG.END_STREAM);
	});

	it('opens a stream’s window for consumed bytes only', () => {
		const peer = new ClientPeer();
		const [held, taken] = [peer.request(), peer.request()];
		held.holds = true;
		peer.send(head(1), head(3));
		for (let i = 0; i < 4; i++) {
			peer.send(dataFrame(1, 'x'.repeat(16_000)));
			peer.send(dataFrame(3, 'x'.repeat(16_000)));
		}
		const updates = (id: number) => peer.of(FRAME.WINDOW_UPDATE, id).length;
		assert.equal(updates(1), 0);
		assert.equal(updates(3), 1);
		peer.protocol.streams.release(held, 40_000);
		peer.flush();
		assert.equal(updates(1), 1);
		assert.equal(taken.body.length, 64_000);
	});
});

describe('a connection whose window stays closed', () => {
	it('counts as starved after a while; one whose window opens repeatedly does not', () => {
		const peer = new ClientPeer();
		const { protocol } = peer;
		const upload = peer.request('POST', 'x'.repeat(200_000), false);
		const starved = (now: number) => {
			protocol.sends(now);
			return protocol.isStarved(now);
		};
		assert.deepEqual([0, 50, 100, 150].map(starved), [false, false, false, true]);
		peer.send(windowUpdateFrame(0, 1000), windowUpdateFrame(upload.id, 1000));
		assert.equal(protocol.output.window, 0);
		assert.deepEqual([160, 260, 270].map(starved), [false, false, true]);
		peer.send(windowUpdateFrame(0, 1000));
		assert.deepEqual([280, 1000].map(starved), [false, false]);
	});
});

/** What both sides check alike is in `data/http2/protocol.test.ts`. */
describe('the client’s half of HTTP/2: a hostile server', () => {
	const fatal: Record<string, (peer: ClientPeer) => Buffer[]> = {
		PUSH_PROMISE: () => [frame(FRAME.PUSH_PROMISE, FLAG.END_HEADERS, 1, Buffer.alloc(8))],
		'HEADERS on a stream of the server': () => [head(2)],
		'HEADERS on an idle stream': () => [head(9)],
		'DATA on an idle stream': () => [dataFrame(9, 'x')],
		'DATA behind the end': () => [whole(1, 'x'), dataFrame(1, 'y')],
		'HEADERS behind the end': () => [whole(1, 'x'), head(1)],
		'RST_STREAM on an idle stream': () => [rstStreamFrame(9)],
		'WINDOW_UPDATE on an idle stream': () => [windowUpdateFrame(9, 1)],
		'ENABLE_PUSH 1': () => [settings(SETTING.ENABLE_PUSH, 1)],
		'PRIORITY of 4 bytes': () => [frame(FRAME.PRIORITY, 0, 1, 'abcd')],
		'a flood of empty DATA': () => [head(1), ...Array.from({ length: 3_000 }, () => dataFrame(1))],
		'a flood of PRIORITY': () => Array.from({ length: 11_000 }, () => priorityFrame(1)),
		'a flood of late RST_STREAM': () => [whole(1, ''), ...Array.from({ length: 11_000 }, () => rstStreamFrame(1))],
	};
	for (const [what, frames] of Object.entries(fatal)) {
		it(`ends the connection for ${what}, and tells every stream`, () => {
			const peer = new ClientPeer();
			const requests = [peer.request(), peer.request()];
			peer.send(...frames(peer));
			assert.ok(peer.error, what);
			assert.match(peer.outcome, /goaway/);
			for (const request of requests) assert.ok(request.isWhole || request.end !== undefined);
			assert.equal(peer.protocol.streams.size, 0);
		});
	}

	/** A head of many fields that no table has. */
	function thrash(id: number, status: string, round: number): Buffer {
		const fields = Array.from({ length: 1_000 }, (_, i) =>
			Buffer.from(`\x40\x08${`${round}x${i}`.padEnd(8, '-')}\x011`),
		);
		return frame(FRAME.HEADERS, FLAG.END_HEADERS, id, Buffer.concat([Buffer.from(`\x08\x03${status}`), ...fields]));
	}

	/** Fields that the head of no other round has. */
	const unique = (round: number, count: number): Lines =>
		Array.from({ length: count }, (_, n) => ['link', `</${round}/${n}>`]);

	for (const status of ['103', '200']) {
		it(`new fields without end cost as much as they take to decode: HEADERS with ${status}`, () => {
			const peer = new ClientPeer();
			const [flooded, other] = [peer.request(), peer.request()];
			if (status === '200') peer.protocol.streams.cancel(flooded);
			let heads = 0;
			for (; heads < 100 && peer.error === undefined; heads++) peer.send(thrash(1, status, heads));
			assert.equal(reasonOf(peer), 'control-flood');
			assert.ok(heads < 40, `${heads} heads`);
			assert.ok(other.end !== undefined);
		});
	}

	it('a server that sends a 103 with thirty new fields before each response is not a flood', () => {
		const peer = new ClientPeer();
		for (let i = 0; i < 3_000; i++) {
			const { id } = peer.request();
			peer.send(headersFrame(id, [[':status', '103'], ...unique(i, 30)], { endStream: false }), head(id, OK, true));
			if (i % 10 === 9) peer.endTurn();
		}
		assert.equal(peer.error, undefined);
	});

	it('responses with large heads that were on their way to 400 requests when those were cancelled are not a flood', () => {
		const peer = new ClientPeer();
		const neighbour = peer.request();
		for (let i = 0; i < 400; i++) {
			const cancelled = peer.request();
			peer.protocol.streams.cancel(cancelled);
			peer.send(
				headersFrame(cancelled.id, [[':status', '103'], ...unique(i, 60)], { endStream: false }),
				headersFrame(cancelled.id, [...OK, ...unique(i, 60)], { endStream: false }),
				headersFrame(cancelled.id, unique(i, 60)),
			);
		}
		assert.equal(peer.error, undefined);
		peer.send(whole(neighbour.id, 'ok'));
		assert.equal(neighbour.body, 'ok');
	});

	it('frames of one read that exceed the share wait for later turns, and lose nothing', () => {
		const peer = new ClientPeer();
		const requests = Array.from({ length: 8 }, () => peer.request());
		const text = 'x'.repeat(2_000);
		peer.send(
			...requests.map(({ id }) => head(id)),
			...requests.flatMap(({ id }) => [...text].map((byte) => dataFrame(id, byte))),
			...requests.map(({ id }, i) => (i % 2 === 0 ? dataFrame(id, '', true) : headersFrame(id, [['x-last', `${i}`]]))),
		);
		assert.equal(peer.error, undefined);
		assert.ok(peer.waits > 10, `${peer.waits} waits`);
		for (const [i, request] of requests.entries()) {
			assert.ok(request.isWhole && request.body === text);
			assert.deepEqual(request.trailers, i % 2 === 0 ? undefined : ['x-last', `${i}`]);
		}
	});

	it('thirty thousand responses in a second need no tokens but those of their turns', () => {
		const peer = new ClientPeer();
		for (let i = 0; i < 30_000; i++) {
			const { id } = peer.request();
			peer.send(headersFrame(id, [...OK, ['x-request-id', `${i}`]], { endStream: false }), dataFrame(id, 'tiny', true));
			if (i % 30 === 29) peer.endTurn();
		}
		assert.equal(peer.error, undefined);
		assert.equal(peer.waits, 0);
	});

	it('a server that sends single bytes of a body, or measures with pings, is not a flood', () => {
		const peer = new ClientPeer();
		const request = peer.request();
		peer.send(head(1));
		for (let i = 0; i < 20_000; i++) peer.send(dataFrame(1, 'x'), pingFrame());
		assert.equal(peer.error, undefined);
		assert.equal(request.body.length, 20_000);
	});

	it('a server that opens both windows for each byte of an upload, and measures with pings, is not a flood', () => {
		const peer = new ClientPeer();
		const upload = peer.request('POST', 'x', false);
		const neighbour = peer.request();
		for (let i = 0; i < 20_000; i++) {
			upload.sendData(Buffer.from('x'), false);
			peer.flush();
			peer.send(windowUpdateFrame(0, 1), windowUpdateFrame(upload.id, 1), pingFrame());
		}
		assert.equal(peer.error, undefined);
		peer.send(whole(neighbour.id, 'ok'));
		assert.equal(neighbour.body, 'ok');
	});
});

describe('no byte of one request reaches another', () => {
	/** What a server does next. */
	const step = fc.record({
		stream: fc.nat(5),
		what: fc.constantFrom('data', 'data', 'data', 'end', 'reset', 'window', 'settings', 'trailers', 'cancel', 'ping'),
		size: fc.nat(3_000),
		padding: fc.nat(40),
	});

	it('whatever the frames, cuts, resets and windows', () => {
		fc.assert(
			fc.property(fc.array(step, { maxLength: 120 }), fc.array(fc.nat(400), { maxLength: 40 }), (steps, cuts) => {
				const peer = new ClientPeer();
				const requests = Array.from({ length: 6 }, (_, i) => peer.request('POST', `${i}`.repeat(9_000)));
				const sent = requests.map(() => '');
				const began = new Set<number>();
				const over = new Set<number>();
				const bytes: Buffer[] = [];
				const flush = () => {
					const all = Buffer.concat(bytes.splice(0));
					let at = 0;
					const places = cuts.map((cut) => (at += cut + 1)).filter((place) => place < all.length);
					peer.sendCut(all, places);
				};
				for (const { stream: i, what, size, padding } of steps) {
					const { id } = requests[i]!;
					if (what === 'settings') bytes.push(settings(SETTING.INITIAL_WINDOW_SIZE, size * 10));
					if (what === 'ping') bytes.push(pingFrame());
					if (what === 'window') bytes.push(windowUpdateFrame(0, size + 1));
					if (over.has(i)) continue;
					if (!began.has(i)) {
						bytes.push(head(id));
						began.add(i);
					}
					if (what === 'window') bytes.push(windowUpdateFrame(id, size + 1));
					if (what === 'data' || what === 'end') {
						const text = `${i}`.repeat(size);
						sent[i] += text;
						const data = Buffer.concat([Buffer.of(padding), Buffer.from(text), Buffer.alloc(padding)]);
						bytes.push(frame(FRAME.DATA, FLAG.PADDED | (what === 'end' ? FLAG.END_STREAM : 0), id, data));
					}
					if (what === 'trailers') bytes.push(headersFrame(id, [['x-of', `${i}`]]));
					if (what === 'reset') bytes.push(rstStreamFrame(id));
					if (what === 'cancel') {
						flush();
						peer.protocol.streams.cancel(requests[i]!);
						peer.flush();
					}
					if (what === 'end' || what === 'reset' || what === 'trailers' || what === 'cancel') over.add(i);
				}
				flush();
				assert.equal(peer.error, undefined);
				for (const [i, request] of requests.entries()) {
					assert.equal(request.body, sent[i], `response ${i}`);
					assert.match(peer.body(request.id), new RegExp(`^${i}*$`));
					if (request.trailers !== undefined) assert.deepEqual(request.trailers, ['x-of', `${i}`]);
				}
			}),
			{ numRuns: 300 },
		);
	});
});
