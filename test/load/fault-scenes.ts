/**
 * Faults of a whole HTTP/2 upstream while clients echo unique bodies through it and WebSockets are open: it is killed, it is paused, it is
 * a TLS server that stops halfway, its clients cancel all calls. Each scene records what its clients saw. Clients of another upstream are
 * innocent: each must get its own bytes back.
 */
import { once } from 'node:events';
import { abortStream } from '../fixtures/abort-stream.ts';
import { type H2Connection, h2Connect } from '../fixtures/h2-client.ts';
import { ERROR_CODE } from '../fixtures/h2-frames.ts';
import { echo, type Http2Upstream, startHttp2Upstream } from '../fixtures/h2-upstream.ts';
import { testPki } from '../fixtures/pki.ts';
import { type BodyMode, type ProxyProcess, startProxy } from '../fixtures/proxy.ts';
import { until, within } from '../fixtures/wait.ts';
import { type OpenWebSocket, openWebSocket } from '../fixtures/web-socket-client.ts';
import { notAtRest } from './agreement.ts';
import { checkedBody, faultOfBody, SHORTEST_BODY } from './checked-body.ts';
import { ChildUpstream } from './child-upstream.ts';
import { HALF_OPEN, type HalfOpen, startHalfOpen } from './half-open-tls.ts';
import { complaints } from './leftovers.ts';
import { Random } from './random.ts';

interface SceneOptions {
	readonly mode: BodyMode;
	/** Number of cancelled calls. */
	readonly cancelled: number;
}

/** Result of one scene. */
export interface Scene {
	readonly name: string;
	/** What its clients saw: a status, or text. */
	readonly seen: ReadonlyMap<string, number>;
	/** Requests to the innocent upstream meanwhile. */
	readonly innocent: number;
	readonly breaches: readonly string[];
}

/** `upstream_timeout_secs` of the affected upstreams. A scene waits for a few timeouts; a busy machine still echoes well within one. */
const TIMEOUT_SECS = 2;
/** Concurrent requests of each kind. */
const AT_ONCE = 16;
const TUNNELS = 4;
/** A scene waits for this many outcomes of a kind before it goes on. */
const ENOUGH = 20;

export async function playScenes(options: SceneOptions): Promise<Scene[]> {
	await using stage = await SceneStage.start(options);
	return [
		await stage.scene('the upstream is killed', killed),
		await stage.scene('the upstream is paused', paused),
		...(await halfOpen(stage)),
		await stage.scene(`${options.cancelled} calls are cancelled`, (scene) => cancelled(scene, options.cancelled)),
	];
}

/** A running scene. */
interface SceneRun {
	readonly stage: SceneStage;
	readonly child: ChildUpstream;
	readonly seen: Map<string, number>;
	readonly breaches: string[];
	/** Sends echoes until `isOver`, several at once. */
	send(path: string, isOver: () => boolean): Promise<void>;
}

async function killed({ stage, child, seen, breaches, send }: SceneRun): Promise<void> {
	const tunnels = await openTunnels(stage);
	let isOver = false;
	const sending = send('/child', () => isOver);
	await until(() => (seen.get('whole') ?? 0) >= ENOUGH, 'answers before it is killed');
	await child.kill();
	await until(() => (seen.get('503') ?? 0) >= ENOUGH, 'refusals while it is gone');
	for (const tunnel of tunnels) {
		const code = await within(tunnel.closed, 'the end of a WebSocket');
		if (code !== 1011) breaches.push(`a WebSocket to a killed upstream ended with ${code}`);
		await tunnel[Symbol.asyncDispose]();
	}
	await child.start();
	const before = seen.get('whole') ?? 0;
	await until(() => (seen.get('whole') ?? 0) >= before + ENOUGH, 'answers of the one that has come back');
	isOver = true;
	await sending;
}

async function paused({ stage, child, seen, breaches, send }: SceneRun): Promise<void> {
	const tunnels = await openTunnels(stage);
	let isOver = false;
	const sending = send('/child', () => isOver);
	await until(() => (seen.get('whole') ?? 0) >= ENOUGH, 'answers before it is paused');
	child.signal('SIGSTOP');
	await until(() => (seen.get('504') ?? 0) > 0 && (seen.get('503') ?? 0) >= ENOUGH, 'timeouts and refusals');
	for (const [i, tunnel] of tunnels.entries()) tunnel.ws.send(`behind the pause ${i}`);
	child.signal('SIGCONT');
	for (const [i, tunnel] of tunnels.entries()) {
		const text = await tunnel.text();
		if (text !== `behind the pause ${i}`) breaches.push(`a WebSocket got ${text}`);
		await tunnel[Symbol.asyncDispose]();
	}
	const before = seen.get('whole') ?? 0;
	await until(() => (seen.get('whole') ?? 0) >= before + ENOUGH, 'answers of the one that goes on');
	isOver = true;
	await sending;
}

