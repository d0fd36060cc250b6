/** When a proxy opens another connection to an HTTP/2 upstream, and slow start. */
import { deepEqual, equal } from 'node:assert/strict';
import { renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { connect, PROTOCOLS, type Protocol, request } from '../fixtures/clients.ts';
import { FRAME, headersFrame, settingsFrame } from '../fixtures/h2-frames.ts';
import { type FramesConnection, type FramesUpstream, startFramesUpstream } from '../fixtures/h2-frames-upstream.ts';
import { type Http2Upstream, startHttp2Upstream } from '../fixtures/h2-upstream.ts';
import { ask, Held } from '../fixtures/held-streams.ts';
import { temporaryFolder } from '../fixtures/pki.ts';
import { ASKED_ONCE, firstVerdicts, type ProxyProcess, startProxy } from '../fixtures/proxy.ts';
import { until } from '../fixtures/wait.ts';

/** Bytes of bodies that have come. */
const dataOf = ({ frames }: FramesConnection) =>
	frames.reduce((sum, { type, payload }) => sum + (type === FRAME.DATA ? payload.length : 0), 0);

describe('further connections to an HTTP/2 upstream, and slow start', () => {
	const clock = join(temporaryFolder('warm-up'), 'ahead');
	const jump = (seconds: number) => {
		writeFileSync(`${clock}.new`, `${seconds * 1000}`);
		renameSync(`${clock}.new`, clock);
	};
	/** Four requests at once. */
	const few = new Held();
	const many = new Held();
	/** Opens no window. */
	let deaf: FramesUpstream;
	const running: Http2Upstream[] = [];
	let own: ProxyProcess;

	const group = (name: string, upstreams: readonly { readonly authority: string }[], more = {}) => {
		const addresses = upstreams.map(({ authority }) => authority);
		return { name, addresses, protocol: 'h2', ...more } as const;
	};
	const groups = (warm: readonly Http2Upstream[]) => [
		group('few', [running[0]!], { max_requests: 6, queue: 0 }),
		group('many', [running[1]!]),
		group('deaf', [deaf], { health: false }),
		group('warm', warm, { balance: 'round-robin', slow_start_secs: 1000 }),
	];
	const get = (path: string, protocol: Protocol = 'h2', options = {}) =>
		request(protocol, own, { path, ms: 60_000, ...options });
	const connections = ({ sessions }: Held) => new Set(sessions.values()).size;

	before(async () => {
		jump(0);
		deaf = await startFramesUpstream();
		running.push(
			await startHttp2Upstream({ script: few.script, settings: { maxConcurrentStreams: 4 } }),
			await startHttp2Upstream({ script: many.script }),
			await startHttp2Upstream(),
			await startHttp2Upstream(),
		);
		own = await startProxy({
			upstreams: groups([running[2]!]),
			routes: ['few', 'many', 'deaf', 'warm'].flatMap((name) =>
				['', 'held-'].map((kind) => ({ prefix: `/${kind}${name}`, upstream: name, failures: 100 })),
			),
			workers: 1,
			log: { access: 'all' },
			config: { ...ASKED_ONCE, tenant_rps: 0 },
			env: {
				NODE_OPTIONS: `--import=${new URL('../fixtures/time-jump.ts', import.meta.url).href}`,
				TEST_TIME_FILE: clock,
			},
		});
		await firstVerdicts(own);
	});

	after(async () => {
		await own?.stop();
		await Promise.all([...running, deaf].map((one) => one?.stop()));
	});

	test('a connection is made before the first one has the streams that the upstream allows; max_requests counts those of both', async () => {
		const [upstream] = running;
		equal((await get('/few')).status, 200);
		const here = { proxy: own, held: few };
		const first = await ask(here, ['/held-few/1', '/held-few/2']);
		equal(connections(few), 1);
		// One for the probe, one for requests, and one without requests so far.
		await until(() => upstream!.sessions.length === 3, 'the next connection');
		const next = await ask(here, ['/held-few/3']);
		deepEqual([few.streams.size - 1, connections(few)], [6, 2]);
		await until(async () => (await own.metric('proxy_upstream_streams', { group: 'few' })) === 6, 'six streams');
		for (const protocol of PROTOCOLS) equal((await get('/few', protocol)).status, 503);
		few.release();
		for (const answer of await Promise.all([...first, ...next])) equal(answer.text, 'done');
		await until(async () => (await get('/few')).status === 200, 'a free place');
		await own.atRest();
	});

	test('a body whose upstream opens no window holds up no other request: that gets another connection', async () => {
		const body = Buffer.alloc(100_000);
		await using stuck = await connect('h2', own);
		void stuck.request({ method: 'POST', path: '/deaf', body, ms: 60_000 });
		const first = await deaf.connection();
		first.send(settingsFrame());
		const window = 65_535;
		await until(() => dataOf(first) === window, 'the whole window of the connection');
		const heads = ({ frames }: FramesConnection) => frames.filter(({ type }) => type === FRAME.HEADERS);
		const ok200 = (to: FramesConnection) => to.send(headersFrame(heads(to).at(-1)!.streamId, [[':status', '200']]));
		// That nothing opens is noticed after a while.
		await until(async () => {
			const answer = get('/deaf');
			const { length } = heads(first);
			let second: FramesConnection | undefined;
			await until(() => {
				second = deaf.take();
				return second !== undefined || heads(first).length > length;
			}, 'a request or a connection');
			second?.send(settingsFrame());
			if (second !== undefined) await until(() => heads(second!).length === 1, 'the request');
			ok200(second ?? first);
			equal((await answer).status, 200);
			return second;
		}, 'another connection');
		await stuck.close();
		await own.atRest();
	});

	test('an address that is added gets a tenth of its requests at first, and all of them after slow_start_secs', async () => {
		const [old, young] = running.slice(2) as [Http2Upstream, Http2Upstream];
		/** A jump ends connections and requests: -1. */
		const met = async (requests: number) => {
			const before = young.streams;
			for (let i = 0; i < requests; i++) {
				const answer = await get('/warm').catch(() => undefined);
				if (answer?.status !== 200) return -1;
			}
			return young.streams - before;
		};
		const useOf = async (...warm: Http2Upstream[]) => {
			own.writeConfig({ upstreams: groups(warm) });
			equal((await own.reload()).routes.message, 'routing table reloaded');
			await firstVerdicts(own);
		};
		jump(1200);
		// The main thread has to see the jump before the address is there, and the worker before it is asked.
		await until(async () => {
			await useOf(old);
			await useOf(old, young);
			return (await met(22)) === 2;
		}, 'a tenth of its share');
		jump(2400);
		await until(async () => (await met(10)) === 5, 'its whole share');
		deepEqual([old.open.size, young.open.size], [1, 1]);
	});
});
