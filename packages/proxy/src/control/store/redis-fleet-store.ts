import type { StoreClient } from './client.ts';
import { type FleetStore, type Registry, type SlotReport, type Spending, shardOf } from './contract.ts';
import { REGISTRY_SCRIPT, REPORT_SCRIPT, SETTLE_SCRIPT } from './scripts.ts';

/** Version of the layout of keys and values: a replica with another version does not see them, and they expire. */
const LAYOUT = 2;

/** The limits in a Redis or Valkey. */
export class RedisFleetStore implements FleetStore {
	readonly #client: Pick<StoreClient, 'run' | 'malformed'>;
	readonly #prefix: string;
	readonly #replica: string;

	/** @param prefix of all keys. @param replica names this process. */
	constructor(client: Pick<StoreClient, 'run' | 'malformed'>, prefix: string, replica: string) {
		this.#client = client;
		this.#prefix = `${prefix}:${LAYOUT}`;
		this.#replica = replica;
	}

	async register(leaving: boolean, delayMs: number): Promise<Registry> {
		// The tag is that of shard 0.
		const keys = ['replicas', 'delays'].map((name) => `${this.#prefix}:{0}:${name}`);
		const args = [this.#replica, leaving ? '1' : '0', String(Math.ceil(delayMs))];
		const answer = await this.#client.run(REGISTRY_SCRIPT, keys, args);
		const [replicas, longest] = this.#numbers(answer, 2);
		if (replicas === undefined || longest === undefined || (replicas === 0 && !leaving)) throw this.#client.malformed();
		return { replicas, delayMs: longest };
	}

	async settle(spendings: readonly Spending[]): Promise<readonly (number | undefined)[]> {
		const keys = spendings.map(({ key }) => this.#keyOf(key, ''));
		const args = spendings.flatMap(({ costMicros, aheadMicros }) => [String(costMicros), String(aheadMicros)]);
		return this.#numbers(await this.#client.run(SETTLE_SCRIPT, keys, args), keys.length);
	}

	async report(reports: readonly SlotReport[]): Promise<readonly (number | undefined)[]> {
		const keys = reports.map(({ key }) => this.#keyOf(key, 's'));
		const args = [this.#replica, ...reports.map(({ underWay }) => String(underWay))];
		return this.#numbers(await this.#client.run(REPORT_SCRIPT, keys, args), keys.length);
	}

	/** @param letter that tells a tenant's slots from its rate. */
	#keyOf(key: bigint, letter: string): string {
		return `${this.#prefix}:{${shardOf(key)}}:${letter}${keyInHex(key)}`;
	}

	/** @throws StoreFailure if the answer is not a list of this many whole numbers or nulls. */
	#numbers(answer: unknown, length: number): (number | undefined)[] {
		const isNumber = (one: unknown) => one === null || (Number.isSafeInteger(one) && (one as number) >= 0);
		if (!Array.isArray(answer) || answer.length !== length || !answer.every(isNumber)) throw this.#client.malformed();
		return answer.map((one: number | null) => one ?? undefined);
	}
}

/** 16 digits. */
export function keyInHex(key: bigint): string {
	return BigInt.asUintN(64, key).toString(16).padStart(16, '0');
}
