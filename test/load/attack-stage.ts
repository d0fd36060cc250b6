/** The stage of an attack: a proxy with one worker, victims and attackers in separate processes, and each process pinned to a core. */
import { type ChildProcess, execFileSync, fork } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { availableParallelism, constants, setPriority } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { request } from '../fixtures/clients.ts';
import { INSPECTABLE, WorkerInspector } from '../fixtures/inspect-workers.ts';
import { type ClientCert, type TestPki, temporaryFolder, testPki } from '../fixtures/pki.ts';
import { cpuSeconds, HAS_PROC, stolenMs, waitedForCoreMs } from '../fixtures/proc.ts';
import { type ProxyProcess, startProxy } from '../fixtures/proxy.ts';
import { until, within } from '../fixtures/wait.ts';
import type { AttackOrder, Served } from './attack-attackers.ts';
import type { Credentials } from './attack-credentials.ts';
import type { VictimsOrder, Window } from './attack-victims.ts';
import type { Attack } from './attacks.ts';
import { GIVES_MEMORY_BACK, type ProcessLeft, processLeft } from './leftovers.ts';

export interface StageOptions {
	readonly mode: 'collected' | 'streaming';
	/** How long the victims' upstream waits before it responds, ms. */
	readonly thinkMs: number;
	readonly certificate: 'own' | 'victims';
}

/** Figures of one attack. */
export interface Seen {
	readonly window: Window;
	/** CPU use of the proxy while victims were measured, in cores. */
	readonly cpu: number;
	/** Highest resident memory, bytes. */
	readonly peak: number;
	/** What the attackers received, by first line, and how many KiB they sent. */
	readonly got: Readonly<Record<string, number>>;
	/** Time during which the machine did not run us, ms: stolen by the hypervisor, or spent with work but without a core. */
	readonly stolen: number;
	readonly waited: { readonly proxy: number; readonly victims: number; readonly upstream: number };
}

export const VICTIMS_PER_SECOND = 300;
/** Connections of `attack-victims.ts`. */
const VICTIM_CONNECTIONS = 20;
/** `max_buffered_bytes`: less than the attackers try to hold, so that the limit is tested. */
export const BUDGET_BYTES = 128 * 2 ** 20;
/** Length of one check whether victims are well again, ms. */
const LOOK_MS = 250;
const LOOKS = 20;

export class Stage {
	readonly proxy: ProxyProcess;
	/** Which process runs on which core, as text. */
	readonly cores: string;
	readonly #victims: ChildProcess;
	readonly #attackers: ChildProcess;
	readonly #inspector: WorkerInspector;
	readonly #credentials: Credentials;
	readonly #close: () => Promise<void>;

	private constructor(
		proxy: ProxyProcess,
		victims: ChildProcess,
		attackers: ChildProcess,
		inspector: WorkerInspector,
		credentials: Credentials,
		close: () => Promise<void>,
	) {
		this.proxy = proxy;
		this.#victims = victims;
		this.#attackers = attackers;
		this.#inspector = inspector;
		this.#credentials = credentials;
		this.#close = close;
		this.cores =
			separateCores(proxy.pid, [process.pid, victims.pid!, attackers.pid!]) +
			favour([proxy.pid, process.pid, victims.pid!], attackers.pid!);
	}

