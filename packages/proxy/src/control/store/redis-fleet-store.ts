import { createHash } from 'node:crypto';
import type { StoreClient, StoreScript } from './client.ts';
import { type FleetStore, REPLICA_MS, type Registry, type SlotReport, type Spending, shardOf } from './contract.ts';

/** Version of the layout of keys and values: a replica with another version does not see them, and they expire. */
const LAYOUT = 2;

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

/**
 * Scripts for the store: the steps of `contract.ts`, each atomic and by the store's own clock. Lua 5.1, as all Redis since 6.2 and Valkey
 * have it. All numbers are doubles and whole; `%.0f` writes them without an exponent.
 */

function script(text: string): StoreScript {
	return { text, sha1: createHash('sha1').update(text).digest('hex') };
}

/** Whether a key is of another type: its answer is false then, and the others go on. Any other error fails the whole call. */
const IS_FOREIGN = `
local function is_foreign(found)
  return type(found) == 'table' and found.err and string.find(found.err, 'WRONGTYPE') ~= nil
end
local function is_error(found)
  return type(found) == 'table' and found.err
end
`;

/**
 *   KEYS  one for each tenant: a string, "moment seen", both in microseconds
 *   ARGV  for each: cost, ahead
 *   answer  for each how far ahead its moment is, microseconds
 *
 * A clock that has gone back takes the moment with it.
 */
export const SETTLE_SCRIPT = script(`${IS_FOREIGN}
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local answer = {}
for i, key in ipairs(KEYS) do
  local found = redis.pcall('GET', key)
  if is_foreign(found) then
    answer[i] = false
  elseif is_error(found) then
    return found
  else
    local moment, seen = string.match(found or '', '^(%d+) (%d+)$')
    moment = (tonumber(moment) or 0) - math.max(0, (tonumber(seen) or now) - now)
    moment = math.max(moment + ARGV[2 * i - 1], now + ARGV[2 * i])
    local ahead = math.max(0, moment - now)
    redis.call('SET', key, string.format('%.0f %.0f', moment, now), 'PX', string.format('%.0f', math.ceil(ahead / 1000) + ${REPLICA_MS}))
    answer[i] = math.floor(ahead)
  end
end
return answer
`);

/**
 *   KEYS  one for each tenant: a hash, by replica "count stamp", the stamp in milliseconds
 *   ARGV  replica, then for each: its count
 *   answer  for each the sum of the others
 */
export const REPORT_SCRIPT = script(`${IS_FOREIGN}
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local replica = ARGV[1]
local answer = {}
for i, key in ipairs(KEYS) do
  local all = redis.pcall('HGETALL', key)
  if is_foreign(all) then
    answer[i] = false
  elseif is_error(all) then
    return all
  else
    local sum = 0
    for j = 1, #all, 2 do
      local count, stamp = string.match(all[j + 1], '^(%d+) (%d+)$')
      if all[j] == replica then
      elseif count and math.abs(now - stamp) < ${REPLICA_MS} then
        sum = sum + count
      else
        redis.call('HDEL', key, all[j])
      end
    end
    local own = tonumber(ARGV[i + 1])
    if own > 0 then
      redis.call('HSET', key, replica, string.format('%.0f %.0f', own, now))
      redis.call('PEXPIRE', key, ${2 * REPLICA_MS})
    else
      redis.call('HDEL', key, replica)
    end
    answer[i] = sum
  end
end
return answer
`);

/**
 *   KEYS  replicas by their last sign of life, replicas by their delay: sorted sets, milliseconds
 *   ARGV  replica, '1' if it is leaving, delay
 *   answer  replicas, longest delay
 */
export const REGISTRY_SCRIPT = script(`
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local function forget(from, to)
  for _, replica in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], from, to)) do
    redis.call('ZREM', KEYS[1], replica)
    redis.call('ZREM', KEYS[2], replica)
  end
end
forget('-inf', string.format('(%.0f', now - ${REPLICA_MS}))
forget(string.format('(%.0f', now + ${REPLICA_MS}), '+inf')
if ARGV[2] == '1' then
  redis.call('ZREM', KEYS[1], ARGV[1])
  redis.call('ZREM', KEYS[2], ARGV[1])
else
  redis.call('ZADD', KEYS[1], string.format('%.0f', now), ARGV[1])
  redis.call('ZADD', KEYS[2], ARGV[3], ARGV[1])
end
for _, key in ipairs(KEYS) do redis.call('PEXPIRE', key, ${2 * REPLICA_MS}) end
local slowest = redis.call('ZREVRANGE', KEYS[2], 0, 0, 'WITHSCORES')
return { redis.call('ZCARD', KEYS[1]), math.floor(tonumber(slowest[2]) or 0) }
`);
