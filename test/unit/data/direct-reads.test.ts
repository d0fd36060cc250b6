import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { type Duplex, duplexPair } from 'node:stream';
import { after, before, describe, it } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { readDirectly } from '../../../src/data/direct-reads.ts';
import { until } from '../../fixtures/wait.ts';

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

/** What is handed on, and how often as an event. */
function reading(socket: Duplex): { text: string; events: number } {
	const seen = { text: '', events: 0 };
	readDirectly(socket, (bytes) => {
		seen.text += bytes.toString('latin1');
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

	it('waits while the socket is paused, without end of what it takes, and comes whole and in order behind that', async () => {
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
