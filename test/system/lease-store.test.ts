import { after } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { createClient } from '@redis/client';
import { RedisLeaseStore } from '../../src/control/store/redis-lease-store.ts';
import { leaseStoreSuite } from '../fixtures/lease-store-suite.ts';
import { startRedis } from '../fixtures/redis-server.ts';
import { missingTools } from './tools.ts';

/** What any store of leases has to do, a real redis-server does. */
if (missingTools('redis-server') === false) {
	const server = await startRedis();
	after(() => server.kill());
	leaseStoreSuite('redis-server', async () => {
		const client = createClient({ RESP: 2, socket: { host: '127.0.0.1', port: Number(server.port) } });
		await client.connect();
		const store = new RedisLeaseStore(
			{
				run: ({ text }, keys, args) => client.sendCommand(['EVAL', text, String(keys.length), ...keys, ...args]),
				malformed: () => {
					throw new Error('malformed');
				},
			},
			'test',
		);
		return {
			lease: (batch) => store.lease(batch),
			advance: (ms) => sleep(ms + 1),
			flush: async () => void (await client.sendCommand(['FLUSHALL'])),
			close: async () => client.destroy(),
		};
	});
}
