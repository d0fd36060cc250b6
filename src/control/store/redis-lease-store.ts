import type { StoreClient } from './client.ts';
import type { LeaseAnswer, LeaseBatch, LeaseCall, LeaseGrant, LeaseStore } from './contract.ts';
import { LEDGER_SCRIPT, REGISTRY_SCRIPT } from './scripts.ts';

/** Calls that one script does at once: the store does nothing else meanwhile, for about a millisecond. */
const CALLS_A_SCRIPT = 64;

/** The ledgers in a Redis or Valkey. */
export class RedisLeaseStore implements LeaseStore {
	readonly #client: Pick<StoreClient, 'run' | 'malformed'>;
	readonly #prefix: string;

	/** @param prefix of all keys. */
	constructor(client: Pick<StoreClient, 'run' | 'malformed'>, prefix: string) {
		this.#client = client;
		this.#prefix = prefix;
	}

	/** @throws StoreFailure */
	async lease(batch: LeaseBatch): Promise<LeaseAnswer> {
		const registry = await this.#register(batch);
		const bornMs = batch.bornMs || registry.bornMs;
		const grants = new Map<LeaseCall, LeaseGrant>();
		const scripts = portions(batch.calls).map(async (calls) => {
			const answers = await this.#call(batch, bornMs, calls);
			for (const [i, call] of calls.entries()) grants.set(call, answers[i]!);
		});
		await Promise.all(scripts);
		return { ...registry, grants: batch.calls.map((call) => grants.get(call)!) };
	}

	async #register({ replica, leaving }: LeaseBatch): Promise<Omit<LeaseAnswer, 'grants'>> {
		const keys = ['replicas', 'born'].map((name) => `${this.#prefix}:{registry}:${name}`);
		const answer = await this.#client.run(REGISTRY_SCRIPT, keys, [replica, leaving ? '1' : '0']);
		const [nowMs, replicas, bornMs] = this.#numbers(answer, 3) as [number, number, number];
		// Our own sign of life is among them.
		if (nowMs <= 0 || bornMs <= 0 || replicas < (leaving ? 0 : 1)) throw this.#client.malformed();
		return { nowMs, replicas, bornMs };
	}

	async #call({ replica, seq }: LeaseBatch, bornMs: number, calls: readonly LeaseCall[]): Promise<LeaseGrant[]> {
		const keys = calls.map(({ key }) => `${this.#prefix}:{${hashTag(key)}}:${key}`);
		const args = [replica, seq, bornMs, ...calls.flatMap(argumentsOf)].map(String);
		const numbers = this.#numbers(await this.#client.run(LEDGER_SCRIPT, keys, args), calls.length * 2);
		return calls.map(({ want }, i) => {
			const granted = numbers[2 * i]!;
			// More than was asked for would be spent beside the limit.
			if (granted < 0 || granted > want) throw this.#client.malformed();
			return { granted, left: numbers[2 * i + 1]! };
		});
	}

	/** @throws StoreFailure where the answer is anything else than so many whole numbers. */
	#numbers(answer: unknown, length: number): number[] {
		if (!Array.isArray(answer) || answer.length !== length || !answer.every(Number.isSafeInteger)) {
			throw this.#client.malformed();
		}
		return answer;
	}
}

function argumentsOf({ rps, capacity, term, known, held, spent, want }: LeaseCall): number[] {
	return [rps, capacity, term, known ? 1 : 0, held, spent, want];
}

/**
 * What of a key says where in a Cluster it lies: 64 places, so that a batch of a thousand calls is 64 scripts at most, and a cluster has
 * work for all its nodes. A tenant's rate and its slots have one key but for the letter, and lie at one place.
 */
function hashTag(key: string): string {
	return String(Number.parseInt(key.slice(-2), 16) % 64);
}

/** Calls that may go into one script. */
function portions(calls: readonly LeaseCall[]): LeaseCall[][] {
	const open = new Map<string, LeaseCall[]>();
	const all: LeaseCall[][] = [];
	for (const call of calls) {
		const tag = hashTag(call.key);
		let portion = open.get(tag);
		if (portion === undefined || portion.length === CALLS_A_SCRIPT) {
			portion = [];
			open.set(tag, portion);
			all.push(portion);
		}
		portion.push(call);
	}
	return all;
}
