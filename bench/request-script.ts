/**
 * CPU time of a request's JavaScript, from the bytes of its head to those of its response: 64 connections over HTTP/1.1, or with `h2` 16
 * connections of 4 streams. Sockets are fakes that only call back: no kernel, no TLS, no other process. So a difference of 0.1 µs between two
 * versions is visible. Compare the lowest of several runs in turn: other processes can only add.
 *
 * No two requests are alike: tokens of 1,000 tenants, 1,000 paths, unique identifiers. With `repeated` all are the same. HTTP/2 fields are
 * encoded as Go's client does: Huffman code, each of them indexed.
 *
 *   node bench/request-script.ts [CHECKOUT] [h2] [h2c] [repeated] [N]    # the checkout's sources, not its dist; default: this one
 *
 * h2: clients speak HTTP/2. h2c: the upstream does. N: addresses instead of a URL.
 */
import { registerHooks } from 'node:module';
import { resolve } from 'node:path';
import { performance } from 'node:perf_hooks';
import { pathToFileURL } from 'node:url';
import { FLAG, FRAME, frame, PREFACE } from '../test/fixtures/h2-frames.ts';
import { huffmanLiteral, integer } from '../test/fuzz/hpack.ts';

/** Concurrent requests. */
const REQUESTS_UNDER_WAY = 64;
/** Streams of an HTTP/2 connection. */
const STREAMS = 4;
/** Header blocks of an HTTP/2 connection, sent again and again; the first one empties the table. */
const BLOCKS = 1024;
const WARM_UP = 1500;
const SAMPLES = 500;
/** Rounds of one sample: few, so that some of them run undisturbed. */
const ROUNDS = 15;

const words = process.argv.slice(2);
const root = resolve(words.find((word) => !/^(?:h2c?|repeated|\d+)$/.test(word)) ?? `${import.meta.dirname}/..`);
const addresses = Number(words.find((word) => /^\d+$/.test(word)) ?? 1);
const isRepeated = words.includes('repeated');
const isHttp2 = words.includes('h2');
const isHttp2Upstream = words.includes('h2c');
const urlOf = (path: string) => pathToFileURL(`${root}/${path}`).href;
/** From the other checkout, whose types are not known. */
const use = (path: string) => import(urlOf(path));

/** Callbacks that sockets make in the next turn. */
const calls: (() => void)[] = [];
let answered = 0;

interface OnRead {
	readonly buffer: Buffer | (() => Buffer);
	readonly callback: (length: number) => void;
}

/** Replaces `node:net` for the upstream's side. */
const connect = ({ onread }: { onread: OnRead }) => {
	const receive = (bytes: Buffer) => {
		const { buffer, callback } = onread;
		(typeof buffer === 'function' ? buffer() : buffer).set(bytes);
		callback(bytes.length);
	};
	return isHttp2Upstream ? http2Upstream(receive) : http1Upstream(receive);
};

const http1Upstream = (receive: (bytes: Buffer) => void) => ({
	...NO_SOCKET,
	write: () => {
		calls.push(() => receive(ANSWER));
		return true;
	},
});

/** The requests of one write get their responses in one read. */
const http2Upstream = (receive: (bytes: Buffer) => void) => {
	let isGreeted = false;
	return {
		...NO_SOCKET,
		on(event: string, listener: () => void) {
			if (event === 'connect') calls.push(listener);
			return this;
		},
		write(frames: string) {
			const answers: Buffer[] = isGreeted ? [] : [frame(FRAME.SETTINGS, 0, 0)];
			for (const id of streamsIn(isGreeted ? frames : frames.slice(PREFACE.length))) answers.push(http2Answer(id));
			isGreeted = true;
			if (answers.length > 0) calls.push(() => receive(Buffer.concat(answers)));
			return true;
		},
	};
};

registerHooks({
	resolve(specifier, context, next) {
		const isUpstream = context.parentURL === urlOf('packages/proxy/src/data/upstream/transport.ts');
		if (specifier === 'node:net' && isUpstream) return { url: 'bench:net', format: 'module', shortCircuit: true };
		return next(specifier, context);
	},
	load(url, context, next) {
		if (url !== 'bench:net') return next(url, context);
		return { source: 'export const { connect } = globalThis.bench;', format: 'module', shortCircuit: true };
	},
});
Object.assign(globalThis, { bench: { connect } });

