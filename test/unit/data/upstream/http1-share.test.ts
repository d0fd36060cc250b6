import assert from 'node:assert/strict';
import { describe, it, type TestContext } from 'node:test';
import { SHARE } from '../../../../packages/proxy/src/data/loop/read-share.ts';
import type {
	OutgoingRequest,
	ResponseHandler,
	UpstreamFailure,
	UpstreamRequest,
} from '../../../../packages/proxy/src/data/upstream/contract.ts';
import { FakePlane, settle } from '../fixtures/fake-plane.ts';
import { type FakeSocket, fakeUpstream } from '../fixtures/fake-upstream.ts';

const CHUNKED = 'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n';
const OK = 'HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nxx';
const CHUNK = '1\r\nx\r\n';
const END = '0\r\n\r\n';
/** As many as fit into one read. */
const MANY = 10_000;
/** Tokens for each. */
const PRICE = 1 / 16;

const REQUEST = { method: 'GET', headAsText: () => 'GET / HTTP/1.1\r\n\r\n' } as unknown as OutgoingRequest;
const BODY = { length: 0, framing: '', pieces: [], complete: true };

/** What a request has got. */
class Seen implements ResponseHandler {
	bytes = 0;
	status = 0;
	isOver = false;
	failure: UpstreamFailure | undefined;

	onHead(status: number): void {
		this.status = status;
	}

	onBody(chunk: Buffer): void {
		assert.ok(chunk.every((byte) => byte === 0x78));
		this.bytes += chunk.length;
	}

	onEnd(): void {
		this.isOver = true;
	}

	onFailure(failure: UpstreamFailure): void {
		this.failure = failure;
	}

	onConnected(): void {}
	onFailing(): void {}
	onWritable(): void {}
	onResponseHeld(): void {}
	room(): undefined {}
	onBodyInRoom(): void {}
	onFault: (error: unknown) => void = assert.ifError;
}

/** An address and its connections in one worker. */
class Stage {
	readonly plane = new FakePlane();
	readonly #context: TestContext;
	readonly #fake = fakeUpstream('192.0.2.1:80', this.plane);
	delays = 0;

	constructor(context: TestContext) {
		context.mock.timers.enable({ apis: ['setTimeout'] });
		this.#context = context;
		this.#fake.upstream.reportDelay = () => {
			this.delays++;
		};
	}

	/** A request on an idle connection, or on a new one. */
	ask(): { seen: Seen; socket: FakeSocket; request: UpstreamRequest } {
		const { upstream, sockets } = this.#fake;
		const before = sockets.map(({ sent }) => sent.length);
		const request = upstream.pool.take(this.plane.deadlines.now);
		const seen = new Seen();
		request.send(REQUEST, BODY, seen);
		const socket = sockets.find(({ sent }, i) => sent.length !== before[i])!;
		if (before.length < sockets.length) socket.accept();
		return { seen, socket, request };
	}

	get connections(): number {
		return this.#fake.sockets.length;
	}

	/** Tokens that the address has used; all others are gone as well then. */
	used(): number {
		return SHARE.burst - this.#fake.upstream.share.takeSome(SHARE.burst, this.plane.clock.now());
	}

	/** Leaves the address with this debt. */
	owe(tokens: number): void {
		this.used();
		this.#fake.upstream.share.spend(tokens);
	}

	async pass(ms: number): Promise<void> {
		for (let i = 0; i < ms; i += 2) {
			await this.plane.pass(2);
			this.#context.mock.timers.tick(2);
			await settle();
		}
	}
}

