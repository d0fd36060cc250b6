/** Specification 2.5, 3.1 and gate 5 of 4.1, decisions "Circuit breaker"; acceptance cases 62, 65 and 66. */
import { deepEqual, equal, ok } from 'node:assert/strict';
import { after, describe, test } from 'node:test';
import { heldBody } from '../fixtures/bodies.ts';
import { type Answer, connect, PROTOCOLS, request } from '../fixtures/clients.ts';
import { CIRCUIT, type Lane, startEdge } from '../fixtures/edge.ts';
import { assertOwnAnswer } from '../fixtures/own-answer.ts';
import { BODY_MODE, type ProxyProcess, startProxy } from '../fixtures/proxy.ts';
import { type Script, startUpstream } from '../fixtures/upstream.ts';
import { until } from '../fixtures/wait.ts';

const UPSTREAM_MS = 1000;
const COOLDOWN_MS = 1000;
const edge = await startEdge({
	lanes: 80,
	config: { default_cooldown_secs: COOLDOWN_MS / 1000 },
	limits: { upstream_timeout_secs: UPSTREAM_MS / 1000, max_request_body_bytes: 1000 },
});
after(() => edge.close());
const { proxy } = edge;

const ok200: Script = (exchange) => exchange.respond({ body: 'ok' });
const answerWith =
	(status: number): Script =>
	(exchange) =>
		exchange.respond({ status, body: 'upstream says' });

/** A script that answers 200 when it is told to. */
function held(): { script: Script; release: () => void } {
	const released = Promise.withResolvers<void>();
	return {
		script: async (exchange) => {
			await Promise.race([released.promise, exchange.closed]);
			exchange.respond({ body: 'ok' });
		},
		release: () => released.resolve(),
	};
}

