/** Of a thousand upstreams that are well none is taken for dead, neither at the start nor later. */
import { equal } from 'node:assert/strict';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';
import { startProxy } from '../fixtures/proxy.ts';
import { until } from '../fixtures/wait.ts';

const UPSTREAMS = 1000;

// A machine that is busy with other tests may be seconds late, so probes have more than their 2 s.
// That probes are spread over the interval is shown with a fake clock (test/unit/control/health/health.test.ts).
test('a thousand upstreams are probed in every interval without a false alarm', async (t) => {
	let probes = 0;
	const server = createServer((_, response) => {
		probes++;
		response.end();
	});
	await new Promise<void>((resolve) => server.listen(0, '0.0.0.0', 4096, resolve));
	t.after(() => server.close());
	const { port } = server.address() as AddressInfo;
	// One listener, a different address for each upstream.
	const addressOf = (i: number) => `127.1.${Math.floor(i / 250)}.${1 + (i % 250)}:${port}`;
	const routes = Array.from({ length: UPSTREAMS }, (_, i) => ({ prefix: `/${i}`, upstream: `http://${addressOf(i)}` }));
	await using proxy = await startProxy({
		workers: 1,
		config: { health_interval_secs: 3, health_timeout_secs: 15 },
		routes,
	});
	const alive = () => proxy.metric('proxy_upstream_alive');
	await until(() => probes >= UPSTREAMS, 'the first round', 60_000);
	await until(async () => (await alive()) === UPSTREAMS, 'the first verdicts', 60_000);
	const begun = probes;
	await until(() => probes >= begun + UPSTREAMS, 'another round', 60_000);
	equal(await alive(), UPSTREAMS);
	equal(await proxy.metric('proxy_circuit_transitions_total', { to: 'open' }), 0);
	equal(proxy.logs.filter(({ message }) => message === 'upstream is unhealthy').length, 0);
});