describe('the price of what an HTTP/1.1 upstream sends', () => {
	it('is a sixteenth of a token for each tiny chunk of a read', (t) => {
		const stage = new Stage(t);
		const { seen, socket } = stage.ask();
		socket.answer(CHUNKED + CHUNK.repeat(1_600));
		assert.equal(seen.bytes, 1_600);
		assert.equal(stage.used(), 1_600 * PRICE);
	});

	it('is a token for each read of a few bytes, and three more if they complete no head', (t) => {
		const stage = new Stage(t);
		const { socket, seen } = stage.ask();
		const size = CHUNKED.length;
		for (const byte of CHUNKED) socket.answer(byte);
		assert.equal(seen.status, 200);
		for (const byte of CHUNK.repeat(60)) socket.answer(byte);
		assert.equal(seen.bytes, 60);
		assert.equal(stage.used(), 3 * (size - 1) + size + CHUNK.length * 60);
	});

	it('is half a token for each field of a head beyond 64, and two for each trailer beyond eight', (t) => {
		const fields = (count: number) => Array.from({ length: count }, (_, i) => `x-${i}: 1\r\n`).join('');
		const head = new Stage(t);
		head.ask().socket.answer(`HTTP/1.1 200 OK\r\n${fields(263)}content-length: 2\r\n\r\nxx`);
		assert.equal(head.used(), 100);
		t.mock.timers.reset();
		const trailers = new Stage(t);
		const { socket, seen } = trailers.ask();
		socket.answer(`${CHUNKED}0\r\n${fields(108)}\r\n`);
		assert.equal(seen.isOver, true);
		assert.equal(trailers.used(), 200);
	});

	it('is half a token for each field of an interim response, and for fields that are not forwarded', (t) => {
		const interim = new Stage(t);
		const fields = (name: string, count: number) => `${name}: 1\r\n`.repeat(count);
		const { socket, seen } = interim.ask();
		for (let i = 0; i < 2; i++) socket.answer(`HTTP/1.1 103 Early Hints\r\n${fields('x-link', 300)}\r\n`);
		socket.answer(OK);
		assert.equal(seen.isOver, true);
		assert.equal(interim.used(), 2 * (300 / 2 + 2));
		t.mock.timers.reset();
		const head = new Stage(t);
		head.ask().socket.answer(`HTTP/1.1 200 OK\r\n${fields('te', 263)}content-length: 2\r\n\r\nxx`);
		assert.equal(head.used(), 100);
	});

	it('is nothing for responses, and for large bodies in chunks of 256 bytes', (t) => {
		const stage = new Stage(t);
		for (let i = 0; i < 100; i++) stage.ask().socket.answer(OK);
		const { socket } = stage.ask();
		socket.answer(CHUNKED + `100\r\n${'x'.repeat(256)}\r\n`.repeat(200));
		socket.answer(`${CHUNK}${END}`);
		assert.equal(stage.connections, 1);
		assert.equal(stage.used(), 0);
	});

	it('is due even if the response turns out to be malformed', async (t) => {
		const stage = new Stage(t);
		for (let i = 0; i < 2; i++) {
			const { socket, seen } = stage.ask();
			socket.answer(`${CHUNKED}${CHUNK.repeat(MANY)}?`);
			assert.equal(seen.failure!.kind, 'malformed');
		}
		const { socket, seen } = stage.ask();
		socket.answer(OK);
		assert.equal(seen.isOver, false);
		await stage.pass(4);
		assert.equal(seen.isOver, true);
	});
});