	/** Resolves after the victims have run for 5 s. Latency while code is still being compiled is not typical. */
	static async start({ mode, thinkMs, certificate }: StageOptions): Promise<Stage> {
		const upstream = createServer((request, response) => {
			setTimeout(() => response.end(request.url), thinkMs);
		});
		await new Promise<void>((resolve) => upstream.listen(0, '127.0.0.1', resolve));
		const victims = fork(join(import.meta.dirname, 'attack-victims.ts'));
		const attackers = fork(join(import.meta.dirname, 'attack-attackers.ts'));
		// If either process is missing, there is nothing to measure. Its message is on standard error.
		for (const child of [victims, attackers]) child.once('exit', (code) => code !== 0 && process.exit(1));
		const served = await ask<Served>(attackers, { serve: true });
		const proxy = await startProxy({
			workers: 1,
			boxedBody: mode === 'streaming',
			poisonsReads: false,
			routes: [
				{ prefix: '/victim', upstream: `http://127.0.0.1:${(upstream.address() as AddressInfo).port}` },
				{ prefix: '/', upstream: `http://127.0.0.1:${served.upstream}` },
				{ prefix: '/tunnel', upstream: `http://127.0.0.1:${served.upstream}`, websocket: true },
				{ prefix: '/grpc', upstream: `h2c://127.0.0.1:${served.calls}`, failures: 100, cooldown_secs: 1 },
				// Breakers must not act as a defence here.
				{ prefix: '/hostile', upstream: `h2c://127.0.0.1:${served.hostile}`, failures: 100, cooldown_secs: 1 },
				{
					prefix: '/hostile-http1',
					upstream: `http://127.0.0.1:${served.hostileHttp1}`,
					failures: 100,
					cooldown_secs: 1,
				},
			],
			config: { tenant_rps: 0, health_interval_secs: 1 },
			limits: { max_buffered_bytes: BUDGET_BYTES },
			env: { ...INSPECTABLE, ...GIVES_MEMORY_BACK },
		});
		const inspector = await WorkerInspector.attach(proxy, 1);
		const pki = await testPki();
		const victim = credentialsOf(pki, proxy, pki.clients.valid);
		const credentials = certificate === 'own' ? credentialsOf(pki, proxy, await pki.issueClient()) : victim;
		const stage = new Stage(proxy, victims, attackers, inspector, credentials, async () => {
			inspector[Symbol.dispose]();
			victims.disconnect();
			attackers.disconnect();
			upstream.close();
			upstream.closeAllConnections();
			await proxy.kill();
		});
		await ask<Window>(victims, { start: victim, perSecond: VICTIMS_PER_SECOND });
		await stage.measure(5000);
		return stage;
	}