const NO_SOCKET = {
	writable: true,
	writableNeedDrain: false,
	writableLength: 0,
	on() {
		return this;
	},
	once() {},
	cork() {},
	uncork() {},
	pause() {},
	resume() {},
	end() {},
	destroy() {},
	isPaused: () => false,
};
/** Tokens differ in their signatures; identifiers have realistic lengths. */
const hex = (digits: number) =>
	Array.from({ length: digits }, () => Math.floor(Math.random() * 16).toString(16)).join('');
const TOKENS = Array.from({ length: isRepeated ? 1 : 1000 }, () => `Bearer ${'x'.repeat(300)}${hex(342)}`);
type Fields = readonly (readonly [name: string, value: string])[];
const FIELDS: Fields[] = Array.from({ length: isRepeated ? 1 : 8192 }, (_, i) => [
	['path', `/svc-a/hello/${i % 1000}?page=${i % 1000}`],
	['User-Agent', 'billing-service/4.2 (linux)'],
	['Accept', 'application/json'],
	['Authorization', TOKENS[Math.floor(Math.random() * TOKENS.length)]!],
	['Traceparent', `00-${hex(32)}-${hex(16)}-00`],
	['X-Request-Id', hex(32)],
	['X-Api-Version', '2026-10-01'],
]);
let asked = 0;
const literals = new Map<string, string>();
const ANSWER = Buffer.from(
	'HTTP/1.1 200 OK\r\nServer: nginx\r\nDate: Sun, 22 Nov 2026 10:00:00 GMT\r\nContent-Type: application/json\r\n' +
		'Content-Length: 17\r\nConnection: keep-alive\r\n\r\n{"hello":"world"}',
);

/** As nginx encodes it: each field becomes the table's newest entry. */
const HTTP2_BLOCK =
	'\x88' +
	(
		[
			[54, 'nginx'],
			[33, 'Sun, 22 Nov 2026 10:00:00 GMT'],
			[31, 'application/json'],
			[28, '17'],
		] as const
	)
		.map(([index, value]) => integer(index, 6, 0x40) + huffmanLiteral(value))
		.join('');
const HTTP2_HEAD = frame(FRAME.HEADERS, FLAG.END_HEADERS, 0, HTTP2_BLOCK);
const HTTP2_ANSWER = Buffer.concat([HTTP2_HEAD, frame(FRAME.DATA, FLAG.END_STREAM, 0, '{"hello":"world"}')]);
const HTTP2_HEAD_AT = 0;
const HTTP2_BODY_AT = HTTP2_HEAD.length;

const clients = await connectClients();
await rounds(WARM_UP);
const costs: number[] = [];
for (let i = 0; i < SAMPLES; i++) {
	const before = performance.now();
	await rounds(ROUNDS);
	costs.push(((performance.now() - before) * 1000) / ROUNDS / REQUESTS_UNDER_WAY);
}
costs.sort((a, b) => a - b);
const shown = [0, 0.05, 0.5].map((part) => costs[Math.floor(part * SAMPLES)]!.toFixed(2));
console.log(
	`${root}, ${isHttp2 ? 'h2' : 'h1'}, ${addresses} addresses${isHttp2Upstream ? ' over h2c' : ''}: least ${shown[0]}, 5 % at most ${shown[1]}, median ${shown[2]} us a request`,
);
process.exit(0);

/** Each client sends one request and gets its response. */
async function rounds(count: number): Promise<void> {
	for (let i = 0; i < count; i++) {
		answered = 0;
		for (const ask of clients) ask();
		while (answered < REQUESTS_UNDER_WAY || calls.length > 0) {
			await new Promise(setImmediate);
			for (const call of calls.splice(0)) call();
		}
	}
}

/** Settings of a plane with one route, whose tenants have a rate. */
async function connectClients(): Promise<(() => void)[]> {
	const { FakePlane } = await use('test/unit/data/fixtures/fake-plane.ts');
	const plane = await furnished(new FakePlane());
	return isHttp2 ? connectHttp2(plane) : connectHttp1(plane);
}

type Plane = Awaited<ReturnType<typeof use>>;

async function connectHttp1(plane: Plane): Promise<(() => void)[]> {
	const { Http1Connection } = await use('packages/proxy/src/data/http1/connection.ts');
	const { FlushQueue } = await use('packages/proxy/src/data/loop/turn-end.ts');
	const flushes = new FlushQueue(plane.turnEnd);
	const requests = FIELDS.map(([path, ...fields]) => {
		const lines = [['Host', '127.0.0.1'], ...fields].map(([name, value]) => `${name}: ${value}\r\n`).join('');
		return Buffer.from(`GET ${path![1]} HTTP/1.1\r\n${lines}\r\n`);
	});
	return Array.from({ length: REQUESTS_UNDER_WAY }, () => {
		const { socket, receive } = clientSocket(() => {
			answered++;
		});
		new Http1Connection(socket, '192.0.2.1', plane.share(), plane, flushes);
		return () => receive(Buffer.from(requests[asked++ % requests.length]!));
	});
}