describe('an HTTP/1.1 upstream that has used up its share', () => {
	it('is read later, as soon as the debt is paid, and a line says so', async (t) => {
		const stage = new Stage(t);
		const { socket, seen } = stage.ask();
		socket.answer(CHUNKED);
		stage.owe(0);
		for (let i = 0; i < 2; i++) socket.answer(CHUNK.repeat(MANY));
		assert.equal(seen.bytes, MANY);
		assert.equal(stage.delays, 1);
		await stage.pass(Math.floor((MANY * PRICE) / SHARE.perMs / 2) * 2);
		assert.equal(seen.bytes, MANY);
		await stage.pass(2);
		assert.equal(seen.bytes, 2 * MANY);
		assert.equal(socket.destroyed, false);
	});

	it('is read on one connection after another: all of them together have one share', async (t) => {
		const stage = new Stage(t);
		const asked = Array.from({ length: 10 }, () => stage.ask());
		for (const { socket } of asked) socket.answer(CHUNKED);
		stage.owe(1);
		for (const { socket } of asked) for (let i = 0; i < 2; i++) socket.answer(CHUNK.repeat(MANY));
		const read = () => asked.reduce((sum, { seen }) => sum + seen.bytes, 0);
		const first = read();
		assert.ok(first <= 10 * MANY);
		await stage.pass(200);
		assert.ok(read() > first);
		const tokens = SHARE.burst + 200 * SHARE.perMs;
		assert.ok(read() * PRICE <= tokens + 2 * MANY * PRICE, `${read() * PRICE} of ${tokens}`);
		await stage.pass(1_000);
		assert.equal(read(), 20 * MANY);
	});

	it('gains nothing by another connection for each response, or by a connection that is kept', async (t) => {
		const stage = new Stage(t);
		const kept = stage.ask();
		kept.socket.answer(OK);
		const given = stage.ask();
		given.socket.answer(CHUNKED);
		stage.owe(500);
		given.request.destroy();
		const again = stage.ask();
		assert.notEqual(again.socket, given.socket);
		const other = stage.ask();
		for (const { socket } of [again, other]) socket.answer(OK);
		assert.equal(again.seen.isOver, false);
		assert.equal(other.seen.isOver, false);
		await stage.pass(20);
		assert.equal(again.seen.isOver, true);
		assert.equal(other.seen.isOver, true);
	});

	it('delays the requests of that time only: once the debt is paid, many of them are answered at once', async (t) => {
		const stage = new Stage(t);
		const asked = Array.from({ length: 50 }, () => stage.ask());
		for (const { socket } of asked) socket.answer(OK);
		stage.owe(500);
		const delayed = Array.from({ length: 50 }, () => stage.ask());
		for (const { socket } of delayed) socket.answer(OK);
		assert.ok(delayed.every(({ seen }) => !seen.isOver));
		await stage.pass(10);
		assert.ok(delayed.every(({ seen }) => seen.isOver));
	});

	/** A request on a used connection, sent while the address is in debt. */
	function askInDebt(stage: Stage): ReturnType<Stage['ask']> {
		stage.ask().socket.answer(OK);
		stage.owe(2_000);
		return stage.ask();
	}

	it('had ended its idle connection if the first read after the delay brings the end', async (t) => {
		const stage = new Stage(t);
		const { socket, seen } = askInDebt(stage);
		socket.close();
		assert.equal(seen.failure, undefined);
		await stage.pass(40);
		assert.equal(seen.failure!.kind, 'stale');
	});

	it('has failed if it ends the connection some time after the delay', async (t) => {
		const stage = new Stage(t);
		const { socket, seen } = askInDebt(stage);
		await stage.pass(40);
		socket.close();
		assert.equal(seen.failure!.kind, 'unanswered');
	});

	it('has failed if the connection breaks while reads are delayed: the response may be unread', (t) => {
		const stage = new Stage(t);
		const { socket, seen } = askInDebt(stage);
		socket.reset();
		assert.equal(seen.failure!.kind, 'unanswered');
	});

	it('loses only its own request to a fault of the proxy when the delay ends', async (t) => {
		const stage = new Stage(t);
		const [first, second] = [stage.ask(), stage.ask()];
		for (const { socket } of [first, second]) socket.answer(CHUNKED);
		stage.owe(0);
		for (const { socket } of [first, second]) {
			socket.answer(CHUNK.repeat(100));
			socket.answer(CHUNK + END);
		}
		const fault = new Error('a fault of the proxy');
		let seenFault: unknown;
		first.seen.onFault = (error) => {
			seenFault = error;
		};
		first.socket.resume = () => {
			throw fault;
		};
		await stage.pass(60);
		assert.equal(seenFault, fault);
		assert.equal(first.socket.destroyed, true);
		assert.equal(second.seen.isOver, true);
	});

	it('is not read while the client takes nothing, even if the debt is paid', async (t) => {
		const stage = new Stage(t);
		const { socket, seen, request } = stage.ask();
		socket.answer(CHUNKED);
		stage.owe(0);
		socket.answer(CHUNK.repeat(MANY));
		request.pause();
		socket.answer(CHUNK);
		await stage.pass(100);
		assert.equal(seen.bytes, MANY);
		request.resume();
		assert.equal(seen.bytes, MANY + 1);
	});

	it('is not read if the client takes more before the debt is paid', async (t) => {
		const stage = new Stage(t);
		const { socket, seen, request } = stage.ask();
		socket.answer(CHUNKED);
		stage.owe(0);
		socket.answer(CHUNK.repeat(MANY));
		request.pause();
		request.resume();
		socket.answer(CHUNK);
		assert.equal(seen.bytes, MANY);
		await stage.pass(20);
		assert.equal(seen.bytes, MANY + 1);
	});

	it('keeps an idle connection, whose end is noticed', (t) => {
		const stage = new Stage(t);
		const { socket, seen } = stage.ask();
		stage.owe(0);
		socket.answer(`${CHUNKED}${CHUNK.repeat(MANY)}${END}`);
		assert.equal(seen.isOver, true);
		assert.equal(socket.destroyed, false);
		socket.answer(OK);
		assert.equal(socket.destroyed, true, 'a response without a request');
	});
});
