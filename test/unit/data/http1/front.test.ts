import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { describe, it } from 'node:test';
import type { TLSSocket } from 'node:tls';
import { createLogger, type LogRecord, parseLogFilter } from '../../../../packages/gate/src/shared/log.ts';
import { ResponseFields } from '../../../../packages/proxy/src/data/client/response-fields.ts';
import { MAX_DROPPED } from '../../../../packages/proxy/src/data/client/unwanted-body.ts';
import { Http1Front } from '../../../../packages/proxy/src/data/http1/front.ts';
import { ConnectionShare, PeerShare } from '../../../../packages/proxy/src/data/loop/read-share.ts';
import type { DataPlane } from '../../../../packages/proxy/src/data/plane/plane.ts';
import { RouteStats } from '../../../../packages/proxy/src/memory/route-stats.ts';
import { until } from '../../../fixtures/wait.ts';
import { FakePlane, LIMITS, settle } from '../fixtures/fake-plane.ts';
import { Http1Client } from '../fixtures/http1-client.ts';

class Client extends Http1Client {
	/** A request, and its response. */
	async request(lines = 'Host: localhost\r\n'): Promise<string> {
		this.send(`GET / HTTP/1.1\r\n${lines}\r\n`);
		return await this.answer();
	}

	async answer(): Promise<string> {
		await until(() => this.received.endsWith('unauthorized'), 'the response');
		await settle();
		const { received } = this;
		this.received = '';
		return received;
	}
}

class CountingShare extends ConnectionShare {
	spent = 0;

	override spend(tokens: number): void {
		this.spent += tokens;
		super.spend(tokens);
	}
}

async function untilGone(plane: FakePlane): Promise<void> {
	await until(() => plane.connections === 0, 'the connection to be gone');
}

