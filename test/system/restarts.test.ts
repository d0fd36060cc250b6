/** docs/reference/upstreams.md, "Restarts": what happens to requests when an address of their group goes away. Each row of the page's table is a row here. */
import { deepEqual, equal, match, notEqual, ok } from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { after, before, describe, test } from 'node:test';
import { type HeldBody, heldBody } from '../fixtures/bodies.ts';
import { type Answer, type Connection, connect, PROTOCOLS, type Protocol } from '../fixtures/clients.ts';
import { readPage } from '../fixtures/doc-blocks.ts';
import { ERROR_CODE } from '../fixtures/h2-frames.ts';
import { assertOwnAnswer } from '../fixtures/own-answer.ts';
import type { LogLine } from '../fixtures/program.ts';
import { ASKED_ONCE, BODY_MODE, firstVerdicts, type ProxyProcess, startProxy } from '../fixtures/proxy.ts';
import { type Exchange, startUpstream, type Upstream } from '../fixtures/upstream.ts';
import { until } from '../fixtures/wait.ts';

/** `saved`: the client gets the other address's response. */
type Result = 'saved' | '502' | 'broken off' | 'complete';

interface Row {
	readonly moment: keyof typeof MOMENTS;
	readonly methods: readonly string[];
	readonly body: 'none' | 'whole' | 'half of it sent';
	readonly collected: Result;
	readonly streaming: Result;
}

/** What the address does that gets the request first; `undefined`: it is gone before that. */
interface Moment {
	readonly words: string;
	readonly connection: 'used' | 'new';
	readonly act?: (exchange: Exchange) => void;
	/** Label of `proxy_upstream_retries_total` for a saved request. */
	readonly reason?: 'unreachable' | 'stale' | 'unanswered' | 'broken';
}

const MOMENTS = {
	before: { words: 'before the request is sent', connection: 'used', reason: 'unreachable' },
	upload: { words: 'in the middle of the body', connection: 'new', reason: 'unreachable' },
	stale: {
		words: 'after the request is sent, before a byte of the response',
		connection: 'used',
		act: (exchange) => exchange.reset(),
		reason: 'stale',
	},
	unanswered: {
		words: 'after the request is sent, before a byte of the response',
		connection: 'new',
		act: (exchange) => exchange.reset(),
		reason: 'unanswered',
	},
	begun: {
		words: 'in the middle of the response',
		connection: 'used',
		act: (exchange) => exchange.truncate(10, { body: 'half' }),
		reason: 'broken',
	},
	answered: {
		words: 'after the response',
		connection: 'used',
		act: (exchange) => {
			exchange.respond({ body: 'last' });
			exchange.end();
		},
	},
} as const satisfies Record<string, Moment>;

const SAFE = ['GET', 'HEAD', 'OPTIONS'];
const UNSAFE = ['POST', 'PUT', 'PATCH', 'DELETE'];
const ALL = [...SAFE, ...UNSAFE];

const ROWS: readonly Row[] = [
	{ moment: 'before', methods: ALL, body: 'none', collected: 'saved', streaming: 'saved' },
	{ moment: 'before', methods: ALL, body: 'whole', collected: 'saved', streaming: 'saved' },
	{ moment: 'upload', methods: ALL, body: 'half of it sent', collected: 'saved', streaming: '502' },
	...(['stale', 'unanswered'] as const).flatMap((moment): Row[] => [
		{ moment, methods: SAFE, body: 'none', collected: 'saved', streaming: 'saved' },
		{ moment, methods: SAFE, body: 'whole', collected: 'saved', streaming: '502' },
		{ moment, methods: UNSAFE, body: 'none', collected: '502', streaming: '502' },
		{ moment, methods: UNSAFE, body: 'whole', collected: '502', streaming: '502' },
	]),
	...(['none', 'whole'] as const).flatMap((body): Row[] => [
		// The response to a HEAD has no middle.
		{ moment: 'begun', methods: ['GET', 'OPTIONS'], body, collected: 'saved', streaming: 'broken off' },
		{ moment: 'begun', methods: UNSAFE, body, collected: '502', streaming: 'broken off' },
	]),
	{ moment: 'answered', methods: ALL, body: 'none', collected: 'complete', streaming: 'complete' },
	{ moment: 'answered', methods: ALL, body: 'whole', collected: 'complete', streaming: 'complete' },
];

