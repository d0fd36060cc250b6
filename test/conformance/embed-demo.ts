/** The example service as a process of its own: `proxy embed-demo`, which `examples/embed` runs as well. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { resolve } from 'node:path';
import { AUDIENCE, ISSUER, testPki } from '../fixtures/pki.ts';
import { Changes, within } from '../fixtures/wait.ts';

const MAIN = resolve(import.meta.dirname, '../../src/main.ts');

export type EmbedEnvironment = Readonly<Record<string, string | undefined>>;

/** All that is required, and a free port. */
export async function goodEnvironment(): Promise<EmbedEnvironment> {
	const { server, caPath, publicKeyPath } = await testPki();
	return {
		EMBED_BIND: '127.0.0.1:0',
		EMBED_CERT: server.certPath,
		EMBED_KEY: server.keyPath,
		EMBED_CLIENT_CA: caPath,
		EMBED_JWT_PUB: publicKeyPath,
		EMBED_ISSUER: ISSUER,
		EMBED_AUDIENCE: AUDIENCE,
		EMBED_LOG_JSON: '1',
	};
}

export class EmbedDemo {
	stdout = '';
	stderr = '';
	port = 0;
	readonly #child: ChildProcess;
	readonly #exited: Promise<number | null>;
	readonly #changes = new Changes();

	constructor(env: EmbedEnvironment) {
		const { NODE_COMPILE_CACHE } = process.env;
		this.#child = spawn(process.execPath, [MAIN, 'embed-demo'], {
			env: { NODE_COMPILE_CACHE, ...env },
			stdio: ['ignore', 'pipe', 'pipe'],
		});
		this.#exited = once(this.#child, 'close').then(([code]) => code);
		this.#child.stdout!.setEncoding('utf8').on('data', (text) => {
			this.stdout += text;
			this.#changes.notify();
		});
		this.#child.stderr!.setEncoding('utf8').on('data', (text) => {
			this.stderr += text;
		});
		void this.#exited.then(() => this.#changes.notify());
	}

	/** The lines so far, read as JSON. */
	get records(): Record<string, unknown>[] {
		return this.stdout
			.split('\n')
			.slice(0, -1)
			.map((line) => JSON.parse(line));
	}

	/** The first record with this message, now or later. */
	record(message: string): Promise<Record<string, unknown>> {
		const found = () => this.records.find((record) => record.message === message);
		return this.#changes.until(found, () => `${message} in ${this.stdout}${this.stderr}`);
	}

	signal(signal: NodeJS.Signals): void {
		this.#child.kill(signal);
	}

	exitCode(): Promise<number | null> {
		return within(this.#exited, () => `the end of the service: ${this.stdout}${this.stderr}`);
	}

	async [Symbol.asyncDispose](): Promise<void> {
		this.#child.kill('SIGKILL');
		await this.#exited;
	}
}

/** Resolves once it listens. */
export async function startEmbedDemo(overrides: EmbedEnvironment = {}): Promise<EmbedDemo> {
	const demo = new EmbedDemo({ ...(await goodEnvironment()), ...overrides });
	demo.port = Number((await demo.record('listening')).port);
	return demo;
}
