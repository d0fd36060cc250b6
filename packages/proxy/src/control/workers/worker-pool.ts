import type { Clock } from '@mtls-edge-proxy/gate/shared/clock.ts';
import type { Logger, LogRecord } from '@mtls-edge-proxy/gate/shared/log.ts';
import type { FromWorker, ToWorker } from '../../shared/messages.ts';
import type { SpanRecord } from '../../shared/span-record.ts';
import type { LogOutput } from '../log-output.ts';
import { StartError } from '../start-error.ts';
import type { Timers } from '../timers.ts';
import { Ballot, objection } from './ballot.ts';

/** The part of `node:worker_threads.Worker` that the pool uses. */
export interface WorkerThread {
	postMessage(message: ToWorker): void;
	terminate(): Promise<number>;
	on(event: 'message', listener: (message: FromWorker) => void): unknown;
	on(event: 'error', listener: (error: unknown) => void): unknown;
	on(event: 'exit', listener: (code: number) => void): unknown;
}

interface PoolParts {
	/** Number of workers, at least 1. */
	readonly size: number;
	/** The port to listen on; 0 lets the first worker choose for all. */
	readonly port: number;
	/** Creates a thread with the current configuration. */
	readonly spawn: (worker: number, port: number) => WorkerThread;
	readonly listenProblem: (error: { readonly code: string; readonly message: string }) => string;
	readonly onUnknownKey: (issuer: string) => void;
	/** Called after a thread has ended: releases what it held in shared memory. */
	readonly reclaim: (worker: number) => void;
	readonly log: Logger;
	/** Writes records of the workers, which have already filtered them. */
	readonly writeRecord: (record: LogRecord) => void;
	/** Writes lines of their access logs, and calls back when they are written. */
	readonly writeLines: LogOutput['writeLines'];
	/** Exports spans of sampled requests, and calls back with the number of spans that are done. */
	readonly exportSpans: (spans: readonly SpanRecord[], onDone: (count: number) => void) => void;
	readonly timers: Timers;
	readonly clock: Clock;
}

/** Limit from spawn to `listening`. */
const START_LIMIT_MS = 30_000;
/** Limit for an answer to `prepare-*` or `commit`. */
const ANSWER_LIMIT_MS = 10_000;
/** Limit for a worker to close its listener; a stuck one must not hold up the drain of the others. */
const CLOSE_LIMIT_MS = 2_000;
/** A worker that lives for less than this died at once, ms: the cause may kill its replacement as well. */
const QUICK_DEATH_MS = 10_000;
const FIRST_PAUSE_MS = 100;
const LONGEST_PAUSE_MS = 5_000;

const TARGET = 'proxy::worker';

/** Hundreds of simultaneous starts would leave this thread no time for signals. */
const STARTS_AT_ONCE = 8;

/**
 * Starts, asks and drains the worker threads, and replaces those that die. A worker keeps its index, and with it its
 * regions in shared memory, across all threads that take its place.
 */
export class WorkerPool {
	readonly #parts: PoolParts;
	readonly #slots: readonly Slot[];
	#port: number;
	#phase: 'starting' | 'serving' | 'draining' = 'starting';
	#nextId = 1;
	/** The current question, by the id of its messages. */
	#ballot: { readonly id: number; readonly ballot: Ballot } | undefined;
	/** No thread is started while all workers switch: it would begin with the old state. */
	#switching = false;
	/** The workers that have closed their listeners, after the order to close. */
	#closing: Ballot | undefined;
	#onDrained: (() => void) | undefined;

	constructor(parts: PoolParts) {
		this.#parts = parts;
		this.#port = parts.port;
		this.#slots = Array.from({ length: parts.size }, (_, index) => new Slot(index));
	}

	/** Workers that accept connections. */
	get listening(): number {
		return this.#slots.filter((slot) => slot.listening).length;
	}

