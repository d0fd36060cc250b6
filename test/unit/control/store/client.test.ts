import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { ErrorReply } from '@redis/client';
import type { OpenStore, StoreScript } from '../../../../packages/proxy/src/control/store/client.ts';
import { MAX_IN_FLIGHT, StoreClient } from '../../../../packages/proxy/src/control/store/client.ts';
import { StoreFailure } from '../../../../packages/proxy/src/control/store/failure.ts';
import { FakeTime, settle } from '../fixtures/fake-time.ts';

const SCRIPT: StoreScript = { text: 'return 1', sha1: 'abc' };
const TIMEOUT_MS = 500;

/** A store of which the test says what it does. */
class FakeStore {
	opened = 0;
	closed = 0;
	/** Of the attempts to connect; `undefined`: none is answered. */
	connect: (() => Promise<void>) | undefined = () => Promise.resolve();
	reply: (args: readonly string[]) => Promise<unknown> = () => Promise.resolve('OK');
	readonly sent: (readonly string[])[] = [];
	break: (cause: unknown) => void = () => {};

	readonly open: OpenStore = async (abandoned, onBroken) => {
		this.opened++;
		this.break = onBroken;
		await (this.connect === undefined ? new Promise(() => {}) : this.connect());
		abandoned.throwIfAborted();
		return {
			send: (_key, args) => {
				this.sent.push(args);
				return this.reply(args);
			},
			close: () => {
				this.closed++;
			},
		};
	};
}

function build() {
	const time = new FakeTime();
	const store = new FakeStore();
	const client = new StoreClient({
		open: store.open,
		timeoutMs: TIMEOUT_MS,
		timers: time,
		random: () => 1,
	});
	const run = () => client.run(SCRIPT, ['k'], ['a']);
	const reason = (promise: Promise<unknown>) =>
		promise.then(
			() => 'success',
			(error) => (error instanceof StoreFailure ? error.reason : error),
		);
	return { time, store, client, run, reason };
}

async function started() {
	const built = build();
	await built.client.start();
	return built;
}