/** Two addresses for a row and protocol. */
interface Group {
	readonly name: string;
	readonly row: Row;
	readonly protocol: Protocol;
	readonly upstreams: readonly [Upstream, Upstream];
	/** What the next request gets, and at which address. */
	act: ((exchange: Exchange) => void) | undefined;
	victim: Upstream | undefined;
	/** Retries at the last count: a page of this number of upstreams takes long. */
	retried: number;
}

let groups: readonly Group[];
let proxy: ProxyProcess;

before(async () => {
	groups = await Promise.all(
		PROTOCOLS.flatMap((protocol) => ROWS.map((row, i) => startGroup(`row-${i}-${protocol}`, row, protocol))),
	);
	proxy = await startProxy({
		// One worker: all requests share one pool of connections.
		workers: 1,
		config: { ...ASKED_ONCE, tenant_rps: 0 },
		upstreams: groups.map(({ name, upstreams }) => {
			return { name, addresses: upstreams.map(({ authority }) => authority), balance: 'round-robin' };
		}),
		// The test repeats the moment of the failure; the breaker must not interfere.
		routes: groups.map(({ name }) => ({ prefix: `/${name}`, upstream: name, failures: 100 })),
	});
	await firstVerdicts(proxy);
});
after(async () => {
	await proxy?.[Symbol.asyncDispose]();
	await Promise.all((groups ?? []).flatMap(({ upstreams }) => upstreams.map((upstream) => upstream.close())));
});

async function startGroup(name: string, row: Row, protocol: Protocol): Promise<Group> {
	const upstreams = [await startUpstream(), await startUpstream()] as const;
	const group: Group = { name, row, protocol, upstreams, act: undefined, victim: undefined, retried: 0 };
	for (const upstream of upstreams) {
		upstream.script = (exchange) => {
			const { act } = group;
			if (act === undefined) return exchange.respond({ body: upstream.authority });
			group.act = undefined;
			group.victim = upstream;
			act(exchange);
		};
	}
	return group;
}

/** Each address has a used connection, or none. */
async function prepare({ upstreams, name }: Group, connection: 'used' | 'new', client: Connection): Promise<void> {
	const open = () => upstreams.map(({ openConnections }) => openConnections.filter(({ bytes }) => bytes > 0).length);
	if (connection === 'used') {
		for (let i = 0; open().includes(0); i++) {
			ok(i < 8, 'an address is never asked');
			equal((await client.request({ path: `/${name}` })).status, 200);
		}
		return;
	}
	for (const upstream of upstreams) upstream.closeConnections();
	await until(() => open().every((count) => count === 0), 'the connections to end');
}

/** @returns retries since the last call; all of one reason per group. */
async function newRetries(group: Group, reason: string): Promise<number> {
	const before = group.retried;
	group.retried = await proxy.metric('proxy_upstream_retries_total', { group: group.name, reason });
	return group.retried - before;
}
const requestsOf = ({ upstreams }: Group) => upstreams.flatMap(({ requests }) => requests);

function assertResult(result: Result, answer: Answer, group: Group, method: string): void {
	const { victim, upstreams, protocol } = group;
	if (result === '502') return assertOwnAnswer(answer, 502, 'bad gateway', method);
	if (result === 'broken off') {
		// 0 if the reset has overtaken the head.
		ok(answer.status === 200 || answer.status === 0, `${answer.status}`);
		notEqual(answer.ended, 'complete', 'it looks whole');
		if (protocol === 'h2') equal(answer.resetCode, ERROR_CODE.INTERNAL_ERROR);
		return;
	}
	const other = upstreams.find((upstream) => upstream !== victim)!;
	const text = result === 'saved' ? other.authority : 'last';
	deepEqual([answer.status, answer.text, answer.ended], [200, method === 'HEAD' ? '' : text, 'complete']);
}