	/**
	 * Starts all workers. The first one starts by itself, because it determines the port (and so that an unusable address is
	 * reported once). A drain ends the start early.
	 *
	 * @returns the port they listen on.
	 * @throws StartError if one of them cannot listen.
	 */
	async start(): Promise<number> {
		try {
			await this.#launchAll();
		} catch (error) {
			if (this.#phase === 'starting') throw error;
		}
		if (this.#phase !== 'starting') return this.#port;
		this.#phase = 'serving';
		// One of the first may have died while the last was still starting.
		for (const slot of this.#slots) if (slot.thread === undefined) this.#replace(slot);
		return this.#port;
	}

	async #launchAll(): Promise<void> {
		const [first, ...others] = this.#slots;
		await this.#launch(first!);
		const left = others.values();
		const some = async () => {
			for (const slot of left) {
				if (this.#phase !== 'starting') return;
				await this.#launch(slot);
			}
		};
		await Promise.all(Array.from({ length: STARTS_AT_ONCE }, some));
	}

	/**
	 * Switches all workers to a new state, or none (see `messages.ts`). The reconciler makes only one switch at a time.
	 *
	 * @param message what each worker is asked to prepare.
	 * @param commit all are prepared: from here on it is in force, also for threads yet to be started.
	 * @throws Error naming the worker that refused, died or did not answer; nothing has changed then.
	 */
	async switchAll(message: (worker: number, id: number) => ToWorker, commit: () => void): Promise<void> {
		const id = this.#nextId++;
		this.#switching = true;
		try {
			const refusal = objection(await this.#ask(id, (worker) => message(worker, id)), ANSWER_LIMIT_MS);
			if (refusal !== undefined) {
				this.#tell({ type: 'discard', id });
				throw new Error(refusal);
			}
			commit();
			const missing = objection(await this.#ask(id, () => ({ type: 'commit', id })), ANSWER_LIMIT_MS);
			// It cannot refuse and the message waits for it, so it will switch; and one that died is replaced anyway.
			if (missing !== undefined) this.#parts.log.warn(TARGET, 'a worker has not confirmed yet', { cause: missing });
		} finally {
			this.#switching = false;
			for (const slot of this.#slots) if (slot.due) this.#replace(slot);
		}
	}

	/** Lets all workers finish their work; resolves when they have, or have died. None is replaced any more. */
	async drain(): Promise<void> {
		// Those that are still starting have no connections.
		for (const slot of this.#slots) if (this.#phase === 'starting' && !slot.listening) void slot.thread?.terminate();
		this.#phase = 'draining';
		// A client that is told to leave connects anew at once. All listeners are closed by then, so that it is refused
		// in order, instead of meeting one that is just closing.
		this.#closing = this.#ballotOf(this.#alive, CLOSE_LIMIT_MS);
		this.#tell({ type: 'stop-accepting' });
		await this.#closing.result;
		const { promise, resolve } = Promise.withResolvers<void>();
		this.#onDrained = resolve;
		this.#tell({ type: 'drain' });
		this.#checkDrained();
		return promise;
	}

	/** Has the workers end the requests that are left; `drain` resolves then. */
	cut(): void {
		this.#tell({ type: 'cut' });
	}

	#launch(slot: Slot): Promise<void> {
		const { promise, resolve, reject } = Promise.withResolvers<void>();
		slot.started = { resolve, reject };
		this.#spawn(slot);
		return promise;
	}

	#spawn(slot: Slot): void {
		const { spawn, timers, clock } = this.#parts;
		const worker = slot.index;
		slot.begin(clock.now());
		let thread: WorkerThread;
		try {
			thread = spawn(worker, this.#port);
		} catch (error) {
			// The system cannot create a thread: the others go on, and this one is tried again.
			slot.cause = (error as Error).message;
			return this.#ended(slot, undefined);
		}
		slot.thread = thread;
		slot.onSpansDone = (count) => thread.postMessage({ type: 'spans-done', count });
		slot.cancelLimit = timers.after(START_LIMIT_MS, () => {
			this.#failed(slot, `worker ${worker} did not start within ${START_LIMIT_MS / 1000} s`);
		});
		thread.on('message', (message) => this.#receive(slot, thread, message));
		thread.on('error', (error) => this.#threw(slot, error));
		thread.on('exit', (code) => this.#ended(slot, code));
	}

	#receive(slot: Slot, thread: WorkerThread, message: FromWorker): void {
		switch (message.type) {
			case 'log':
				return this.#parts.writeRecord(message.record);
			case 'access-lines':
				return this.#parts.writeLines(message.lines, message.dropped, () => {
					thread.postMessage({ type: 'access-lines-written', bytes: message.lines.length });
				});
			case 'spans':
				return this.#parts.exportSpans(message.spans, slot.onSpansDone);
			case 'unknown-key':
				return this.#parts.onUnknownKey(message.issuer);
			case 'listening':
				return this.#listens(slot, message.port);
			case 'listen-failed':
				return this.#failed(slot, this.#parts.listenProblem(message));
			case 'prepared':
			case 'committed':
				if (this.#ballot?.id === message.id) this.#ballot.ballot.cast(slot.index, { type: 'yes' });
				return;
			case 'refused':
				if (this.#ballot?.id === message.id)
					this.#ballot.ballot.cast(slot.index, { type: 'no', cause: message.message });
				return;
			case 'closed':
				slot.listening = false;
				return this.#closing?.cast(slot.index, { type: 'yes' });
			case 'drained':
				slot.drained = true;
				return this.#checkDrained();
		}
	}

	#listens(slot: Slot, port: number): void {
		slot.cancelLimit();
		slot.listening = true;
		this.#port = port;
		slot.started?.resolve();
		if (this.#phase !== 'starting') this.#parts.log.info(TARGET, 'worker replaced', { worker: slot.index });
	}

	/** An uncaught error in a worker; its end follows. */
	#threw(slot: Slot, error: unknown): void {
		const { message, stack } = error instanceof Error ? error : { message: String(error), stack: undefined };
		slot.cause = message;
		this.#parts.log.error(TARGET, 'worker failed', { worker: slot.index, cause: message, stack });
	}

	/** Terminates a useless thread; the handler of its end does the rest. */
	#failed(slot: Slot, cause: string): void {
		slot.cancelLimit();
		slot.cause = cause;
		slot.started?.reject(new StartError(cause));
		void slot.thread?.terminate();
	}

	#ended(slot: Slot, exitCode: number | undefined): void {
		const { reclaim, log, clock, timers } = this.#parts;
		const worker = slot.index;
		const livedMs = slot.end(clock.now());
		reclaim(worker);
		this.#ballot?.ballot.cast(worker, { type: 'gone' });
		this.#closing?.cast(worker, { type: 'gone' });
		slot.started?.reject(
			new StartError(`worker ${worker} ended while starting: ${slot.cause ?? `exit code ${exitCode}`}`),
		);
		if (this.#phase === 'draining') return this.#checkDrained();
		if (this.#phase === 'starting') return;
		slot.quickDeaths = livedMs < QUICK_DEATH_MS ? slot.quickDeaths + 1 : 0;
		const pauseMs = pauseBeforeReplacement(slot.quickDeaths);
		log.error(TARGET, 'worker died; replacing it', {
			worker,
			cause: slot.cause,
			exit_code: exitCode,
			lived_ms: Math.round(livedMs),
			pause_ms: pauseMs,
		});
		timers.after(pauseMs, () => this.#replace(slot));
	}

	#replace(slot: Slot): void {
		slot.due = this.#switching;
		if (this.#phase === 'serving' && !this.#switching) this.#spawn(slot);
	}

	#ask(id: number, messageFor: (worker: number) => ToWorker) {
		const alive = this.#alive;
		const ballot = this.#ballotOf(alive, ANSWER_LIMIT_MS);
		this.#ballot = { id, ballot };
		for (const slot of alive) slot.thread?.postMessage(messageFor(slot.index));
		return ballot.result;
	}

	get #alive(): Slot[] {
		return this.#slots.filter((slot) => slot.thread !== undefined);
	}

	#ballotOf(voters: readonly Slot[], limitMs: number): Ballot {
		return new Ballot(
			voters.map((slot) => slot.index),
			limitMs,
			this.#parts.timers,
		);
	}

	#tell(message: ToWorker): void {
		for (const { thread } of this.#slots) thread?.postMessage(message);
	}

	#checkDrained(): void {
		if (this.#slots.every((slot) => slot.thread === undefined || slot.drained)) this.#onDrained?.();
	}
}

/** One worker: its present thread, and the history of its threads. */
class Slot {
	readonly index: number;
	/** `undefined` between two threads. */
	thread: WorkerThread | undefined;
	listening = false;
	drained = false;
	/** Needs a new thread as soon as no switch is under way. */
	due = false;
	/** Consecutive threads that died at once. */
	quickDeaths = 0;
	/** Why the present thread is about to end, if it has said so. */
	cause: string | undefined;
	/** The caller that waits for the first round of threads. */
	started: { resolve: () => void; reject: (error: Error) => void } | undefined;
	cancelLimit: () => void = () => {};
	/** Tells the present thread how many of its spans are done. */
	onSpansDone: (count: number) => void = () => {};
	#since = 0;

	constructor(index: number) {
		this.index = index;
	}

	begin(now: number): void {
		this.cause = undefined;
		this.#since = now;
	}

	/** @returns how long the thread lived, in ms. */
	end(now: number): number {
		this.cancelLimit();
		this.thread = undefined;
		this.listening = false;
		return now - this.#since;
	}
}

/** Milliseconds. The first replacement is immediate: one death means nothing yet. */
function pauseBeforeReplacement(quickDeaths: number): number {
	if (quickDeaths <= 1) return 0;
	return Math.min(FIRST_PAUSE_MS * 2 ** (quickDeaths - 2), LONGEST_PAUSE_MS);
}