/** @param onWrite receives what is written to the client, as latin1 text. */
function clientSocket(onWrite: (text: string) => void) {
	let onData = (_: Buffer) => {};
	const socket = {
		...NO_SOCKET,
		on(event: string, listener: typeof onData) {
			if (event === 'data') onData = listener;
			return this;
		},
		write(text: string, _encoding: string, onFlushed: (() => void) | undefined) {
			onWrite(text);
			if (onFlushed !== undefined) calls.push(onFlushed);
			return true;
		},
	};
	return { socket, receive: (bytes: Buffer) => onData(bytes) };
}

async function connectHttp2(plane: Plane): Promise<(() => void)[]> {
	const { Http2Front } = await use('packages/proxy/src/data/http2/front.ts');
	const front = new Http2Front(plane);
	return Array.from({ length: REQUESTS_UNDER_WAY / STREAMS }, (_, connection) => {
		const frames = blocksOf(connection * BLOCKS).map((block) =>
			frame(FRAME.HEADERS, FLAG.END_HEADERS | FLAG.END_STREAM, 0, block),
		);
		const { socket, receive } = clientSocket((text) => {
			answered += streamsIn(text).length;
		});
		front.accept(socket, '192.0.2.1', plane.share());
		receive(
			Buffer.concat([PREFACE, frame(FRAME.SETTINGS, 0, 0), frame(FRAME.WINDOW_UPDATE, 0, 0, '\x7f\x00\x00\x00')]),
		);
		let next = 0;
		return () => {
			for (let i = 0; i < STREAMS; i++, next++) {
				const bytes = Buffer.from(frames[next % frames.length]!);
				bytes.writeUInt32BE(2 * next + 1, 5);
				receive(bytes);
			}
		};
	});
}

/** Of each HEADERS frame. */
function streamsIn(frames: string): number[] {
	const ids: number[] = [];
	for (let at = 0; at < frames.length; ) {
		if (frames.charCodeAt(at + 3) === FRAME.HEADERS) {
			ids.push((frames.charCodeAt(at + 6) << 16) + (frames.charCodeAt(at + 7) << 8) + frames.charCodeAt(at + 8));
		}
		at += 9 + (frames.charCodeAt(at) << 16) + (frames.charCodeAt(at + 1) << 8) + frames.charCodeAt(at + 2);
	}
	return ids;
}

function http2Answer(id: number): Buffer {
	const bytes = Buffer.from(HTTP2_ANSWER);
	for (const at of [HTTP2_HEAD_AT, HTTP2_BODY_AT]) bytes.writeUInt32BE(id, at + 5);
	return bytes;
}

/** Encoding takes time, and tokens repeat. */
function literalOf(value: string): string {
	let literal = literals.get(value);
	if (literal === undefined) {
		literal = huffmanLiteral(value);
		literals.set(value, literal);
	}
	return literal;
}

/** As Go's client encodes them (RFC 7541): a field that is not in the table becomes its newest entry. Latin1. */
function blocksOf(first: number): string[] {
	const table: (readonly [name: string, value: string])[] = [];
	const sizeOf = () => table.reduce((sum, [name, value]) => sum + name.length + value.length + 32, 0);
	const STATIC: Record<string, number> = {
		':authority': 1,
		':path': 4,
		'user-agent': 58,
		accept: 19,
		authorization: 23,
	};
	const coded = ([name, value]: readonly [string, string]): string => {
		const whole = table.findIndex((entry) => entry[0] === name && entry[1] === value);
		if (whole !== -1) return integer(62 + whole, 7, 0x80);
		const named = STATIC[name] ?? 62 + table.findIndex((entry) => entry[0] === name);
		table.unshift([name, value]);
		while (sizeOf() > 4096) table.pop();
		return (named === 61 ? `\x40${huffmanLiteral(name)}` : integer(named, 6, 0x40)) + literalOf(value);
	};
	return Array.from({ length: BLOCKS }, (_, i) => {
		const [path, ...fields] = FIELDS[(first + i) % FIELDS.length]!;
		const lines: Fields = [[':authority', '127.0.0.1'], [':path', path![1]], ...fields];
		// Sets the table's size to zero and back, then `:method: GET` and `:scheme: https`.
		const prefix = i === 0 ? '\x20\x3f\xe1\x1f\x82\x87' : '\x82\x87';
		return prefix + lines.map(([name, value]) => coded([name.toLowerCase(), value])).join('');
	});
}

