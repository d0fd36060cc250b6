/** The drain while requests are in flight at an HTTP/2 upstream. */
import { deepEqual, equal } from 'node:assert/strict';
import type { ServerHttp2Session, ServerHttp2Stream } from 'node:http2';
import { describe, test } from 'node:test';
import { heldBody } from '../fixtures/bodies.ts';
import { type Answer, connect, PROTOCOLS, request } from '../fixtures/clients.ts';
import { type Http2Upstream, type StreamScript, startHttp2Upstream } from '../fixtures/h2-upstream.ts';
import { ASKED_ONCE, type ProxyOptions, type ProxyProcess, startProxy } from '../fixtures/proxy.ts';
import { until, within } from '../fixtures/wait.ts';

/** Far below `shutdown_drain_secs`, 25 s by default, ms. */
const DRAIN_MS = 20_000;

/** `/held…` waits before its head, `/begun…` after a first piece, `/stuck…` forever; the others return their bodies. */
class Held {
	readonly streams = new Map<string, ServerHttp2Stream>();
	readonly resets = new Map<string, number>();

	readonly script: StreamScript = (stream, headers, body) => {
		const path = String(headers[':path']);
		this.streams.set(path, stream);
		stream.on('close', () => this.resets.set(path, stream.rstCode));
		if (path.startsWith('/held') || path.startsWith('/stuck')) return;
		stream.respond({ ':status': 200 });
		if (path.startsWith('/begun')) return void stream.write('begun, ');
		void body.then((bytes) => stream.end(bytes));
	};

	release(): void {
		for (const [path, stream] of this.streams) {
			if (path.startsWith('/held')) stream.respond({ ':status': 200 });
			if (path.startsWith('/held') || path.startsWith('/begun')) stream.end('done');
		}
	}
}

interface Stage {
	readonly held: Held;
	readonly upstream: Http2Upstream;
	readonly proxy: ProxyProcess;
	/** How each connection of the upstream has ended: the code of the proxy's GOAWAY. */
	readonly goaways: number[];
}

async function stage(options: ProxyOptions, run: (stage: Stage) => Promise<void>): Promise<void> {
	const held = new Held();
	const upstream = await startHttp2Upstream({ script: held.script });
	const goaways: number[] = [];
	const proxy = await startProxy({
		routes: [{ prefix: '/', upstream: `h2c://${upstream.authority}` }],
		config: { ...ASKED_ONCE, tenant_rps: 0 },
		workers: 1,
		...options,
	});
	try {
		await run({ held, upstream, proxy, goaways });
	} finally {
		await proxy.stop();
		await upstream.stop();
	}
}

/** Sends a request for each path and protocol, and resolves when all have arrived. */
async function ask({ proxy, held }: Stage, paths: readonly string[]): Promise<Promise<Answer>[]> {
	const own = PROTOCOLS.flatMap((protocol) => paths.map((path) => ({ protocol, path: `${path}/${protocol}` })));
	const answers = own.map(({ protocol, path }) => request(protocol, proxy, { path }));
	await until(() => own.every(({ path }) => held.streams.has(path)), 'all requests at the upstream');
	return answers;
}

async function terminate({ proxy, upstream, goaways }: Stage): Promise<void> {
	for (const session of upstream.open as Set<ServerHttp2Session>) session.on('goaway', (code) => goaways.push(code));
	proxy.signal('SIGTERM');
	await proxy.waitForLog('draining');
}

const exitCode = (proxy: ProxyProcess) => within(proxy.exited, () => `the end of the drain${proxy.output()}`, DRAIN_MS);

describe('a drain with an HTTP/2 upstream', () => {
	test('finishes responses that have not begun, responses under way and uploads, and ends the connection in order', () =>
		stage({}, async (here) => {
			const { proxy, held, goaways } = here;
			const answers = await ask(here, ['/held', '/begun']);
			const uploads = await Promise.all(
				PROTOCOLS.map(async (protocol) => {
					const body = heldBody('first, ');
					const connection = await connect(protocol, proxy);
					return { body, answer: connection.request({ method: 'POST', path: `/echo/${protocol}`, body }) };
				}),
			);
			await until(async () => (await proxy.metric('proxy_requests_in_flight')) === 6, 'all requests');
			await terminate(here);
			held.release();
			for (const { body } of uploads) body.finish('last');
			const texts = [];
			for (const answer of [...answers, ...uploads.map((upload) => upload.answer)]) {
				const { status, body } = await answer;
				equal(status, 200);
				texts.push(String(body));
			}
			const half = ['done', 'begun, done'];
			deepEqual(texts, [...half, ...half, 'first, last', 'first, last']);
			equal(await exitCode(proxy), 0);
			await until(() => here.upstream.open.size === 0, 'the connection to end');
			deepEqual([...new Set(goaways)], [0]);
			deepEqual([...new Set(held.resets.values())], [0]);
		}));

	test('finishes what an upstream that goes away at the same moment has accepted', () =>
		stage({}, async (here) => {
			const { proxy, held, upstream } = here;
			const answers = await ask(here, ['/held', '/begun']);
			await terminate(here);
			for (const session of upstream.live) session.goaway(0);
			held.release();
			for (const answer of answers) equal((await answer).status, 200);
			equal(await exitCode(proxy), 0);
		}));

	test('ends at shutdown_drain_secs if the upstream hangs', () =>
		stage({ limits: { shutdown_drain_secs: 1 } }, async (here) => {
			const { proxy, upstream } = here;
			const answers = await ask(here, ['/stuck']);
			await terminate(here);
			equal(await exitCode(proxy), 0);
			for (const { status } of await Promise.all(answers)) equal(status, 0, 'no response rather than a wrong one');
			await until(() => upstream.open.size === 0, 'the connection to end');
		}));
});