// Side by side, each on a lane or an edge of its own: most of their time is cooldown.
describe('the circuit breaker', { concurrency: 6 }, () => {
	for (const protocol of PROTOCOLS) {
		const ask = ({ path }: Lane, options = {}): Promise<Answer> => request(protocol, proxy, { path, ...options });

		/** Opens the lane's breaker. Resolves with a time by which it was open. */
		const open = async (lane: Lane): Promise<number> => {
			lane.upstream.script = answerWith(503);
			equal((await ask(lane)).text, 'upstream says');
			equal(await lane.circuit(), CIRCUIT.open);
			lane.upstream.script = ok200;
			return performance.now();
		};
		const cooledDown = (openedAt: number) =>
			until(() => performance.now() > openedAt + COOLDOWN_MS + 5, 'the cooldown to be over');
		const assertUnavailable = async (lane: Lane) => {
			const before = lane.upstream.requests.length;
			assertOwnAnswer(await ask(lane), 503, 'upstream unavailable');
			equal(lane.upstream.requests.length, before, 'the upstream has seen it');
		};

		describe(`what opens a breaker, over ${protocol}`, { concurrency: 4 }, () => {
			for (const status of [502, 503, 504]) {
				test(`${status} from the upstream is passed on and opens it: the next request gets our own 503`, async () => {
					const lane = edge.lane();
					lane.upstream.script = answerWith(status);
					const counted = await lane.counted(async () => {
						const answer = await ask(lane);
						equal(answer.status, status);
						equal(answer.text, 'upstream says');
						await assertUnavailable(lane);
						await assertUnavailable(lane);
					});
					deepEqual(counted, status === 503 ? { 503: 3 } : { [status]: 1, 503: 2 });
					equal(await lane.circuit(), CIRCUIT.open);
				});
			}

			for (const status of [200, 404, 429, 500, 501, 505, 599]) {
				test(`${status} from the upstream leaves it closed`, async () => {
					const lane = edge.lane();
					lane.upstream.script = answerWith(status);
					for (let i = 0; i < 3; i++) equal((await ask(lane)).status, status);
					equal(await lane.circuit(), CIRCUIT.closed);
				});
			}

			test('a transport error opens it', async () => {
				const lane = edge.lane();
				lane.upstream.script = (exchange) => exchange.reset();
				const counted = await lane.counted(async () => {
					assertOwnAnswer(await ask(lane), 502, 'bad gateway');
					await assertUnavailable(lane);
				});
				deepEqual(counted, { 502: 1, 503: 1 });
			});

			test('silence beyond the limit is 504 and opens it', async () => {
				const lane = edge.lane();
				lane.upstream.script = (exchange) => exchange.stall();
				const startedAt = performance.now();
				const counted = await lane.counted(async () => {
					assertOwnAnswer(await ask(lane, { method: 'POST', body: 'whole' }), 504, 'upstream timeout');
					ok(performance.now() - startedAt >= UPSTREAM_MS);
					await assertUnavailable(lane);
				});
				deepEqual(counted, { 504: 1, 503: 1 });
				equal(lane.upstream.requests.length, 1, 'a POST is sent once');
			});

			test('it is nobody else’s business: other upstreams are served', async () => {
				const [lane, other] = [edge.lane(), edge.lane()];
				await open(lane);
				equal((await ask(other)).status, 200);
			});
		});

		describe(`the way back, over ${protocol}`, { concurrency: 8 }, () => {
			test('until the cooldown is over every request gets 503, then one that succeeds closes it', async () => {
				const lane = edge.lane();
				// It cannot open before this, so its cooldown cannot end before a second from now.
				const sentAt = performance.now();
				await open(lane);
				await until(async () => {
					const answer = await ask(lane);
					if (answer.status === 200) return true;
					assertOwnAnswer(answer, 503, 'upstream unavailable');
					return false;
				}, 'the end of the cooldown');
				ok(performance.now() > sentAt + COOLDOWN_MS, 'the cooldown was too short');
				equal(await lane.circuit(), CIRCUIT.closed);
				equal((await ask(lane)).status, 200);
			});

			test('while the one request is under way it is half-open, and the others get 503', async () => {
				const lane = edge.lane();
				await cooledDown(await open(lane));
				const probe = held();
				lane.upstream.script = probe.script;
				const count = lane.upstream.requests.length;
				const answer = ask(lane);
				await lane.upstream.request(count + 1);
				equal(await lane.circuit(), CIRCUIT.halfOpen);
				for (let i = 0; i < 3; i++) await assertUnavailable(lane);
				probe.release();
				equal((await answer).status, 200);
				equal(await lane.circuit(), CIRCUIT.closed);
			});

			for (const [what, script, status] of [
				['503', answerWith(503), 503],
				['a transport error', ((exchange) => exchange.reset()) as Script, 502],
				['silence', ((exchange) => exchange.stall()) as Script, 504],
			] as const) {
				test(`${what} to the one request opens it for another whole cooldown`, async () => {
					const lane = edge.lane();
					await cooledDown(await open(lane));
					lane.upstream.script = script;
					const sentAt = performance.now();
					equal((await ask(lane)).status, status);
					const reopenedAt = performance.now();
					equal(await lane.circuit(), CIRCUIT.open);
					lane.upstream.script = ok200;
					while (performance.now() < sentAt + COOLDOWN_MS - 100) await assertUnavailable(lane);
					await cooledDown(reopenedAt);
					equal((await ask(lane)).status, 200);
					equal(await lane.circuit(), CIRCUIT.closed);
				});
			}

			test('500 to the one request is an answer and closes it', async () => {
				const lane = edge.lane();
				await cooledDown(await open(lane));
				lane.upstream.script = answerWith(500);
				equal((await ask(lane)).status, 500);
				equal(await lane.circuit(), CIRCUIT.closed);
			});

			test('when the client of the one request leaves, the upstream is let go and the next request is the one', async () => {
				const lane = edge.lane();
				await cooledDown(await open(lane));
				const probe = held();
				lane.upstream.script = probe.script;
				const count = lane.upstream.requests.length;
				await using client = await connect(protocol, proxy);
				const gone = client.request({ path: lane.path });
				const abandoned = await lane.upstream.request(count + 1);
				client.socket.destroy();
				equal((await gone).status, 0);
				await lane.upstream.until(
					({ connections }) => connections[abandoned.connection - 1]!.socket.destroyed,
					'the upstream to be let go',
				);
				lane.upstream.script = ok200;
				// At once: the cooldown has been served already.
				equal((await ask(lane)).status, 200);
				equal(await lane.circuit(), CIRCUIT.closed);
			});

			test('what fails by its client’s fault is no verdict: the next request is the one', async () => {
				const lane = edge.lane();
				await cooledDown(await open(lane));
				async function* tooLong() {
					yield Buffer.alloc(600);
					yield Buffer.alloc(600);
				}
				equal((await ask(lane, { method: 'POST', body: tooLong() })).status, 413);
				if (BODY_MODE === 'streaming') {
					equal((await ask(lane, { method: 'POST', body: heldBody('half') })).status, 504);
				}
				equal(await lane.circuit(), CIRCUIT.open);
				equal((await ask(lane)).status, 200);
				equal(await lane.circuit(), CIRCUIT.closed);
			});

			test('what the gates before it refuse does not use up the one request', async () => {
				const lane = edge.lane();
				await cooledDown(await open(lane));
				equal((await ask(lane, { token: null })).status, 401);
				equal((await ask(lane, { path: `${lane.path}/..` })).status, 400);
				equal((await ask(lane, { method: 'POST', body: Buffer.alloc(1001) })).status, 413);
				equal((await ask(lane, { method: 'TRACE' })).status, 405);
				equal(await lane.circuit(), CIRCUIT.open);
				equal((await ask(lane)).status, 200);
			});

			test('success of a request that was sent before it opened does not close it', async () => {
				const lane = edge.lane();
				const early = held();
				lane.upstream.script = early.script;
				const answer = ask(lane);
				await lane.upstream.request(1);
				await open(lane);
				early.release();
				equal((await answer).status, 200);
				equal(await lane.circuit(), CIRCUIT.open);
				await assertUnavailable(lane);
			});
		});
	}

	describe('the health probe', { concurrency: 4 }, () => {
		const FAST = { health_interval_secs: 0.1, default_cooldown_secs: 3600 };

		test('opens and closes the breaker whatever the cooldown is, and the gauges say so', async () => {
			await using probed = await startEdge({ config: FAST, workers: 1 });
			const lane = probed.lane();
			const alive = () => probed.proxy.metric('proxy_upstream_alive', { upstream: lane.upstream.authority });
			const ask = async () => (await request('h1', probed.proxy, { path: lane.path })).status;
			equal(await ask(), 200);
			for (const sick of [500, 404, 301]) {
				lane.upstream.setHealth(sick);
				await lane.untilCircuit(CIRCUIT.open);
				equal(await alive(), 0);
				equal(await ask(), 503);
				lane.upstream.setHealth(204);
				await lane.untilCircuit(CIRCUIT.closed);
				equal(await alive(), 1);
				equal(await ask(), 200);
			}
			lane.upstream.script = answerWith(502);
			equal(await ask(), 502);
			lane.upstream.script = ok200;
			await lane.untilCircuit(CIRCUIT.closed);
			equal(await ask(), 200);
		});

		test('an upstream whose /health is not there stays at 503, beyond its cooldown, too', async () => {
			const config = { health_interval_secs: 0.1, default_cooldown_secs: 1 };
			await using probed = await startEdge({ config, upstream: { health: 404 }, workers: 1 });
			const lane = probed.lane();
			const startedAt = performance.now();
			while (performance.now() < startedAt + 1600) {
				equal((await request('h1', probed.proxy, { path: lane.path })).status, 503);
			}
			equal(lane.upstream.requests.length, 0);
			equal(await lane.circuit(), CIRCUIT.open);
		});

		test('a breaker is open at the start, until the first probe or a request after its cooldown closes it', async () => {
			const config = { health_interval_secs: 3600, default_cooldown_secs: 3 };
			await using fresh = await startEdge({ config, upstream: { health: 500 }, workers: 1 });
			const lane = fresh.lane();
			equal(await lane.circuit(), CIRCUIT.open);
			assertOwnAnswer(await request('h2', fresh.proxy, { path: lane.path }), 503, 'upstream unavailable');
			await until(async () => (await request('h2', fresh.proxy, { path: lane.path })).status === 200, 'the cooldown');
			equal(await lane.circuit(), CIRCUIT.closed);
		});
	});

	describe('routes and their breakers', { concurrency: 2 }, () => {
		const status = async (proxy: ProxyProcess, path: string) => (await request('h2', proxy, { path })).status;

		test('routes to one upstream share its breaker, and the cooldown is that of the route asking', async () => {
			await using upstream = await startUpstream();
			await using proxy = await startProxy({
				config: { health_interval_secs: 3600, default_cooldown_secs: 3600 },
				routes: [
					{ prefix: '/patient', upstream: upstream.url },
					{ prefix: '/hasty', upstream: upstream.url, cooldown_secs: 1 },
				],
			});
			upstream.script = answerWith(503);
			equal(await status(proxy, '/patient'), 503);
			upstream.script = ok200;
			const openedAt = performance.now();
			equal(await status(proxy, '/hasty'), 503);
			equal(upstream.requests.length, 1, 'the other route has opened it');
			await until(() => performance.now() > openedAt + COOLDOWN_MS + 5, 'the shorter cooldown');
			equal(await status(proxy, '/patient'), 503);
			equal(await status(proxy, '/hasty'), 200);
			equal(await status(proxy, '/patient'), 200);
		});

		test('a reload keeps the breaker of a rule that has not changed and makes a new one for one that has', async () => {
			await using upstream = await startUpstream();
			const route = { prefix: '/a', upstream: upstream.url, cooldown_secs: 3600 };
			await using proxy = await startProxy({ config: { health_interval_secs: 3600 }, routes: [route] });
			upstream.script = answerWith(503);
			equal(await status(proxy, '/a'), 503);
			upstream.script = ok200;
			proxy.writeConfig({ routes: [route, { prefix: '/b', upstream: upstream.url, cooldown_secs: 3600 }] });
			await proxy.reload();
			equal(await status(proxy, '/a'), 503, 'kept');
			equal(await status(proxy, '/b'), 503, 'one breaker an upstream');
			proxy.writeConfig({ routes: [{ ...route, cooldown_secs: 3599 }] });
			await proxy.reload();
			await until(async () => (await status(proxy, '/a')) === 200, 'the new breaker to be proven by its first probe');
		});
	});
});

