import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { freePort } from '../fixtures/free-port.ts';
import { within } from '../fixtures/wait.ts';

/** The addresses of one upstream: one process each, which can be killed and restarted on its port. */
export class FleetUpstreams implements AsyncDisposable {
	readonly #ports: readonly string[];
	readonly #processes: (ChildProcess | undefined)[];

	static async start(count: number): Promise<FleetUpstreams> {
		const ports: string[] = [];
		for (let i = 0; i < count; i++) ports.push(await freePort());
		const upstreams = new FleetUpstreams(ports);
		await Promise.all(ports.map((_, i) => upstreams.start(i)));
		return upstreams;
	}

	private constructor(ports: readonly string[]) {
		this.#ports = ports;
		this.#processes = ports.map(() => undefined);
	}

	get addresses(): readonly string[] {
		return this.#ports.map((port) => `127.0.0.1:${port}`);
	}

	/** Resolves when it listens. */
	async start(index: number): Promise<void> {
		const child = fork(new URL('./fleet-upstream.ts', import.meta.url), [this.#ports[index]!]);
		this.#processes[index] = child;
		await within(once(child, 'message'), 'an upstream to listen');
	}

	/** SIGKILL: requests in flight end where they are. */
	async kill(index: number): Promise<void> {
		const child = this.#processes[index];
		if (child === undefined) return;
		this.#processes[index] = undefined;
		const gone = once(child, 'exit');
		child.kill('SIGKILL');
		await gone;
	}

	async [Symbol.asyncDispose](): Promise<void> {
		await Promise.all(this.#ports.map((_, i) => this.kill(i)));
	}
}