/** The plane of the unit tests, with a worker's parts instead of fakes. */
async function furnished(plane: Plane): Promise<Plane> {
	const { Endpoint } = await use('packages/proxy/src/data/upstream/endpoint.ts');
	const { transportsOf } = await use('packages/proxy/src/data/upstream/transport.ts');
	const { Upstream } = await use('packages/proxy/src/data/upstream/upstream.ts');
	const { DEFAULT_BALANCING } = await use('packages/proxy/src/gates/balancing/settings.ts');
	const { UpstreamLoad } = await use('packages/proxy/src/memory/upstream-load.ts');
	const { ReadQueue } = await use('packages/proxy/src/data/loop/paced-reads.ts');
	const { DispatchQueue } = await use('packages/proxy/src/data/loop/dispatch-queue.ts');
	const { RouteTable } = await use('packages/proxy/src/gates/routes.ts');
	const { TokenCache } = await use('packages/gate/src/gates/token-cache.ts');
	const { TenantLimiter } = await use('packages/gate/src/memory/limiter.ts');
	const { CLOSED } = await use('packages/proxy/src/gates/breaker.ts');
	const { rateOf } = await use('packages/gate/src/identity/quotas.ts');
	const { BreakerCell } = await use('packages/proxy/src/memory/breaker-cell.ts');
	const { BucketCounts } = await use('packages/proxy/src/memory/bucket-counts.ts');
	const { RouteStats } = await use('packages/proxy/src/memory/route-stats.ts');
	const { UpstreamStats } = await use('packages/proxy/src/memory/upstream-stats.ts');
	const clock = { now: () => performance.now(), wallSeconds: () => Date.now() / 1000 };
	const layout = {
		bounds: [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10],
		exemplars: false,
	};
	const buckets = () => BucketCounts.view(layout, BucketCounts.allocate(layout, 1), 0);
	const cache = new TokenCache();
	for (const [i, token] of TOKENS.entries()) {
		cache.add(token, {
			tenant: `tenant-${i}`,
			tenantHeader: `x-proxy-tenant: tenant-${i}\r\n`,
			tenantKey: (BigInt(i + 1) * 0x9e37_79b9_7f4a_7c15n) & 0x7fff_ffff_ffff_ffffn,
			quota: { rate: rateOf({ rps: 1e6, burst: 1e6 }), slots: undefined },
			usableUntil: Number.POSITIVE_INFINITY,
		});
	}
	const authenticate = (authorization: string, now: number) => {
		plane.stats.count('tokenCache', 'hit');
		return cache.find(authorization, now);
	};
	Object.assign(plane, {
		clock,
		authenticator: { authenticate },
		histograms: { handshakes: buckets(), gates: buckets(), durationsOf: buckets },
		limiter: new TenantLimiter(TenantLimiter.allocate(new Uint8Array(32)), 0),
		reads: new ReadQueue(plane.turnEnd, clock),
		dispatches: new DispatchQueue(clock, plane.turnEnd),
	});
	const endpointAt = (host: string) => {
		const place = { states: BreakerCell.allocateStates(1), loads: UpstreamLoad.allocate(1, 0), at: 0 };
		const seed = {
			place,
			authority: `${host}:80`,
			host,
			port: 80,
			protocol: isHttp2Upstream ? 'h2' : 'http/1.1',
			idleTimeoutMs: 1e9,
			stats: UpstreamStats.allocate(),
			breaker: BreakerCell.allocate(0, CLOSED, place),
			connections: UpstreamLoad.allocate(1, 0),
		};
		const [transport] = transportsOf({ endpoints: [seed], upstreams: [{ endpoints: [0] }] }, () => undefined, clock);
		return new Endpoint(seed, 0, transport, plane);
	};
	const endpoints = Array.from({ length: addresses }, (_, i) => endpointAt(`192.0.2.${i + 2}`));
	const upstream = new Upstream({
		...DEFAULT_BALANCING,
		name: undefined,
		endpoints,
		weights: endpoints.map(() => 1),
		random: Math.random,
	});
	const stats = RouteStats.view(RouteStats.allocate(1), 0);
	const { requestLimits } = plane;
	plane.routes = new RouteTable([
		{ prefix: '/svc-a', trailers: true, cooldownMs: 1000, opening: {}, requestLimits, upstream, stats },
	]);
	return plane;
}
