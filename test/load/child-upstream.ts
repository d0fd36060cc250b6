import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { freePort } from '../fixtures/free-port.ts';
import { within } from '../fixtures/wait.ts';

/** An upstream in a separate process, which can be killed and restarted on its port: `node MODULE PORT`, which reports when it listens. */
export class ChildUpstream implements AsyncDisposable {
	readonly authority: string;
	readonly #module: string;
	readonly #port: string;
	#process: ChildProcess | undefined;

	private constructor(module: string, port: string) {
		this.#module = join(import.meta.dirname, module);
		this.#port = port;
		this.authority = `127.0.0.1:${port}`;
	}

	/** @param module a file of this folder. */
	static async start(module: string): Promise<ChildUpstream> {
		const child = new ChildUpstream(module, await freePort());
		await child.start();
		return child;
	}

	/** Resolves when it listens. */
	async start(): Promise<void> {
		this.#process = fork(this.#module, [this.#port]);
		await within(once(this.#process, 'message'), 'an upstream to listen');
	}

	signal(name: NodeJS.Signals): void {
		this.#process?.kill(name);
	}

	/** SIGKILL: requests in flight end where they are. */
	async kill(): Promise<void> {
		const child = this.#process;
		if (child === undefined) return;
		this.#process = undefined;
		const ended = once(child, 'exit');
		child.kill('SIGKILL');
		await ended;
	}

	[Symbol.asyncDispose](): Promise<void> {
		return this.kill();
	}
}