describe('the client of the store', () => {
	it('calls a script by its hash, and sends it to a store that does not know it', async () => {
		const { store, client, run } = await started();
		store.reply = async ([command]) => {
			if (command === 'EVALSHA') throw new ErrorReply('NOSCRIPT No matching script. Please use EVAL.');
			return [1];
		};
		assert.deepEqual(await run(), [1]);
		assert.deepEqual(store.sent, [
			['EVALSHA', 'abc', '1', 'k', 'a'],
			['EVAL', 'return 1', '1', 'k', 'a'],
		]);
		assert.equal(client.counts.success, 1);
		assert.equal(client.counts.failures.size, 0);
	});

	it('fails at once without a connection, and keeps trying with pauses that grow', async () => {
		const { time, store, client, run, reason } = build();
		store.connect = () => Promise.reject(Object.assign(new Error('x'), { code: 'ECONNREFUSED' }));
		await client.start();
		assert.equal(await reason(run()), 'unreachable');
		assert.deepEqual(store.sent, []);
		const attempts = [store.opened];
		for (let second = 0; second < 10; second++) {
			await time.advance(1000);
			attempts.push(store.opened);
		}
		// 200, 400, 800, 1600, then 2000 ms.
		assert.deepEqual(attempts, [1, 3, 4, 5, 5, 6, 6, 7, 7, 8, 8]);
	});

	it('does not wait for a connection that fails', async () => {
		const { time, store, client, run, reason } = build();
		store.connect = undefined;
		void client.start();
		await time.advance(2_000);
		assert.equal(client.state.type, 'away');
		assert.equal(await reason(run()), 'timeout');
		store.connect = () => Promise.resolve();
		await time.advance(1_000);
		assert.equal(await reason(run()), 'success');
	});

	it('abandons a call after its time, and closes its connection', async () => {
		const { time, store, run, reason } = await started();
		await run();
		store.reply = () => new Promise(() => {});
		const [first, second] = [reason(run()), reason(run())];
		await time.advance(TIMEOUT_MS);
		assert.deepEqual(await Promise.all([first, second]), ['timeout', 'timeout']);
		assert.equal(store.closed, 1);
		assert.equal(await reason(run()), 'timeout');
		store.reply = () => Promise.resolve(1);
		await time.advance(200);
		assert.equal(store.opened, 2);
		assert.equal(await reason(run()), 'success');
	});

	it('takes an answer that came in time, though this thread was too busy to read it', async () => {
		const { time, store, run, reason } = await started();
		// A loop that was held up runs timers first, and reads sockets then.
		store.reply = () => new Promise((resolve) => time.after(TIMEOUT_MS, () => resolve(1)));
		const late = reason(run());
		await time.advance(TIMEOUT_MS);
		assert.equal(await late, 'success');
		assert.equal(store.closed, 0);
		assert.equal(time.pending, 0);
	});

	it('limits the number of pending calls', async () => {
		const { store, run, reason, time } = await started();
		store.reply = () => new Promise(() => {});
		const waiting = Array.from({ length: MAX_IN_FLIGHT }, () => reason(run()));
		assert.equal(await reason(run()), 'busy');
		assert.equal(store.sent.length, MAX_IN_FLIGHT);
		await time.advance(TIMEOUT_MS);
		assert.deepEqual([...new Set(await Promise.all(waiting))], ['timeout']);
		assert.equal(time.pending, 1);
	});

	it('asks for the primary again after meeting a replica', async () => {
		const { time, store, run, reason } = await started();
		store.reply = () => Promise.reject(new ErrorReply("READONLY You can't write against a read only replica."));
		assert.equal(await reason(run()), 'read_only');
		assert.equal(store.closed, 1);
		store.reply = () => Promise.resolve(1);
		await time.advance(1_000);
		assert.equal(await reason(run()), 'success');
	});

	it('keeps the connection to a store that is full or loading', async () => {
		const { store, run, reason } = await started();
		for (const [message, expected] of [
			["OOM command not allowed when used memory > 'maxmemory'.", 'full'],
			['LOADING Redis is loading the dataset in memory', 'loading'],
		] as const) {
			store.reply = () => Promise.reject(new ErrorReply(message));
			assert.equal(await reason(run()), expected);
		}
		assert.equal(store.closed, 0);
		store.reply = () => Promise.resolve(1);
		assert.equal(await reason(run()), 'success');
	});

	it('reports whether the store answers, and counts the calls', async () => {
		const { time, store, client, run, reason } = build();
		const state = () => (client.state.type === 'away' ? client.state.failure.code : client.state.type);
		assert.equal(state(), 'starting');
		store.connect = () => Promise.reject(Object.assign(new Error('x'), { code: 'ECONNREFUSED' }));
		await client.start();
		for (let i = 0; i < 5; i++) await reason(run());
		assert.equal(state(), 'ECONNREFUSED');
		store.connect = () => Promise.resolve();
		await time.advance(5_000);
		await run();
		await run();
		assert.equal(state(), 'up');
		store.break(Object.assign(new Error('x'), { code: 'ECONNRESET' }));
		assert.equal(state(), 'ECONNRESET');
		await time.advance(3_000);
		assert.equal(client.counts.success, 2);
		assert.equal(client.counts.failures.get('unreachable'), 5);
	});

	it('treats a malformed answer as a failure', async () => {
		const { store, client, run } = await started();
		await run();
		assert.equal(client.malformed().reason, 'malformed');
		assert.equal(client.counts.success, 0);
		assert.equal(client.counts.failures.get('malformed'), 1);
		assert.equal(store.closed, 1);
	});

	it('ends pending calls when it stops, and starts no new ones', async () => {
		const { time, store, client, run, reason } = await started();
		store.reply = () => new Promise(() => {});
		const call = reason(run());
		client.stop();
		assert.equal(await call, 'unreachable');
		assert.equal(store.closed, 1);
		await settle();
		assert.equal(time.pending, 0);
		assert.equal(await reason(run()), 'unreachable');
	});
});
