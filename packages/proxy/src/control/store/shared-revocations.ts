import { NOTHING_REVOKED, type RevocationList } from '@mtls-edge-proxy/gate/identity/revocations.ts';
import type { LogFields, Logger } from '@mtls-edge-proxy/gate/shared/log.ts';
import type { RateLimitedLog } from '@mtls-edge-proxy/gate/shared/rate-limited-log.ts';
import type { TlsMaterial } from '../../shared/messages.ts';
import type { Timers } from '../timers.ts';
import type { StoreClient } from './client.ts';
import { failureOf, type StoreFailure } from './failure.ts';
import { mergeRevoked, RevocationLog } from './revocation-log.ts';

export interface SharedRevocationsParts {
	readonly client: Pick<StoreClient, 'command' | 'malformed'>;
	readonly prefix: string;
	/** The revocations have changed, and with them the result of `withShared`. */
	readonly onChange: () => void;
	readonly timers: Timers;
	readonly log: Logger;
	/** For messages that anybody could cause without end by writing into the store. */
	readonly limitedLog: RateLimitedLog;
}

/** Interval at which the store is asked for new entries, ms; with the round trip and the workers' round it is well within a second. */
export const POLL_MS = 400;
/** Entries of one read. */
const PAGE = 1_000;
const TARGET = 'proxy::limiter';

/**
 * Revocations in the store, in addition to `revoked_path`. Known ones stay valid while the store is unavailable, and even if it has
 * lost them: only a `lift` entry or a restart ends a revocation.
 */
export class SharedRevocations {
	readonly #parts: SharedRevocationsParts;
	readonly #key: string;
	readonly #log = new RevocationLog();
	#list: RevocationList = NOTHING_REVOKED;
	/** Id of the last entry that was read; `undefined`: none yet. */
	#last: string | undefined;
	#isKnown = false;
	#isFailing = false;
	#cancel: () => void = () => {};
	#stopped = false;

	constructor(parts: SharedRevocationsParts) {
		this.#parts = parts;
		this.#key = `${parts.prefix}:revoked`;
	}

	/** Resolves when the store has been asked once, whatever the result. */
	async start(): Promise<void> {
		await this.#poll();
	}

	stop(): void {
		this.#stopped = true;
		this.#cancel();
	}

	/** Whether the store has ever sent its revocations. */
	get isKnown(): boolean {
		return this.#isKnown;
	}

	/** Entries in force. */
	get size(): number {
		return this.#log.size;
	}

	withShared(tls: TlsMaterial): TlsMaterial {
		if (tls.clients === undefined || this.#list === NOTHING_REVOKED) return tls;
		return { ...tls, clients: { ...tls.clients, revoked: mergeRevoked(tls.clients.revoked, this.#list) } };
	}

	async #poll(): Promise<void> {
		const { log } = this.#parts;
		try {
			await this.#read();
			if (this.#isFailing) log.info(TARGET, 'revocations in the store can be read again', { revoked: this.size });
			this.#isFailing = false;
		} catch (error) {
			if (!this.#isFailing && !this.#stopped) this.#sayFailing(failureOf(error));
			this.#isFailing = true;
		}
		if (!this.#stopped) this.#cancel = this.#parts.timers.after(POLL_MS, () => void this.#poll());
	}

	/** Logs this once; other parts report the state of the store. */
	#sayFailing({ reason, message: cause }: StoreFailure): void {
		const { log } = this.#parts;
		const fields = { reason, cause, revoked: this.size };
		if (this.#isKnown)
			log.warn(TARGET, 'revocations in the store cannot be read; the known ones stay in force', fields);
		else log.error(TARGET, 'revocations in the store are unknown: callers that are revoked there are admitted', fields);
	}

	async #read(): Promise<void> {
		const [newest] = await this.#entries(['XREVRANGE', this.#key, '+', '-', 'COUNT', '1']);
		const isNew = !this.#isKnown;
		this.#isKnown = true;
		if (this.#last !== undefined && (newest === undefined || isOlder(newest.id, this.#last))) this.#lost();
		if (newest === undefined || newest.id === this.#last) return;
		const before = this.#log.size;
		let read = 0;
		try {
			for (let length = PAGE; length === PAGE; read += length) length = await this.#readPage();
		} finally {
			if (read > 0) this.#publish({ entries: read, revoked: this.#log.size, before }, isNew);
		}
	}

	/** @returns how many entries it had. */
	async #readPage(): Promise<number> {
		const from = this.#last === undefined ? '-' : `(${this.#last}`;
		const page = await this.#entries(['XRANGE', this.#key, from, '+', 'COUNT', String(PAGE)]);
		for (const entry of page) this.#take(entry);
		return page.length;
	}

	#publish(fields: LogFields, isFirst: boolean): void {
		const { log } = this.#parts;
		this.#list = this.#log.list;
		log.info(TARGET, isFirst ? 'revocations read from the store' : 'revocations in the store have changed', fields);
		this.#parts.onChange();
	}

	#take({ id, fields }: Entry): void {
		this.#last = id;
		for (const problem of this.#log.add(fields)) {
			this.#parts.limitedLog.write('error', TARGET, 'a revocation in the store cannot be read', 'revocation', () => ({
				key: this.#key,
				entry: id,
				cause: problem,
			}));
		}
	}

	/** The stream was replaced: it is read from its beginning, in addition to the known entries. */
	#lost(): void {
		this.#last = undefined;
		if (this.#log.size === 0) return;
		this.#parts.log.error(
			TARGET,
			'revocations have disappeared from the store; the known ones stay in force until they are lifted',
			{
				key: this.#key,
				revoked: this.#log.size,
			},
		);
	}

	async #entries(command: readonly string[]): Promise<Entry[]> {
		const answer = await this.#parts.client.command(this.#key, command);
		if (!Array.isArray(answer) || !answer.every(isEntry)) throw this.#parts.client.malformed();
		return answer.map(([id, fields]) => ({ id, fields }));
	}
}

interface Entry {
	/** Milliseconds of the store's clock and a number, with "-" between them. */
	readonly id: string;
	readonly fields: readonly string[];
}

function isEntry(entry: unknown): entry is [id: string, fields: string[]] {
	if (!Array.isArray(entry) || entry.length !== 2) return false;
	const [id, fields] = entry;
	if (typeof id !== 'string' || !/^\d{1,20}-\d{1,20}$/.test(id) || !Array.isArray(fields)) return false;
	return fields.length % 2 === 0 && fields.every((field) => typeof field === 'string');
}

function isOlder(a: string, b: string): boolean {
	const [[aMs, aNumber], [bMs, bNumber]] = [a, b].map((id) => id.split('-').map(BigInt)) as [bigint[], bigint[]];
	return aMs! < bMs! || (aMs === bMs && aNumber! < bNumber!);
}