/** The request reaches an address that does something. */
async function meet(group: Group, method: string, client: Connection): Promise<void> {
	const { row, name } = group;
	const { act, reason }: Moment = MOMENTS[row.moment];
	const result = row[BODY_MODE];
	const delivered = requestsOf(group).length;
	group.act = act;
	const body = row.body === 'whole' ? { body: 'the whole of it' } : {};
	const answer = await client.request({ method, path: `/${name}`, ...body });
	assertResult(result, answer, group, method);
	equal(requestsOf(group).length - delivered, result === 'saved' ? 2 : 1, 'requests at both addresses');
	if (reason !== undefined) equal(await newRetries(group, reason), result === 'saved' ? 1 : 0, reason);
}

/** An address is gone; the next request to it notices. */
async function miss(group: Group, method: string, client: Connection): Promise<void> {
	const { row, name, upstreams } = group;
	const [gone, other] = upstreams;
	const { port } = gone;
	const isHalf = row.body === 'half of it sent';
	group.victim = gone;
	if (!isHalf) await gone.stop();
	let tries = 0;
	do {
		ok(tries++ < 4, 'the address that is gone is never chosen');
		const body = isHalf ? heldBody(HALF) : row.body === 'none' ? undefined : WHOLE;
		const answer = client.request({ method, path: `/${name}`, ...(body !== undefined && { body }) });
		await gone.stop();
		if (isHalf) (body as HeldBody).finish(WHOLE.slice(HALF.length));
		assertResult('saved', await answer, group, method);
		equal(String(other.requests.at(-1)!.body), row.body === 'none' ? '' : WHOLE);
	} while ((await newRetries(group, 'unreachable')) === 0);
	await gone.listen(port);
}

/** An address goes away with half of the body, which no process has any more. */
async function missHalfWay(group: Group, method: string, client: Connection): Promise<void> {
	const { name, upstreams } = group;
	const before = requestsOf(group).length;
	const answer = client.request({ method, path: `/${name}`, body: heldBody(HALF) });
	const has = ({ requests }: Upstream) =>
		requests.at(-1)?.state === 'receiving' && String(requests.at(-1)!.body) === HALF;
	const gone = await until(() => upstreams.find(has), 'the beginning of the body');
	const { port } = gone;
	await gone.stop();
	assertResult('502', await answer, group, method);
	equal(requestsOf(group).length - before, 1, 'it is sent once');
	await gone.listen(port);
}

const HALF = 'half, ';
const WHOLE = 'half, and half';

for (const protocol of PROTOCOLS) {
	describe(`an address that goes, over ${protocol}`, () => {
		for (const [i, row] of ROWS.entries()) {
			const { connection, words, ...moment }: Moment = MOMENTS[row.moment];
			test(`${words}, on a ${connection} connection: ${row.methods.join(', ')}, body: ${row.body}: ${row[BODY_MODE]}`, async () => {
				const group = groups.find(({ name }) => name === `row-${i}-${protocol}`)!;
				for (const method of row.methods) {
					await using client = await connect(protocol, proxy);
					await prepare(group, connection, client);
					if (moment.act !== undefined) await meet(group, method, client);
					else await (row[BODY_MODE] === 'saved' ? miss : missHalfWay)(group, method, client);
				}
			});
		}
	});
}

/** As on the page: rows that differ only in their body, or in the age of a connection, are one. */
function tableOf(rows: readonly Row[]): string {
	const lines = Map.groupBy(rows, ({ moment, methods, collected, streaming }) => {
		return [MOMENTS[moment].words, inWords(methods), 'BODY', collected, streaming].join(' | ');
	});
	return [
		'| The address fails … | Method | Body | Collected | Streaming |',
		'|---|---|---|---|---|',
		...Array.from(lines, ([line, same]) => {
			return `| ${line.replace('BODY', [...new Set(same.map(({ body }) => body))].join(' or '))} |`;
		}),
	].join('\n');
}

function inWords(methods: readonly string[]): string {
	return methods === ALL ? 'any' : methods.map((name) => `\`${name}\``).join(', ');
}

