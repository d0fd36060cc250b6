import assert from 'node:assert/strict';
import { connect as connectTcp, type Socket } from 'node:net';
import { describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import type { TLSSocket } from 'node:tls';
import { type Answer, type Connection, connect, connectTls, PROTOCOLS, request } from '../fixtures/clients.ts';
import { freeFiles, HAS_PROC, limitOpenFiles, openFiles } from '../fixtures/proc.ts';
import { type ProxyProcess, spawnProxy, startProxy } from '../fixtures/proxy.ts';
import { startUpstream, type Upstream } from '../fixtures/upstream.ts';
import { DEADLINE_MS, until, within } from '../fixtures/wait.ts';

const FAST_PROBES = { health_interval_secs: 0.1, tenant_rps: 0 };
/** Connections that only take up descriptors outlast a test on a busy machine. */
const PATIENT = { tls_handshake_timeout_secs: 60, first_request_timeout_secs: 60 };

/** Opens idle connections, each with a descriptor, until the proxy accepts no more; three more are shed at once. */
async function occupy(proxy: ProxyProcess): Promise<TLSSocket[]> {
	const sockets: TLSSocket[] = [];
	for (let shed = 0; shed < 3; ) {
		await connectTls(proxy).then(
			(socket) => sockets.push(socket.on('error', () => {})),
			() => shed++,
		);
	}
	return sockets;
}

/** Waits until the proxy has noticed the end of all other connections; until then it may have no descriptor for a scrape. */
async function onlyLeft(proxy: ProxyProcess, count: number): Promise<void> {
	let seen: number | string = '';
	const left = async () => {
		seen = await proxy.metric('proxy_connections').catch(() => 'no descriptor for the scrape');
		return seen === count;
	};
	await until(left, () => `${count} connections to be left; there are: ${seen}`);
}

/**
 * Waits until a request on each of them is served. Each thread needs a separate connection to the upstream, and a health probe or
 * a scrape may have the last descriptor at this moment.
 */
async function untilServed(connections: readonly Connection[]): Promise<void> {
	for (const connection of connections) {
		const served = async () => {
			const { status, text } = await connection.request();
			assert.match(`${status} ${text}`, /^(200 ok|503 overloaded)$/);
			return status === 200;
		};
		await until(served, 'a connection that is up to be served');
	}
}

/** Waits until a new connection of each protocol is accepted and served. */
async function untilNewServed(proxy: ProxyProcess): Promise<void> {
	for (const protocol of PROTOCOLS) {
		const status = () =>
			request(protocol, proxy).then(
				({ status }) => status,
				() => 0,
			);
		await until(async () => (await status()) === 200, 'a new connection to be served');
	}
}

/** Of the only upstream; the last descriptor may be in use when it is asked for. */
async function circuitState(proxy: ProxyProcess): Promise<number> {
	const state = () =>
		proxy.metric('proxy_circuit_state').then(
			(state) => ({ state }),
			() => undefined,
		);
	return (await until(state, 'a scrape')).state;
}

/** Requests whose upstream responds on demand: each has a descriptor there if one was left. */
class Held {
	readonly #released = Promise.withResolvers<void>();
	readonly #answers: Promise<Answer>[] = [];

	/** Resolves when each request has reached the upstream, or has its answer. */
	async add(upstream: Upstream, connections: readonly Connection[]): Promise<void> {
		upstream.script = async (exchange) => {
			if (exchange.request.target === '/held') await this.#released.promise;
			exchange.respond({ body: 'ok' });
		};
		for (const connection of connections) {
			const arrived = upstream.request(upstream.requests.length + 1);
			const answer = connection.request({ path: '/held' });
			this.#answers.push(answer);
			await Promise.race([arrived, answer]);
			arrived.catch(() => {});
		}
	}

	/** Resolves with what became of them. */
	async release(): Promise<string[]> {
		this.#released.resolve();
		const answers = await Promise.all(this.#answers);
		return answers.map(({ status, text }) => `${status} ${text}`);
	}
}

type Outcome = 'served' | 'shed' | 'hung';

/** How a new connection ends, or that it does not end. */
async function outcomeOf(attempt: Promise<unknown>): Promise<Outcome> {
	const settled = attempt.then(
		(): Outcome => 'served',
		(): Outcome => 'shed',
	);
	return await within(settled, 'an outcome').catch(() => 'hung');
}

/** A connection on which nothing is said. */
function tcp(port: number): Socket {
	return connectTcp(port, '127.0.0.1')
		.on('error', () => {})
		.resume();
}

async function passed(ms: number): Promise<void> {
	const from = performance.now();
	await until(() => performance.now() > from + ms, `${ms} ms to pass`);
}

const NEEDS_PROC = { skip: HAS_PROC ? false : 'prlimit and /proc' };

describe('without file descriptors to spare', NEEDS_PROC, () => {
	test('new connections are shed at once, those that are up are served, and it recovers by itself', async () => {
		await using upstream = await startUpstream();
		await using proxy = await startProxy({
			config: FAST_PROBES,
			routes: [{ prefix: '/', upstream: upstream.url }],
			limits: { max_connections: 10_000, ...PATIENT },
		});
		const live: Connection[] = await Promise.all([...PROTOCOLS, ...PROTOCOLS].map((one) => connect(one, proxy)));
		// One after the other: what each needs upstream, the one before has left behind.
		await untilServed(live);
		limitOpenFiles(proxy.pid, openFiles(proxy.pid) + 4);
		const occupied = await occupy(proxy);
		const letIn: Connection[] = [];
		const crowd = await Promise.all(
			Array.from({ length: 20 }, () =>
				connect('h1', proxy).then(
					(connection) => {
						letIn.push(connection);
						return 'served';
					},
					() => 'closed',
				),
			),
		);
		// A descriptor that comes free meanwhile (an idle upstream connection has aged, a probe has ended) lets one more in.
		const closed = crowd.filter((outcome) => outcome === 'closed').length;
		assert.ok(closed >= 10, `${closed} of 20 closed`);
		const { level } = await proxy.waitForLog(({ reason }) => reason === 'descriptors');
		assert.equal(level, 'warn');

		const held = new Held();
		await held.add(upstream, live);
		const warning = await proxy.waitForLog(({ message }) => /^health cannot be probed/.test(message));
		assert.deepEqual([warning.level, warning.cause], ['warn', 'no file descriptor left']);
		for (const outcome of await held.release()) assert.match(outcome, /^(200 ok|503 overloaded)$/);
		await untilServed(live);
		assert.deepEqual(
			proxy.logs.filter(({ message }) => message === 'upstream is unhealthy'),
			[],
		);

		for (const socket of occupied) socket.destroy();
		for (const connection of letIn) await connection.close();
		await onlyLeft(proxy, live.length);
		await untilNewServed(proxy);
		assert.equal(await circuitState(proxy), 0);
		await untilServed(live);
		for (const connection of live) await connection.close();
	});

	test('a request that needs a new upstream connection gets 503 overloaded, and no breaker opens', async () => {
		await using upstream = await startUpstream();
		await using proxy = await startProxy({
			config: FAST_PROBES,
			routes: [{ prefix: '/', upstream: upstream.url }],
			limits: { max_connections: 10_000, ...PATIENT },
		});
		await using h1 = await connect('h1', proxy);
		await using h2 = await connect('h2', proxy);
		await using other = await connect('h1', proxy);
		limitOpenFiles(proxy.pid, openFiles(proxy.pid) + 2);
		const occupied = await occupy(proxy);
		for (const connection of [h1, h2]) {
			// Now and then a descriptor comes free in the last moment: a probe is through, or a connection has ended.
			const overloaded = async () => {
				upstream.closeConnections();
				occupied.push(...(await occupy(proxy)));
				const held = new Held();
				await held.add(upstream, [other]);
				const { status, text, headers } = await connection.request();
				await held.release();
				assert.ok(status === 200 || `${status} ${text}` === '503 overloaded', `${status} ${text}`);
				return status === 503 && headers['retry-after'] === '1';
			};
			await until(overloaded, 'the refusal');
		}
		for (const socket of occupied) socket.destroy();
		await onlyLeft(proxy, 3);
		await untilServed([h1, h2]);
		assert.equal(await circuitState(proxy), 0);
	});

	test('goes on shedding where libuv has lost the descriptor that it keeps for that, in each thread that listens', async () => {
		await using upstream = await startUpstream();
		await using proxy = await startProxy({
			config: { health_interval_secs: 3600, tenant_rps: 0 },
			routes: [{ prefix: '/', upstream: upstream.url }],
			limits: { max_connections: 10_000, ...PATIENT },
		});
		const live: Connection[] = await Promise.all([...PROTOCOLS, ...PROTOCOLS].map((one) => connect(one, proxy)));
		// Those that are idle would give up their descriptors at some time.
		upstream.closeConnections();
		await upstream.until(({ openConnections }) => openConnections.length === 0, 'no connection to be left');
		const limit = openFiles(proxy.pid) + freeFiles(proxy.pid).length;
		limitOpenFiles(proxy.pid, limit);
		const occupied: Socket[] = [];
		const occupyAll = async () => {
			const deadline = performance.now() + DEADLINE_MS;
			for (let looks = 0; looks <= 50; await sleep(5)) {
				const free = freeFiles(proxy.pid);
				// A connection that gets the last one is closed.
				looks = free.length <= 1 ? looks + 1 : 0;
				if (looks < 10) occupied.push(tcp(proxy.port));
				assert.ok(performance.now() < deadline, `descriptors are free: ${free}`);
			}
		};
		await occupyAll();

		// Below all that is open no descriptor that is given up helps, and what has been given up is lost.
		limitOpenFiles(proxy.pid, 3);
		const attempts = [...Array.from({ length: 20 }, () => tcp(proxy.port)), tcp(proxy.metricsPort)];
		await until(() => freeFiles(proxy.pid).length >= 3, 'descriptors to be lost');
		// libuv reports no connection that it sheds, but each thread notices that the descriptors have run out.
		const exhausted = await proxy.waitForLog(({ message }) => /^no file descriptor is left: /.test(message));
		assert.deepEqual([exhausted.level, exhausted.reason], ['warn', 'descriptors']);
		await passed(500);
		for (const socket of attempts) socket.destroy();

		// Descriptors come back one by one: enough to accept a connection, too few for a spare one as well.
		const lost = freeFiles(proxy.pid);
		for (const descriptor of lost) {
			limitOpenFiles(proxy.pid, descriptor + 1);
			await passed(400);
		}
		limitOpenFiles(proxy.pid, limit);
		const seen = new Set<Outcome>();
		for (let round = 0; round < 10; round++) {
			await occupyAll();
			const held = new Held();
			await held.add(upstream, live);
			const outcomes = await Promise.all([
				...Array.from({ length: 3 }, () => outcomeOf(proxy.metrics())),
				...Array.from({ length: 20 }, () => outcomeOf(connectTls(proxy).then((socket) => socket.destroy()))),
			]);
			assert.ok(!outcomes.includes('hung'), `${outcomes}`);
			for (const one of outcomes) seen.add(one);
			await held.release();
		}
		assert.ok(seen.has('shed'));

		limitOpenFiles(proxy.pid, limit + 1000);
		for (const socket of occupied) socket.destroy();
		await onlyLeft(proxy, live.length);
		assert.ok((await proxy.metric('proxy_connections_refused_total', { reason: 'descriptors' })) > 0);
		for (let i = 0; i < 10; i++) await untilNewServed(proxy);
		await untilServed(live);
		for (const connection of live) await connection.close();
	});

	test('a limit of 64 is enough to start, and is the limit of connections if none is set', async () => {
		await using upstream = await startUpstream();
		await using proxy = await startProxy({
			config: FAST_PROBES,
			routes: [{ prefix: '/', upstream: upstream.url }],
			launcher: ['prlimit', '--nofile=64:64'],
		});
		const sockets = await occupy(proxy);
		assert.ok(sockets.length > 4 && sockets.length <= 16, `${sockets.length} connections`);
		assert.ok(openFiles(proxy.pid) <= 64);
		for (const socket of sockets) socket.destroy();
		await onlyLeft(proxy, 0);
		await untilNewServed(proxy);
		assert.equal(proxy.stderr, '');
	});

	test('a limit that is too low for a start ends it with one clear line', async () => {
		// Below 22 Node itself does not get as far as this program (docs/reference/runtime.md).
		for (const limit of [24, 47]) {
			const proxy = await spawnProxy({ launcher: ['bash', '-c', `ulimit -n ${limit}; exec "$0" "$@"`] });
			assert.equal(await within(proxy.exited, 'the end'), 1);
			const needed = 'with 2 workers the proxy needs at least 48; raise it (ulimit -n, LimitNOFILE)';
			assert.equal(proxy.stderr, `proxy: the open-file limit is ${limit}, and ${needed}\n`);
			assert.deepEqual(proxy.logs, []);
			await proxy.kill();
		}
	});
});
