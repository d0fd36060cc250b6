import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { after, before, describe, it } from 'node:test';
import { createClient } from '@redis/client';
import fc from 'fast-check';
import type { LeaseBatch, LeaseCall } from '../../src/control/store/contract.ts';
import { LedgerStore } from '../../src/control/store/ledger.ts';
import { RedisLeaseStore } from '../../src/control/store/redis-lease-store.ts';
import { type RedisServer, startRedis } from '../fixtures/redis-server.ts';
import { missingTools } from './tools.ts';

/** The script in a real redis-server against the ledger in memory, call by call, at times that the test chooses. */

const REPLICAS = ['a', 'b', 'c'].map((letter) => letter.repeat(16));

const call: fc.Arbitrary<LeaseCall> = fc.record({
	key: fc.constantFrom('0000000000000001', '0000000000000002'),
	rps: fc.constantFrom(10, 10, 10, 3),
	capacity: fc.constantFrom(20, 20, 7),
	term: fc.integer({ min: 1, max: 3 }),
	known: fc.boolean(),
	held: fc.integer({ min: -5, max: 15 }),
	spent: fc.nat(40),
	want: fc.nat(12),
});
const slots = call.map((one) => ({ ...one, key: `s${one.key}`, rps: 0, held: Math.max(0, one.held) }));
const step = fc.record({
	ms: fc.constantFrom(0, 0, 1, 40, 250, 1_100, 3_100),
	replica: fc.constantFrom(...REPLICAS),
	late: fc.boolean(),
	leaving: fc.constantFrom(false, false, false, true),
	calls: fc.array(fc.oneof(call, call, slots), { maxLength: 3 }),
});

describe('the script and the ledger in memory', { skip: missingTools('redis-server') }, () => {
	let server: RedisServer;
	const client = () => createClient({ RESP: 2, socket: { host: '127.0.0.1', port: Number(server.port) } });
	let connection: ReturnType<typeof client>;
	before(async () => {
		server = await startRedis();
		connection = client();
		await connection.connect();
	});
	after(async () => {
		connection.destroy();
		await server.kill();
	});

	async function expire(nowMs: number): Promise<void> {
		const all = (await connection.sendCommand(['HGETALL', 'expiry'])) as unknown as string[];
		for (let i = 0; i < all.length; i += 2) {
			if (nowMs >= Number(all[i + 1])) await connection.sendCommand(['DEL', all[i]!]);
		}
	}

	it('say the same', async () => {
		await fc.assert(
			fc.asyncProperty(fc.array(step, { minLength: 1, maxLength: 25 }), async (steps) => {
				await connection.sendCommand(['FLUSHALL']);
				// Ahead of the server's clock, so that no key of this run expires in it.
				let micros = 2_000_000_000_000_000;
				const ledger = new LedgerStore();
				const store = new RedisLeaseStore(
					{
						run: ({ text }, keys, args) => {
							const time = `{ ${Math.floor(micros / 1e6)}, ${micros % 1e6} }`;
							// What expires does so by the test's time, too.
							const script = text
								.replaceAll("redis.call('TIME')", time)
								.replaceAll("redis.call('PEXPIRE', key,", `redis.call('HSET', 'expiry', key, ${micros / 1000} +`);
							return connection.sendCommand(['EVAL', script, String(keys.length), ...keys, ...args]);
						},
						malformed: () => assert.fail('malformed') as never,
					},
					'test',
				);
				let bornMs = 0;
				let seq = 1;
				for (const { ms, replica, late, leaving, calls } of steps) {
					micros += ms * 1000;
					ledger.forget(micros);
					await expire(micros / 1000);
					seq++;
					const once = [...new Map(calls.map((one) => [one.key, one])).values()];
					const batch: LeaseBatch = { replica, seq: late ? seq - 2 : seq, leaving, bornMs, calls: once };
					const expected = ledger.lease(batch, micros);
					assert.deepEqual(await store.lease(batch), expected, JSON.stringify(batch));
					bornMs = expected.bornMs;
				}
			}),
			{ numRuns: 400, seed: 2026 },
		);
	});

	it('has one name in the store', async () => {
		const { LEDGER_SCRIPT, REGISTRY_SCRIPT } = await import('../../src/control/store/scripts.ts');
		for (const { text, sha1 } of [LEDGER_SCRIPT, REGISTRY_SCRIPT]) {
			assert.equal(await connection.sendCommand(['SCRIPT', 'LOAD', text]), sha1);
			assert.equal(createHash('sha1').update(text).digest('hex'), sha1);
		}
	});
});
