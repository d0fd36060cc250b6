/** A request that is pipelined behind another one is judged when its turn comes, not when it was read. */
import { deepEqual, equal, ok } from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { type H1Raw, h1Raw, request } from '../fixtures/clients.ts';
import { type TestPki, testPki } from '../fixtures/pki.ts';
import { CIRCUIT, type Lane, type Stage, startLanes } from '../fixtures/stage.ts';
import { until } from '../fixtures/wait.ts';

const TENANT_RPS = 10;
const COOLDOWN_MS = 2000;

let pki: TestPki;
let edge: Stage;
/** Of the requests in front. */
let slow: Lane;
before(async () => {
	pki = await testPki();
	edge = await startLanes({
		lanes: 5,
		config: { tenant_rps: TENANT_RPS, default_cooldown_secs: COOLDOWN_MS / 1000 },
	});
	slow = edge.lane();
	slow.upstream.script = async (exchange) => {
		await Promise.race([gates.get(exchange.request.target)!.promise, exchange.closed]);
		exchange.respond({ body: 'slow' });
	};
});
after(() => edge.close());

const gates = new Map<string, PromiseWithResolvers<void>>();

/** A request; by default of a tenant that sends only the first request of each connection. */
const get = (path: string, sub = `front-${gates.size}`) =>
	`GET ${path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${pki.token(sub)}\r\n\r\n`;

interface Held extends Disposable {
	readonly raw: H1Raw;
	/** Lets the request in front be answered, and reads that answer. */
	release(): Promise<void>;
}

/** A connection on which a request waits for its response; `behind` was in the same packet. */
async function held(behind: string): Promise<Held> {
	const target = `${slow.path}/${gates.size}`;
	const gate = Promise.withResolvers<void>();
	const front = get(target);
	gates.set(target, gate);
	const raw = await h1Raw(edge.proxy);
	raw.send(front + behind);
	await slow.upstream.until(({ requests }) => requests.some((request) => request.target === target), target);
	return {
		raw,
		release: async () => {
			gate.resolve();
			const { status, body } = await raw.readResponse();
			equal(`${status} ${body}`, '200 slow');
		},
		[Symbol.dispose]: () => raw.close(),
	};
}

async function statusesOf({ raw }: Held, count: number): Promise<number[]> {
	const statuses: number[] = [];
	for (let i = 0; i < count; i++) statuses.push((await raw.readResponse()).status);
	return statuses;
}

async function passed(ms: number): Promise<void> {
	const from = performance.now();
	await until(() => performance.now() > from + ms, `${ms} ms to pass`);
}

describe('a request that waited for its turn', { concurrency: 4 }, () => {
	test('is charged to its tenant when its turn comes: what was saved up meanwhile is no more than one burst', async () => {
		const fast = edge.lane();
		const behind = get(fast.path, 'saver').repeat(TENANT_RPS);
		const connections: Held[] = [];
		for (let i = 0; i < 3; i++) {
			if (i > 0) await passed(1050);
			connections.push(await held(behind));
		}
		// Nothing has been charged yet: the tenant may burst.
		await passed(1050);
		const from = performance.now();
		const statuses: number[] = [];
		for (const connection of connections) {
			await connection.release();
			statuses.push(...(await statusesOf(connection, TENANT_RPS)));
			connection.raw.close();
		}
		const most = TENANT_RPS + Math.ceil(((performance.now() - from) / 1000) * TENANT_RPS);
		const { length } = fast.upstream.requests;
		ok(length >= TENANT_RPS && length <= most, `${length} requests have reached the upstream, not ${most} at most`);
		deepEqual(new Set(statuses), length === statuses.length ? new Set([200]) : new Set([200, 429]));
		equal(statuses.filter((status) => status === 200).length, length);
	});

	/** Opens the lane's breaker; all that follow are answered with 200. */
	async function open(lane: Lane): Promise<void> {
		lane.upstream.script = (exchange) => exchange.respond({ status: 503 });
		equal((await request('h1', edge.proxy, { path: lane.path, token: pki.token('opener') })).status, 503);
		equal(await lane.circuit(), CIRCUIT.open);
		lane.upstream.script = (exchange) => exchange.respond({ body: 'ok' });
	}

	test('is the only probe for a whole cooldown, however long it had waited before', async () => {
		const fast = edge.lane();
		await open(fast);
		await passed(COOLDOWN_MS + 50);
		using connection = await held(get(fast.path));
		const probe = Promise.withResolvers<void>();
		fast.upstream.script = async (exchange) => {
			await Promise.race([probe.promise, exchange.closed]);
			exchange.respond({ body: 'ok' });
		};
		await passed(COOLDOWN_MS + 50);
		const { length } = fast.upstream.requests;
		const from = performance.now();
		await connection.release();
		await fast.upstream.request(length + 1);
		const others = await Promise.all(
			Array.from({ length: 5 }, () =>
				Promise.race([
					request('h1', edge.proxy, { path: fast.path, token: pki.token('other') }).then(({ status }) => status),
					// What has been let through is held there until the end.
					fast.upstream.request(length + 2, undefined, Number.POSITIVE_INFINITY).then(() => 'a second probe'),
				]),
			),
		);
		// On a machine that took so long over it, the next probe was due.
		if (performance.now() < from + COOLDOWN_MS) deepEqual(new Set(others), new Set([503]));
		probe.resolve();
		deepEqual(await statusesOf(connection, 1), [200]);
		await fast.untilCircuit(CIRCUIT.closed);
	});
});
