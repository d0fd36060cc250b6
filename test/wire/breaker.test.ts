/** The circuit breaker after it has opened: what a request gets meanwhile, and what closes it. */
import { deepEqual, equal, ok } from 'node:assert/strict';
import { after, describe, test } from 'node:test';
import { type Answer, connect, PROTOCOLS, type Protocol, request } from '../fixtures/clients.ts';
import { assertOwnAnswer } from '../fixtures/own-answer.ts';
import { CIRCUIT, type Lane, startLanes } from '../fixtures/stage.ts';
import type { Script } from '../fixtures/upstream.ts';
import { until } from '../fixtures/wait.ts';

const COOLDOWN_MS = 2000;
const cooling = await startLanes({
	lanes: 8,
	config: { default_cooldown_secs: COOLDOWN_MS / 1000 },
	limits: { max_request_body_bytes: 1000 },
});
after(() => cooling.close());

const ok200: Script = (exchange) => exchange.respond({ body: 'ok' });
const answerWith =
	(status: number): Script =>
	(exchange) =>
		exchange.respond({ status, body: 'upstream says' });

/** A script that responds with 200 on demand. */
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

// In parallel, each on a separate lane or edge: most of their time is cooldown.
describe('the circuit breaker', { concurrency: 6 }, () => {
	for (const protocol of PROTOCOLS) {
		const ask = ({ proxy, path }: Lane, options = {}): Promise<Answer> =>
			request(protocol, proxy, { path, ...options });

		/** Opens the lane's breaker. Resolves with a time by which it was open. */
		const open = async (lane: Lane): Promise<number> => {
			lane.upstream.script = answerWith(503);
			await ask(lane);
			equal(await lane.circuit(), CIRCUIT.open);
			lane.upstream.script = ok200;
			return performance.now();
		};
		const cooledDown = (openedAt: number) =>
			until(() => performance.now() > openedAt + COOLDOWN_MS + 5, 'the cooldown to be over');
		describe(`the way back, over ${protocol}`, { concurrency: 8 }, () => {
			test('until the cooldown is over every request gets 503, then one that succeeds closes it', async () => {
				const lane = cooling.lane();
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

			test('a client that leaves during the probe request makes the next request the probe', async () => {
				const lane = cooling.lane();
				await cooledDown(await open(lane));
				const probe = held();
				lane.upstream.script = probe.script;
				const count = lane.upstream.requests.length;
				await using client = await connect(protocol, lane.proxy);
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

			test('a failure of the client is no verdict: the next request is the probe', async () => {
				const lane = cooling.lane();
				await cooledDown(await open(lane));
				async function* tooLong() {
					yield Buffer.alloc(600);
					yield Buffer.alloc(600);
				}
				equal((await ask(lane, { method: 'POST', body: tooLong() })).status, 413);
				equal(await lane.circuit(), CIRCUIT.open);
				equal((await ask(lane)).status, 200);
				equal(await lane.circuit(), CIRCUIT.closed);
			});
		});
	}
});

describe('the end of a cooldown under load', async () => {
	/** All refusals must be through before it has passed again. */
	const cooldownMs = 5000;
	const loaded = await startLanes({
		lanes: 2,
		config: { default_cooldown_secs: cooldownMs / 1000 },
		// The connections are made before the cooldown begins.
		limits: { first_request_timeout_secs: 120 },
	});
	after(() => loaded.close());

	const open = async (protocol: Protocol) => {
		const { path, upstream } = loaded.lane();
		const count = protocol === 'h1' ? 300 : 10;
		const clients = await Promise.all(Array.from({ length: count }, () => connect(protocol, loaded.proxy)));
		upstream.script = answerWith(503);
		equal((await clients[0]!.request({ path })).status, 503);
		return { path, upstream, clients, openedAt: performance.now() };
	};

	test('the upstream sees exactly one of 300 concurrent requests at the end of a cooldown, over each protocol', async () => {
		for (const { path, upstream, clients, openedAt } of await Promise.all(PROTOCOLS.map(open))) {
			const probe = held();
			upstream.script = probe.script;
			await until(() => performance.now() > openedAt + cooldownMs + 5, 'the cooldown to be over');
			const statuses: number[] = [];
			const sent = clients.flatMap((client) =>
				Array.from({ length: 300 / clients.length }, async () => {
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
		}
	});
});
