import type { Timers } from '../timers.ts';
import { failureOf, StoreFailure, type StoreFailureReason } from './failure.ts';

/** One connection to the store, to any of its servers; a library (`redis.ts`) or a test implements it. */
export interface StoreConnection {
	/**
	 * Sends one command.
	 *
	 * @param key one of its keys, which selects the node in a Cluster; `undefined` if any node can answer.
	 * @returns the answer as RESP2 has it: text, numbers, lists of these, null.
	 */
	send(key: string | undefined, args: readonly string[]): Promise<unknown>;
	/** Closes at once; calls in flight fail. */
	close(): void;
}

/**
 * @param abandoned aborts the attempt, and closes what it has opened.
 * @param onBroken called at most once, with the cause, when the connection is known to be unusable.
 */
export type OpenStore = (abandoned: AbortSignal, onBroken: (cause: unknown) => void) => Promise<StoreConnection>;

/** A script for the store, known to it by its SHA-1 (`EVALSHA`). */
export interface StoreScript {
	readonly text: string;
	readonly sha1: string;
}

interface StoreClientParts {
	readonly open: OpenStore;
	/** For one answer. */
	readonly timeoutMs: number;
	readonly timers: Timers;
	/** From 0 to 1. */
	readonly random: () => number;
}

/** The state of the store, as of the last call or the last attempt to connect. */
type StoreState =
	| { readonly type: 'starting' }
	| { readonly type: 'up' }
	| { readonly type: 'away'; readonly failure: StoreFailure };

/** Limit for a connection with TLS and credentials; an answer may have less. */
const CONNECT_MS = 2_000;
/** Upper bounds of the first and the longest pause, ms. Half of a pause is random, so that replicas do not reconnect together. */
const FIRST_PAUSE_MS = 100;
const LONGEST_PAUSE_MS = 2_000;
/** Limit of calls in flight. More would queue behind a slow store, and all would be too late. */
export const MAX_IN_FLIGHT = 256;

/**
 * A client of the store that never blocks: a call succeeds within its time limit or fails, and without a connection it fails at
 * once. The client reconnects with growing pauses.
 *
 * On a connection that lives on, a late answer could be taken for the answer to a later call. So a call without an answer in time
 * ends its connection, and with it all other calls on it. The effect of such a call at the store is unknown: callers must assume
 * the safe case.
 */
export class StoreClient {
	readonly counts: { success: number; readonly failures: Map<StoreFailureReason, number> } = {
		success: 0,
		failures: new Map(),
	};
	readonly #parts: StoreClientParts;
	#state: StoreState = { type: 'starting' };
	#connection: StoreConnection | undefined;
	#inFlight = new Set<(failure: StoreFailure) => void>();
	/** Attempts to connect since the last call that succeeded. */
	#attempts = 0;
	#abandon: AbortController | undefined;
	#cancelPause: () => void = () => {};
	#stopped = false;

	constructor(parts: StoreClientParts) {
		this.#parts = parts;
	}

	get state(): StoreState {
		return this.#state;
	}

	/** Begins to connect. Resolves when that has succeeded or failed once; never rejects. */
	start(): Promise<void> {
		return this.#connect();
	}

	/** Fails the calls in flight, and starts no more. */
	stop(): void {
		this.#stopped = true;
		this.#cancelPause();
		this.#abandon?.abort();
		this.#drop(new StoreFailure('unreachable'));
	}