describe('an HTTP/1.1 connection', () => {
	it('still gives a response of the same turn to a client that ends its side after its request', async () => {
		const server = createServer().listen(0, '127.0.0.1');
		await once(server, 'listening');
		const client = connect({ port: (server.address() as AddressInfo).port, host: '127.0.0.1', allowHalfOpen: true });
		const [served] = (await once(server, 'connection')) as [Socket];
		const plane = new FakePlane();
		new Http1Front(plane).accept(served as TLSSocket, '192.0.2.1', plane.share());
		let received = '';
		client.on('data', (bytes: Buffer) => {
			received += bytes.toString('latin1');
		});
		// As TLS has it whose last record is in the same segment as the request.
		served.push(Buffer.from('GET / HTTP/1.1\r\nHost: localhost\r\n\r\n'));
		served.push(null);
		await once(client, 'end');
		assert.match(received, /^HTTP\/1\.1 401 .*unauthorized$/s);
		client.destroy();
		server.close();
	});

	it('pays for each of many fields of a refused head, for the trailers and tiny chunks of a body, and for no usual head', async () => {
		const ofFields = (count: number) => `x: y\r\n`.repeat(count);
		const chunked = 'Host: localhost\r\nTransfer-Encoding: chunked\r\n';
		for (const [lines, body, isExpensive] of [
			['Host: localhost\r\n', '', false],
			[`Host: localhost\r\n${ofFields(300)}`, '', true],
			[chunked, `0\r\n${ofFields(5)}\r\n`, false],
			[chunked, `0\r\n${ofFields(1_000)}\r\n`, true],
			[chunked, `${'1\r\nx\r\n'.repeat(8_000)}0\r\n\r\n`, true],
		] as const) {
			const plane = new FakePlane();
			const share = new CountingShare(new PeerShare());
			const client = new Client(plane, { share });
			client.send(`POST / HTTP/1.1\r\n${lines}\r\n${body}`);
			await client.answer();
			const what = `${share.spent} tokens for ${lines.length} bytes of fields, ${body.length} of a body`;
			assert.ok(isExpensive ? share.spent > 500 : share.spent < 60, what);
		}
	});

	it('a response that breaks off in its first turn is sent as far as it came, and the connection closes', async () => {
		const { front, served, socket, received } = Object.assign(new Client(new FakePlane()), {
			received: [] as string[],
		});
		socket.on('data', (bytes: Buffer) => received.push(bytes.toString('latin1')));
		const [connection] = front.connections;
		connection!.response.expect(true, true);
		connection!.response.begin(200, new ResponseFields([]), true, false, 0);
		connection!.response.write(Buffer.from('a part of it'));
		connection!.breakOff();
		await settle();
		assert.match(received.join(''), /^HTTP\/1\.1 200 OK\r\n[\s\S]*\r\nc\r\na part of it\r\n$/);
		assert.deepEqual([served.writableEnded, front.connections.size], [false, 0]);
	});

	it('a connection whose client reads nothing is closed soon after its response breaks off', async () => {
		const plane = new FakePlane();
		const { front, served } = new Client(plane);
		const [connection] = front.connections;
		// Nothing that is written gets through.
		served._write = () => {};
		connection!.response.expect(true, true);
		connection!.response.begin(200, new ResponseFields([]), true, false, 0);
		connection!.breakOff();
		await settle();
		assert.equal(served.destroyed, false);
		await plane.pass(LIMITS.linger + 1_000);
		assert.equal(served.destroyed, true);
	});

	it('is ended when its first head is not there in time, however it comes', async () => {
		for (const bytes of ['', 'GET / HTTP/1.1\r\nHost: localhost\r\nX-Long: a']) {
			const plane = new FakePlane();
			const client = new Client(plane);
			client.send(bytes);
			for (let seconds = 1; seconds < LIMITS.firstRequest / 1000; seconds++) {
				await plane.pass(1000);
				if (bytes !== '') client.send('a');
			}
			await settle();
			assert.equal(plane.connections, 1);
			await plane.pass(1100);
			await untilGone(plane);
			assert.equal(client.received, '');
		}
	});

	it('is kept for 60 s between two requests', async () => {
		const plane = new FakePlane();
		const client = new Client(plane);
		for (let requests = 0; requests < 3; requests++) {
			await client.request();
			await plane.pass(LIMITS.idleClient - 1000);
			assert.equal(plane.connections, 1);
		}
		await plane.pass(1100);
		await untilGone(plane);
	});

	it('is ended 60 s after a response although the next head has begun, however steadily it comes', async () => {
		const plane = new FakePlane();
		const client = new Client(plane);
		await client.request();
		client.send('GET / HTTP/1.1\r\nHost: localhost\r\nX-Long: ');
		for (let seconds = 0; seconds < LIMITS.idleClient / 1000 - 1; seconds++) {
			await plane.pass(1000);
			client.send('a');
			await settle();
		}
		assert.equal(plane.connections, 1);
		await plane.pass(1100);
		await untilGone(plane);
		assert.equal(client.received, '');
	});

	it('has no other limit than that of the request while one is under way', async () => {
		const plane = new FakePlane();
		plane.letsPass = true;
		const client = new Client(plane);
		client.send('POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\na');
		await settle();
		await plane.pass(LIMITS.requestBody - 1000);
		assert.equal(plane.connections, 1);
		client.send('b');
		await until(() => client.received.endsWith('no route'), 'the response');
		client.served.destroy();
		await untilGone(plane);
	});

	it("a connection whose client does not read its response ends at the upstream's time limit", async () => {
		const plane = new FakePlane();
		const client = new Client(plane);
		client.socket.pause();
		for (let i = 0; i < 500; i++) client.send('GET / HTTP/1.1\r\nHost: localhost\r\n\r\n');
		await settle();
		await plane.pass(LIMITS.upstream + 100);
		await untilGone(plane);
	});

	it('a closing connection is read until 2 s without bytes, so that the client sees the response', async () => {
		const plane = new FakePlane();
		const client = new Client(plane);
		const answer = await client.request('Host: localhost\r\nConnection: close\r\n');
		assert.match(answer, /\r\nconnection: close\r\n/i);
		await until(() => client.socket.readableEnded, 'the end of what the server sends');
		for (const flood of ['GET / HTTP/1.1\r\n\r\n', '\0\0\0', 'x'.repeat(100_000)]) {
			client.send(flood);
			await settle();
			assert.equal(client.served.destroyed, false, JSON.stringify(flood.slice(0, 20)));
		}
		for (const ms of [LIMITS.linger + 100, LIMITS.linger - 1000]) {
			await plane.pass(ms);
			assert.equal(plane.connections, 1);
		}
		await plane.pass(1100);
		await untilGone(plane);
	});

	it('a connection closed because of malformed bytes is read on as well', async () => {
		const plane = new FakePlane();
		const client = new Client(plane);
		client.send('garbage\r\n\r\n');
		await until(() => client.socket.readableEnded, 'the end of what the server sends');
		assert.match(client.received, /^HTTP\/1\.1 400 Bad Request\r\n(?:.|\r|\n)*\r\n\r\nbad request$/);
		for (let i = 0; i < 3; i++) {
			client.send('more garbage'.repeat(1000));
			await settle();
			assert.equal(client.served.destroyed, false);
		}
		for (let looks = 0; looks < 2; looks++) await plane.pass(LIMITS.linger + 100);
		await untilGone(plane);
		assert.equal(plane.stats.read().responses.get(400), 1);
	});

	it('takes trailers that are longer than what is read ahead of a request', async () => {
		const plane = new FakePlane();
		plane.letsPass = true;
		Object.assign(plane.limits, { maxHeaderBytes: 200_000 });
		const client = new Client(plane);
		client.send('POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n');
		for (let i = 0; i < 10; i++) {
			client.send(`X-${i}: ${'x'.repeat(15_000)}\r\n`);
			await settle();
		}
		client.send('\r\n');
		await until(() => client.received.endsWith('no route'), 'the response');
		client.served.destroy();
		await untilGone(plane);
	});

	it('is not read without end while a request is under way that has no body', async () => {
		const plane = new FakePlane();
		plane.letsPass = true;
		plane.dispatches.add = () => {};
		const stats = RouteStats.view(RouteStats.allocate(1), 0);
		plane.routes = {
			match: () => ({ stats, upstream: { only: { stats: plane.stats } } }),
		} as unknown as FakePlane['routes'];
		const client = new Client(plane);
		client.send(`GET / HTTP/1.1\r\nHost: localhost\r\n\r\n${'x'.repeat(70_000)}`);
		await settle();
		assert.equal(client.served.isPaused(), true);
		client.served.destroy();
		await untilGone(plane);
	});

	it('is ended by a drain when the rest of a request comes after its response', async (test) => {
		test.mock.timers.enable({ apis: ['setTimeout'] });
		const plane = new FakePlane();
		const client = new Client(plane);
		client.send('POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\na');
		assert.match(await client.answer(), /\r\nconnection: keep-alive\r\n/);
		client.front.drain();
		test.mock.timers.tick(1000);
		await settle();
		assert.equal(client.socket.readableEnded, false);
		client.send('b');
		await settle();
		test.mock.timers.tick(1000);
		await settle();
		assert.equal(client.socket.readableEnded, true);
		await plane.pass(LIMITS.linger + 100);
		await untilGone(plane);
	});

	it('is ended by a drain although its client has always sent a byte of its next request', async (test) => {
		test.mock.timers.enable({ apis: ['setTimeout'] });
		for (const sendsOn of [true, false]) {
			const plane = new FakePlane();
			const client = new Client(plane);
			const next = 'ET / HTTP/1.1\r\nHost: localhost\r\n\r\nG';
			client.send('G');
			const request = () => {
				client.send(next);
				return client.answer();
			};
			await request();
			client.front.drain();
			assert.match(await request(), /connection: keep-alive/, 'in the grace of the drain');
			test.mock.timers.tick(1000);
			await settle();
			if (sendsOn) assert.match(await request(), /connection: close/);
			await plane.pass(LIMITS.linger + 100);
			await untilGone(plane);
		}
	});

	it('reads on after its last response for as long as the client sends, within a bound in time and in bytes', async () => {
		const refused = async () => {
			const plane = new FakePlane();
			const client = new Client(plane);
			client.send(`POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: ${2 ** 31}\r\n\r\n`);
			assert.match(await client.answer(), /connection: close/);
			return { plane, client };
		};
		const slow = await refused();
		for (let looks = 0; looks < 14; looks++) {
			slow.client.send('more of the body');
			await settle();
			await slow.plane.pass(LIMITS.linger + 100);
			assert.equal(slow.plane.connections, 1);
		}
		slow.client.send('more of the body');
		await settle();
		await slow.plane.pass(LIMITS.linger + 100);
		await untilGone(slow.plane);

		const drained = await refused();
		drained.client.front.drain();
		drained.client.send('more of the body');
		await settle();
		await drained.plane.pass(LIMITS.linger + 100);
		await untilGone(drained.plane);

		const fast = await refused();
		const piece = 'x'.repeat(1 << 20);
		for (let bytes = 0; bytes < MAX_DROPPED; bytes += piece.length) fast.client.send(piece);
		await settle();
		assert.equal(fast.plane.connections, 1);
		fast.client.send(piece);
		await untilGone(fast.plane);
	});

	it('is ended when its client ends it between two requests, or within a request that has been answered', async () => {
		for (const request of [
			'GET / HTTP/1.1\r\nHost: a\r\n\r\n',
			'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\na',
		]) {
			const plane = new FakePlane();
			const client = new Client(plane);
			client.send(request);
			await client.answer();
			client.socket.end();
			await settle();
			await plane.pass(LIMITS.linger + 100);
			await untilGone(plane);
		}
	});

	it('answers 400 to malformed bytes after a HEAD request', async () => {
		const plane = new FakePlane();
		const client = new Client(plane);
		client.send('HEAD / HTTP/1.1\r\nHost: localhost\r\n\r\n');
		await until(() => client.received.endsWith('\r\n\r\n'), 'the response');
		client.send('GE');
		await settle();
		client.socket.end();
		await until(() => client.socket.readableEnded, 'the end of what the server sends');
		assert.match(client.received, /\r\n\r\nbad request$/);
		await plane.pass(LIMITS.linger + 100);
		await untilGone(plane);
	});

	it('answers 500 to the request that a fault of ours has ended, and goes on with the next one', async () => {
		const plane = new FakePlane();
		const faults: LogRecord[] = [];
		const broken = Object.assign(plane, {
			requestLog: {
				begin() {
					throw new Error('a fault of ours');
				},
			} as unknown as DataPlane['requestLog'],
			log: createLogger(
				parseLogFilter('error'),
				(record) => faults.push(record),
				() => new Date(0),
			),
		});
		const client = new Client(broken);
		client.send('GET / HTTP/1.1\r\nHost: localhost\r\n\r\n');
		await until(() => client.received.endsWith('internal error'), 'the response');
		plane.requestLog = undefined;
		client.send('GET / HTTP/1.1\r\nHost: localhost\r\n\r\n');
		await until(() => client.received.includes('HTTP/1.1 401 '), 'the next response');
		assert.deepEqual(
			faults.map(({ target, message }) => [target, message]),
			[['proxy::exchange', 'internal error']],
		);
	});

	it('is gone when its client is gone, before the first request and after it', async () => {
		for (const requests of [0, 1]) {
			const plane = new FakePlane();
			const client = new Client(plane);
			if (requests === 1) await client.request();
			client.served.destroy();
			await untilGone(plane);
			await plane.pass(400_000);
		}
	});
});