/** One scene for each way in which a TLS server stops halfway. */
async function halfOpen(stage: SceneStage): Promise<Scene[]> {
	const scenes: Scene[] = [];
	for (const [i, { kind }] of stage.halfOpen.entries()) {
		const run = async ({ seen, breaches, send }: SceneRun) => {
			let isOver = false;
			const sending = send(`/half-open-${i}`, () => isOver);
			await until(() => [...seen.values()].reduce((sum, count) => sum + count, 0) >= ENOUGH, 'answers');
			isOver = true;
			await sending;
			if (seen.has('whole')) breaches.push('an answer that nobody has sent');
		};
		scenes.push(await stage.scene(kind.name, run));
	}
	return scenes;
}

/** Cancels calls at any point: before the upstream has them, while it works, within their bodies. */
async function cancelled({ stage, seen, breaches }: SceneRun, count: number): Promise<void> {
	const token = (await testPki()).token('tenant-1');
	const transitions = () => stage.proxy.metric('proxy_circuit_transitions_total');
	const before = await transitions();
	let left = count;
	// The proxy treats a client that resets a thousand streams at once as an attacker, and closes its connection.
	const worker = async (seed: number) => {
		const random = new Random(seed);
		while (left > 0) {
			await using connection = await h2Connect(stage.proxy);
			for (let own = 0; own < 500 && left-- > 0; own++) await cancelOne(connection, random, token, seen);
		}
	};
	await Promise.all(Array.from({ length: AT_ONCE }, (_, i) => worker(i)));
	const after = await transitions();
	if (after !== before) breaches.push(`${after - before} transitions of breakers by clients that cancel`);
}

async function cancelOne({ session }: H2Connection, random: Random, token: string, seen: Map<string, number>) {
	const path = `/cancelled/${random.pick(['quick', 'never'])}`;
	const stream = session.request({
		...{ ':method': 'POST', ':path': path, ':authority': 'localhost', authorization: `Bearer ${token}` },
		...{ 'content-type': 'application/grpc', te: 'trailers' },
	});
	stream.on('error', () => {});
	const closed = once(stream, 'close');
	const body = Buffer.alloc(random.between(1, 40_000), 'x');
	stream.write(body);
	const isWhole = random.chance(0.5);
	if (isWhole) stream.end();
	let answered = false;
	stream.on('end', () => {
		answered = true;
	});
	stream.resume();
	const cancel = () => abortStream(stream, ERROR_CODE.CANCEL);
	const point = random.between(0, 3);
	if (point === 0) cancel();
	else if (point === 1) setImmediate(cancel);
	else setTimeout(cancel, random.between(0, 4));
	await within(closed, 'the end of a cancelled call');
	count(seen, answered && stream.rstCode === 0 ? 'answered before' : 'cancelled');
}

function count(seen: Map<string, number>, what: string): void {
	seen.set(what, (seen.get(what) ?? 0) + 1);
}

async function openTunnels(stage: SceneStage): Promise<OpenWebSocket[]> {
	return await Promise.all(
		Array.from({ length: TUNNELS }, (_, i) =>
			openWebSocket(i % 2 === 0 ? 'h1' : 'h2', stage.proxy, { path: '/child' }),
		),
	);
}

class SceneStage implements AsyncDisposable {
	readonly proxy: ProxyProcess;
	readonly child: ChildUpstream;
	/** Each has its own breaker. */
	readonly halfOpen: readonly HalfOpen[];
	readonly #calm: Http2Upstream;
	readonly #mode: BodyMode;
	#number = 0;

	private constructor(
		proxy: ProxyProcess,
		child: ChildUpstream,
		halfOpen: readonly HalfOpen[],
		calm: Http2Upstream,
		mode: BodyMode,
	) {
		this.proxy = proxy;
		this.child = child;
		this.halfOpen = halfOpen;
		this.#calm = calm;
		this.#mode = mode;
	}

