import type { TlsMaterial } from '../../shared/messages.ts';
import { type StoreFacts, storeInWords } from '../facts/store.ts';
import type { StartFiles } from '../files/inspection.ts';
import { type Timers, within } from '../timers.ts';
import type { FleetLimits, FleetSettings } from './fleet-limits.ts';
import type { SharedRevocations, SharedRevocationsParts } from './shared-revocations.ts';
import type { SharedStore } from './shared-store.ts';

/** Limits for the first connection and then the first answer, ms: together 2 s, as long as the listener waits for probes. */
const FIRST_CONNECTION_MS = 1_000;
const FIRST_ANSWER_MS = 1_000;
/** Limit for the last settlement, ms. */
const LAST_ANSWER_MS = 500;

/** What this process shares with other replicas, as the supervisor sees it. Without `[limiter]` it does nothing, and loads nothing. */
export class Sharing {
	readonly #store: SharedStore | undefined;
	readonly #timers: Timers;
	#fleet: FleetLimits | undefined;
	#revocations: SharedRevocations | undefined;

	static async create({ config, store }: Pick<StartFiles, 'config' | 'store'>, timers: Timers): Promise<Sharing> {
		if (config.limiter === undefined) return new Sharing(undefined, timers);
		const { SharedStore } = await import('./shared-store.ts');
		return new Sharing(new SharedStore(config.limiter, store, timers), timers);
	}

	constructor(store: SharedStore | undefined, timers: Timers) {
		this.#store = store;
		this.#timers = timers;
	}

	/** The replicas that share limits. */
	get settings(): FleetSettings | undefined {
		return this.#store?.fleet;
	}

	/** The memory of shared limits exists. */
	use(fleet: FleetLimits | undefined, parts: Omit<SharedRevocationsParts, 'client' | 'prefix' | 'timers'>): void {
		this.#fleet = fleet;
		this.#revocations = this.#store?.revocations({ ...parts, timers: this.#timers });
	}

	/** Resolves when the store has answered, or its time is up. Waits for its revocations as long as they are being read. */
	async start(): Promise<void> {
		if (this.#store === undefined) return;
		// Goes on without a connection if there is none in time.
		await within(this.#store.connect(), FIRST_CONNECTION_MS, this.#timers);
		await Promise.all([this.#fleet?.start(FIRST_ANSWER_MS), this.#revocations?.start()]);
	}

	/** The same material, with the store's revocations. */
	withRevoked(tls: TlsMaterial): TlsMaterial {
		return this.#revocations?.withShared(tls) ?? tls;
	}

	/** `undefined` where limits are this process's own. */
	get facts(): StoreFacts | undefined {
		if (this.#fleet === undefined || this.#store === undefined) return undefined;
		return { ...this.#fleet.facts, calls: this.#store.calls, revocations: this.#revocations?.size };
	}

	/** The same in words, for `/readyz`. */
	get inWords(): string | undefined {
		const { facts } = this;
		return facts && storeInWords(facts);
	}

	/** Settles the last admissions within the time that is left. */
	async leave(): Promise<void> {
		this.#revocations?.stop();
		await this.#fleet?.stop(LAST_ANSWER_MS);
		this.#store?.close();
	}
}