/** Every address goes away with its requests in flight and comes back, while clients keep sending. */
test('under load nothing is lost that could be saved, and nothing unsafe is delivered twice', async () => {
	const servers = await Promise.all([SlowUpstream.start(), SlowUpstream.start(), SlowUpstream.start()]);
	const delivered = new Map<string, number>();
	for (const server of servers) server.delivered = delivered;
	await using under = await startProxy({
		config: { health_interval_secs: 0.2, health_timeout_secs: 15, default_cooldown_secs: 1, tenant_rps: 0 },
		upstreams: [{ name: 'slow', addresses: servers.map(({ authority }) => authority) }],
		routes: [{ prefix: '/', upstream: 'slow' }],
		log: { access: 'all' },
	});
	await firstVerdicts(under);
	let stopped = false;
	let answered = 0;
	let next = 0;
	const lost: { readonly method: string; readonly path: string; readonly answer: string }[] = [];
	const asks = async (protocol: Protocol, method: string) => {
		let client = await connect(protocol, under);
		while (!stopped) {
			const path = `/${method}/${next++}`;
			const answer = await client.request({ method, path, ...(method === 'POST' && { body: 'x'.repeat(10_000) }) });
			if (answer.status === 200 && answer.text === path) {
				answered++;
				continue;
			}
			lost.push({ method, path, answer: `${answer.status} ${answer.text} ${answer.ended}` });
			// If the proxy has not read all of the body, the connection ends.
			await client.close();
			client = await connect(protocol, under);
		}
		await client.close();
	};
	const clients = PROTOCOLS.flatMap((protocol) =>
		['GET', 'GET', 'POST', 'POST'].map((method) => asks(protocol, method)),
	);
	const more = async (count: number) => {
		const wanted = answered + count;
		await until(() => answered >= wanted, `${count} more answers`);
	};
	for (const server of servers) {
		await more(50);
		await server.stop();
		await more(50);
		await server.listen();
		const before = server.asked;
		await until(() => server.asked > before, 'it to be asked again');
	}
	stopped = true;
	await Promise.all(clients);

	for (const { method, path, answer } of lost) {
		equal(`${method}: ${answer}`, 'POST: 502 bad gateway complete');
		const isOurs = (line: LogLine) => line.target === 'proxy::access' && line.path === path;
		const { reason } = await under.waitForLog(isOurs);
		match(String(reason), /^(idle connection was closed by the upstream|closed before|connection reset)/, path);
	}
	for (const [path, times] of delivered)
		ok(path.startsWith('/GET/') || times === 1, `${path} was delivered ${times} times`);
	await Promise.all(servers.map((server) => server.stop()));
});

/** Responds with the path after a while, so that requests are in flight whenever it stops. */
class SlowUpstream {
	/** How often each path arrived completely, over all addresses. */
	delivered = new Map<string, number>();
	asked = 0;
	readonly #server = createServer({ keepAliveTimeout: 60_000 }, (request, response) => {
		if (request.url === '/health') return void response.end();
		this.asked++;
		request.resume().on('end', () => {
			this.delivered.set(request.url!, (this.delivered.get(request.url!) ?? 0) + 1);
			setTimeout(() => response.end(request.url), 10);
		});
	});
	#port = 0;

	static async start(): Promise<SlowUpstream> {
		const upstream = new SlowUpstream();
		await upstream.listen();
		return upstream;
	}

	get authority(): string {
		return `127.0.0.1:${this.#port}`;
	}

	/** On its old port. */
	async listen(): Promise<void> {
		await once(this.#server.listen(this.#port, '127.0.0.1'), 'listening');
		this.#port = (this.#server.address() as AddressInfo).port;
	}

	/** Like a killed process: it accepts no connection, and drops the open ones. */
	async stop(): Promise<void> {
		const closed = new Promise((resolve) => this.#server.close(resolve));
		this.#server.closeAllConnections();
		await closed;
	}
}

test('the table in docs/reference/upstreams.md has exactly these rows', () => {
	const [, table] =
		/<!-- restarts: begin.*? -->\n(.*?)\n?<!-- restarts: end -->/s.exec(readPage('docs/reference/upstreams.md')) ?? [];
	equal(table, tableOf(ROWS));
});
