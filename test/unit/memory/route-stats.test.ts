import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { CLIENT_PROTOCOLS, RouteStats, readTraffic } from '../../../packages/proxy/src/memory/route-stats.ts';

describe("a route's traffic", () => {
	const workers = () => {
		const memory = RouteStats.allocate(2);
		return [RouteStats.view(memory, 0), RouteStats.view(memory, 1)] as const;
	};

	it('is zero for each protocol at first', () => {
		for (const protocol of CLIENT_PROTOCOLS) {
			assert.deepEqual(readTraffic(workers(), protocol), { inFlight: 0, received: 0, gave: 0 });
		}
	});

	it('is counted by protocol, and added up over the workers', () => {
		const [first, second] = workers();
		first.inFlight('h2', 1);
		second.inFlight('h2', 1);
		second.inFlight('http/1.1', 1);
		second.inFlight('h2', -1);
		first.received('h2', 10);
		second.received('h2', 5);
		second.gave('http/1.1', 7);
		assert.deepEqual(readTraffic([first, second], 'h2'), { inFlight: 1, received: 15, gave: 0 });
		assert.deepEqual(readTraffic([first, second], 'http/1.1'), { inFlight: 1, received: 0, gave: 7 });
	});

	it('forgets what a dead worker had in flight, and no bytes', () => {
		const [first, second] = workers();
		for (const one of [first, second]) {
			one.inFlight('h2', 2);
			one.gave('h2', 3);
		}
		first.clearGauges();
		assert.deepEqual(readTraffic([first, second], 'h2'), { inFlight: 2, received: 0, gave: 6 });
	});
});