	/**
	 * Runs a script, all of it or nothing.
	 *
	 * @param keys in a Cluster, all of one hash slot.
	 * @throws StoreFailure
	 */
	async run(script: StoreScript, keys: readonly string[], args: readonly string[]): Promise<unknown> {
		const rest = [String(keys.length), ...keys, ...args];
		return this.#counted(async () => {
			try {
				return await this.#send(keys[0], ['EVALSHA', script.sha1, ...rest]);
			} catch (error) {
				// It has been restarted or flushed, or this node has never seen the script.
				if (!(error instanceof Error && error.message.startsWith('NOSCRIPT'))) throw error;
				return await this.#send(keys[0], ['EVAL', script.text, ...rest]);
			}
		});
	}

	/** @throws StoreFailure */
	command(key: string, args: readonly string[]): Promise<unknown> {
		return this.#counted(() => this.#send(key, args));
	}

	/** Reports an answer that cannot be true, by its reader. */
	malformed(): StoreFailure {
		const failure = new StoreFailure('malformed');
		this.counts.success--;
		this.#failed(failure);
		return failure;
	}

	async #counted(call: () => Promise<unknown>): Promise<unknown> {
		try {
			const answer = await call();
			this.#succeeded();
			return answer;
		} catch (error) {
			const failure = failureOf(error);
			this.#failed(failure);
			throw failure;
		}
	}

	#send(key: string | undefined, args: readonly string[]): Promise<unknown> {
		const connection = this.#connection;
		if (connection === undefined) {
			return Promise.reject(this.#state.type === 'away' ? this.#state.failure : new StoreFailure('unreachable'));
		}
		if (this.#inFlight.size >= MAX_IN_FLIGHT) return Promise.reject(new StoreFailure('busy'));
		const { timers, timeoutMs } = this.#parts;
		return new Promise((resolve, reject) => {
			// A delayed event loop runs its timers before it reads sockets, so the answer may have arrived already: one more turn shows that.
			let cancel = timers.after(timeoutMs, () => {
				cancel = timers.after(0, () => this.#broken(connection, new StoreFailure('timeout')));
			});
			const end = () => {
				cancel();
				this.#inFlight.delete(fail);
			};
			const fail = (failure: unknown) => {
				end();
				reject(failure);
			};
			this.#inFlight.add(fail);
			connection.send(key, args).then((answer) => {
				end();
				resolve(answer);
			}, fail);
		});
	}

	#succeeded(): void {
		this.counts.success++;
		this.#attempts = 0;
		if (this.#state.type !== 'up') this.#state = { type: 'up' };
	}

	#failed(failure: StoreFailure): void {
		const { failures } = this.counts;
		failures.set(failure.reason, (failures.get(failure.reason) ?? 0) + 1);
		this.#away(failure);
		if (ENDS_CONNECTION.has(failure.reason) && this.#connection !== undefined) this.#broken(this.#connection, failure);
	}

	#away(failure: StoreFailure): void {
		this.#state = { type: 'away', failure };
	}

	/** Drops a connection that is no longer usable. */
	#broken(connection: StoreConnection, failure: StoreFailure): void {
		if (this.#connection !== connection) return;
		this.#drop(failure);
		this.#away(failure);
		this.#pause();
	}

	#drop(failure: StoreFailure): void {
		const connection = this.#connection;
		this.#connection = undefined;
		for (const fail of [...this.#inFlight]) fail(failure);
		connection?.close();
	}

	async #connect(): Promise<void> {
		const { open, timers } = this.#parts;
		const abandon = new AbortController();
		this.#abandon = abandon;
		this.#attempts++;
		const timeout = new StoreFailure('timeout');
		const cancel = timers.after(CONNECT_MS, () => abandon.abort(timeout));
		try {
			const given = Promise.withResolvers<never>();
			abandon.signal.addEventListener('abort', () => given.reject(abandon.signal.reason), { once: true });
			let early: StoreFailure | undefined;
			let connection: StoreConnection | undefined;
			const onBroken = (cause: unknown) => {
				early ??= failureOf(cause);
				if (connection !== undefined) this.#broken(connection, early);
			};
			connection = await Promise.race([open(abandon.signal, onBroken), given.promise]);
			if (early !== undefined || this.#stopped) {
				connection.close();
				throw early ?? new StoreFailure('unreachable');
			}
			this.#connection = connection;
		} catch (error) {
			if (this.#stopped) return;
			this.#away(failureOf(error));
			this.#pause();
		} finally {
			cancel();
		}
	}

	#pause(): void {
		if (this.#stopped) return;
		const { timers, random } = this.#parts;
		const longest = Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** Math.min(this.#attempts, 10));
		this.#cancelPause();
		this.#cancelPause = timers.after(longest * (0.5 + random() / 2), () => void this.#connect());
	}
}

/** A new connection may lead to another server, be given other credentials, or find it well again; the others end by themselves. */
const ENDS_CONNECTION: ReadonlySet<StoreFailureReason> = new Set([
	'unreachable',
	'tls',
	'timeout',
	'credentials',
	'read_only',
	'failing_over',
	'malformed',
]);
