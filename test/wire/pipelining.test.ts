/** A request that is pipelined behind another one is judged when its turn comes, not when it was read. */
import { deepEqual, equal, ok } from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { type H1Raw, h1Raw } from '../fixtures/clients.ts';
import { type TestPki, testPki } from '../fixtures/pki.ts';
import { type Lane, type Stage, startLanes } from '../fixtures/stage.ts';
import { until } from '../fixtures/wait.ts';

const TENANT_RPS = 10;

let pki: TestPki;
let edge: Stage;
/** Of the requests in front. */
let slow: Lane;
before(async () => {
	pki = await testPki();
	edge = await startLanes({
		lanes: 2,
		config: { tenant_rps: TENANT_RPS },
	});
	slow = edge.lane();
	slow.upstream.script = async (exchange) => {
		await Promise.race([gates.get(exchange.request.target)!.promise, exchange.closed]);
		exchange.respond({ body: 'slow' });
	};
});
after(() => edge.close());

const gates = new Map<string, PromiseWithResolvers<void>>();

const get = (path: string, sub: string) =>
	`GET ${path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${pki.token(sub)}\r\n\r\n`;

interface Held {
	readonly raw: H1Raw;
	/** Lets the request in front be answered, and reads that answer. */
	release(): Promise<void>;
}

/** A connection on which a request waits for its response; `behind` was in the same packet. */
async function held(behind: string): Promise<Held> {
	const target = `${slow.path}/${gates.size}`;
	// Each has a different tenant.
	const front = get(target, `front-${gates.size}`);
	const gate = Promise.withResolvers<void>();
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
	};
}

async function passed(ms: number): Promise<void> {
	const from = performance.now();
	await until(() => performance.now() > from + ms, `${ms} ms to pass`);
}

describe('a request that waited for its turn', () => {
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
			for (let i = 0; i < TENANT_RPS; i++) statuses.push((await connection.raw.readResponse()).status);
			connection.raw.close();
		}
		const most = TENANT_RPS + Math.ceil(((performance.now() - from) / 1000) * TENANT_RPS);
		const { length } = fast.upstream.requests;
		ok(length >= TENANT_RPS && length <= most, `${length} requests have reached the upstream, not ${most} at most`);
		deepEqual(new Set(statuses), length === statuses.length ? new Set([200]) : new Set([200, 429]));
		equal(statuses.filter((status) => status === 200).length, length);
	});
});