	static async start({ mode }: SceneOptions): Promise<SceneStage> {
		const [child, half, calm, pki] = await Promise.all([
			ChildUpstream.start('fault-child.ts'),
			Promise.all(HALF_OPEN.map(startHalfOpen)),
			startHttp2Upstream({ script: echo }),
			testPki(),
		]);
		const bounded = { upstream_timeout_secs: TIMEOUT_SECS };
		const proxy = await startProxy({
			boxedBody: mode === 'streaming',
			// `notAtRest` counts idle connections, too.
			config: { health_interval_secs: 0.05, default_cooldown_secs: 1, tenant_rps: 0, upstream_idle_timeout_secs: 1 },
			upstreams: half.map(({ authority }, i) => ({
				...{
					name: `half-open-${i}`,
					addresses: [authority],
					protocol: 'h2',
					health: false,
					tls: { ca_path: pki.caPath },
				},
			})),
			routes: [
				{ prefix: '/child', upstream: `h2c://${child.authority}`, websocket: true, ...bounded },
				// Only the client may end these calls, however slow the machine is: a timeout would count as a failure.
				{ prefix: '/cancelled', upstream: `h2c://${child.authority}`, upstream_timeout_secs: 600 },
				...half.map((_, i) => ({ prefix: `/half-open-${i}`, upstream: `half-open-${i}`, ...bounded })),
				{ prefix: '/calm', upstream: `h2c://${calm.authority}` },
			],
		});
		return new SceneStage(proxy, child, half, calm, mode);
	}

	async scene(name: string, play: (run: SceneRun) => Promise<void>): Promise<Scene> {
		const { child } = this;
		const seen = new Map<string, number>();
		const breaches: string[] = [];
		const innocents = new Map<string, number>();
		const isUp = async () => (await this.proxy.metric('proxy_circuit_state', { upstream: child.authority })) === 0;
		await until(isUp, 'the breaker to close');
		let isOver = false;
		const send = (path: string, over: () => boolean) => this.#send(path, over, seen, breaches);
		const others = this.#send('/calm', () => isOver, innocents, breaches);
		try {
			await play({ stage: this, child, seen, breaches, send });
		} catch (error) {
			breaches.push((error as Error).message);
		}
		isOver = true;
		await others;
		const innocent = innocents.get('whole') ?? 0;
		for (const [what, number] of innocents)
			if (what !== 'whole') breaches.push(`${number} innocent clients got ${what}`);
		breaches.push(...(await this.#left()));
		return { name, seen, innocent, breaches: [...new Set(breaches)] };
	}

	async #send(path: string, isOver: () => boolean, seen: Map<string, number>, breaches: string[]): Promise<void> {
		const connections = await Promise.all(Array.from({ length: 2 }, () => h2Connect(this.proxy)));
		const one = async (connection: H2Connection) => {
			while (!isOver()) {
				const number = this.#number++;
				const owner = { number, id: `scene-${number}`, tenant: `tenant-${number % 7}` };
				const body = checkedBody('up', owner, new Random(number).between(SHORTEST_BODY, 50_000));
				const token = (await testPki()).token(owner.tenant);
				const answer = await connection.request({ method: 'POST', path: `${path}/${owner.id}`, body, token });
				const { status, ended, text } = answer;
				const fault = status === 200 && ended === 'complete' ? faultOfBody(answer.body, 'up', owner) : undefined;
				if (fault !== undefined) breaches.push(`${path} got ${fault}`);
				if (ended !== 'complete') count(seen, 'broken off');
				else count(seen, status === 200 ? 'whole' : String(status));
				if (ended !== 'complete' && this.#mode === 'collected')
					breaches.push(`${path} was broken off, though it is read whole`);
				if (ended === 'complete' && status !== 200 && OWN[status] !== text)
					breaches.push(`${path} got ${status} ${text}`);
			}
		};
		await Promise.all(connections.flatMap((connection) => Array.from({ length: AT_ONCE / 2 }, () => one(connection))));
		for (const connection of connections) await connection.close();
	}

	/** What is left after all clients have gone. */
	async #left(): Promise<string[]> {
		let left = ['the gauges could not be read'];
		const isAtRest = async () => {
			left = notAtRest(await this.proxy.metrics());
			return left.length === 0;
		};
		await until(isAtRest, 'everything to be at rest').catch(() => {});
		return [...left, ...complaints(this.proxy)];
	}

	async [Symbol.asyncDispose](): Promise<void> {
		await this.proxy.kill();
		await this.child.kill();
		for (const one of this.halfOpen) await one.stop();
		await this.#calm.stop();
	}
}

const OWN: Readonly<Record<number, string>> = {
	502: 'bad gateway',
	503: 'upstream unavailable',
	504: 'upstream timeout',
};
