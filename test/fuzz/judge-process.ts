/** Asks nghttp2 in a separate process, and restarts the process when it has died. */
import { type ChildProcess, fork } from 'node:child_process';
import { join } from 'node:path';
import type { ConnectionReading } from './client-judge.ts';
import type { AskedRequest } from './server-frames.ts';

export interface JudgeQuestion {
	readonly id: number;
	readonly requests: readonly AskedRequest[];
	/** One read each. */
	readonly pieces: readonly Uint8Array[];
}

interface Asked {
	readonly question: JudgeQuestion;
	readonly resolve: (reading: ConnectionReading) => void;
	readonly reject: (error: Error) => void;
	/** Judges that died on this input. */
	deaths: number;
}

export class JudgeProcess {
	readonly #asked = new Map<number, Asked>();
	#child: ChildProcess | undefined;
	#nextId = 0;

	/** @throws Error if several judges died on this input. */
	ask(requests: readonly AskedRequest[], pieces: readonly Buffer[]): Promise<ConnectionReading> {
		const { promise, resolve, reject } = Promise.withResolvers<ConnectionReading>();
		const id = this.#nextId++;
		const asked = { question: { id, requests, pieces }, resolve, reject, deaths: 0 };
		this.#asked.set(id, asked);
		this.#send(asked);
		return promise;
	}

	close(): void {
		this.#child?.disconnect();
		this.#child = undefined;
	}

	#send({ question }: Asked): void {
		this.#child ??= this.#start();
		this.#child.send(question);
	}

	#start(): ChildProcess {
		const child = fork(join(import.meta.dirname, 'client-judge-process.ts'), {
			execArgv: [],
			serialization: 'advanced',
			stdio: ['ignore', 'inherit', 'ignore', 'ipc'],
		});
		child.on('message', ({ id, reading }: { id: number; reading: ConnectionReading }) => {
			this.#asked.get(id)?.resolve(reading);
			this.#asked.delete(id);
		});
		child.on('error', () => {});
		child.on('exit', () => {
			if (this.#child === child) this.#child = undefined;
			for (const [id, asked] of this.#asked) {
				if (++asked.deaths < MAX_DEATHS) this.#send(asked);
				else if (this.#asked.delete(id)) asked.reject(new Error('nghttp2 dies over this input'));
			}
		});
		return child;
	}
}

/** Most deaths come from the collection of an earlier session, not from the current input. */
const MAX_DEATHS = 5;