describe('the end of a cooldown under load', async () => {
	const loaded = await startEdge({ lanes: 2, config: { default_cooldown_secs: COOLDOWN_MS / 1000 } });
	after(() => loaded.close());

	for (const protocol of PROTOCOLS) {
		test(`of 300 requests at once the upstream sees exactly one, over ${protocol}`, async () => {
			const { path, upstream } = loaded.lane();
			const count = protocol === 'h1' ? 300 : 10;
			const clients = await Promise.all(Array.from({ length: count }, () => connect(protocol, loaded.proxy)));
			upstream.script = answerWith(503);
			equal((await clients[0]!.request({ path })).status, 503);
			const openedAt = performance.now();
			const probe = held();
			upstream.script = probe.script;
			await until(() => performance.now() > openedAt + COOLDOWN_MS + 5, 'the cooldown to be over');
			const statuses: number[] = [];
			const sent = clients.flatMap((client) =>
				Array.from({ length: 300 / count }, async () => {
					statuses.push((await client.request({ path })).status);
				}),
			);
			await until(
				() => statuses.length === 299,
				() => `299 refusals; there are ${statuses.length}`,
			);
			deepEqual(new Set(statuses), new Set([503]));
			probe.release();
			await Promise.all(sent);
			equal(statuses.at(-1), 200);
			equal(upstream.requests.length, 2, 'the one that opened it, and the one that closed it');
			await Promise.all(clients.map((client) => client.close()));
		});
	}
});