	/** Measures the victims for the given time, ms. Includes failures since the previous call. */
	measure(ms: number): Promise<Window> {
		return ask<Window>(this.#victims, { window: ms });
	}

	/** Starts the attack, waits until it is at full rate, and measures. Resolves after the attackers' connections are gone. */
	async attackFor({ name, rampMs }: Attack, ms: number): Promise<Seen> {
		const { pid } = this.proxy;
		let peak = 0;
		const watch = setInterval(() => {
			peak = Math.max(peak, processLeft(this.proxy).memory);
		}, 50);
		this.#attackers.send({ attack: name, credentials: this.#credentials } satisfies AttackOrder);
		await sleep(rampMs);
		const [at, cpu, stolen, waited] = [performance.now(), cpuSeconds(pid), stolenMs(), this.#waited()];
		const window = await this.measure(ms);
		const used = ((cpuSeconds(pid) - cpu) * 1000) / (performance.now() - at);
		const now = this.#waited();
		const absent = {
			stolen: stolenMs() - stolen,
			waited: {
				proxy: now.proxy - waited.proxy,
				victims: now.victims - waited.victims,
				upstream: now.upstream - waited.upstream,
			},
		};
		clearInterval(watch);
		const got = await ask<Record<string, number>>(this.#attackers, { stop: true });
		await this.connectionsGone();
		return { window, cpu: used, peak, got, ...absent };
	}

	#waited(): Seen['waited'] {
		return {
			proxy: waitedForCoreMs(this.proxy.pid),
			victims: waitedForCoreMs(this.#victims.pid!),
			upstream: waitedForCoreMs(process.pid),
		};
	}

	/** Waits until the victims' latency is usual again. @returns failures until then. @throws Error after 5 s. */
	async wellAgain(calm: Window): Promise<number> {
		let lost = 0;
		for (let i = 0; i < LOOKS; i++) {
			const { failed, p50 } = await this.measure(LOOK_MS);
			lost += failed;
			if (failed === 0 && p50 <= 2 * calm.p50) return lost;
		}
		throw new Error(`after ${(LOOKS * LOOK_MS) / 1000} s victims still wait; ${lost} were not served`);
	}

	/** Waits until only the victims' connections are left: the proxy first reads what attackers have sent, as their tokens allow. @throws Error */
	async connectionsGone(): Promise<void> {
		const gone = async () => (await this.proxy.metric('proxy_connections')) <= VICTIM_CONNECTIONS;
		await until(gone, "the attackers' connections to go", 100_000);
	}

	/** Memory and descriptors of the process after its worker has collected garbage. */
	async lookInside(): Promise<ProcessLeft & { readonly live: number }> {
		const file = join(temporaryFolder('attack'), 'memory.json');
		this.#inspector.run(0, memoryTo(file));
		const text = await until(
			() => (existsSync(file) ? readFileSync(file, 'utf8') : ''),
			'the worker to look at its memory',
		);
		const { heapUsed, arrayBuffers } = JSON.parse(text);
		return { ...processLeft(this.proxy), live: heapUsed + arrayBuffers };
	}

	/** Sends as many bodies at once as fit into the budget, each of another tenant. @returns statuses other than 200. */
	async postBodies(): Promise<number[]> {
		const body = Buffer.alloc(8 * 2 ** 20);
		const post = (token: string) =>
			request('h1', this.proxy, { method: 'POST', path: '/whole', token, body, ms: 30_000 });
		const answers = await Promise.all(this.#credentials.tokens.slice(0, 8).map(post));
		return answers.map(({ status }) => status).filter((status) => status !== 200);
	}

	close(): Promise<void> {
		return this.#close();
	}
}

/** Runs in the worker. The file appears complete, by a rename. */
function memoryTo(file: string): string {
	return `
		process.getBuiltinModule('node:v8').setFlagsFromString('--expose-gc');
		const collect = process.getBuiltinModule('node:vm').runInNewContext('gc');
		collect();
		collect();
		const { writeFileSync, renameSync } = process.getBuiltinModule('node:fs');
		writeFileSync(${JSON.stringify(`${file}.part`)}, JSON.stringify(process.memoryUsage()));
		renameSync(${JSON.stringify(`${file}.part`)}, ${JSON.stringify(file)});`;
}

function ask<T>(child: ChildProcess, order: VictimsOrder | AttackOrder): Promise<T> {
	const answer = new Promise<T>((resolve) => child.once('message', (message) => resolve(message as T)));
	child.send(order);
	return within(answer, `an answer to ${JSON.stringify(order).slice(0, 40)}`, 60_000);
}

/** @returns which process runs on which core, as text. */
function separateCores(proxy: number, others: readonly number[]): string {
	if (availableParallelism() < 2) return 'all on one core';
	try {
		const pin = (core: string, pid: number) => execFileSync('taskset', ['-a', '-c', '-p', core, String(pid)]);
		pin('0', proxy);
		for (const pid of others) pin('1', pid);
		return 'on a core of its own, clients and upstream on another';
	} catch {
		return 'cores shared as it comes';
	}
}

/**
 * Gives the measured processes priority over everything else on this machine; attackers keep the usual priority. Only root may do that.
 * No process gets a real-time priority. Threads of one such priority share a core in turns of 100 ms (`sched_rr_timeslice_ms`), so a
 * compiler or collector thread of V8 can stop its own event loop for that long. A run with a higher priority for the event loop did not end.
 * The kernel also stops real-time threads for a twentieth of each second in which they use up a core.
 *
 * @returns whether it succeeded, as text.
 */
function favour(measured: readonly number[], attackers: number): string {
	try {
		for (const pid of measured) setThreads(pid, constants.priority.PRIORITY_HIGHEST);
		setThreads(attackers, constants.priority.PRIORITY_NORMAL);
		return ', before all neighbours';
	} catch {
		setThreads(attackers, constants.priority.PRIORITY_BELOW_NORMAL);
		return '';
	}
}

/** On Linux each thread has its own priority; a new thread inherits that of its creator. */
function setThreads(pid: number, priority: number): void {
	for (const thread of HAS_PROC ? readdirSync(`/proc/${pid}/task`) : [pid]) setPriority(Number(thread), priority);
}

function credentialsOf(pki: TestPki, { port }: ProxyProcess, { certPem, keyPem }: ClientCert): Credentials {
	const tokens = Array.from({ length: 50 }, (_, i) => pki.token(`tenant-${i}`));
	return { port, caPem: pki.ca.certPem, certPem, keyPem, tokens };
}
