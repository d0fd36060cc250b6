import { createHash } from 'node:crypto';
import type { StoreScript } from './connection.ts';
import { RECORD_MS, REPLICA_MS, SWEEP_MS } from './contract.ts';

/**
 * What the store runs: the steps that `contract.ts` gives in words, each atomic and by the store's own clock. Lua 5.1, as all Redis since
 * 6.2 and Valkey have it. All numbers are doubles and whole; `%.0f` writes them without an exponent.
 */

function script(text: string): StoreScript {
	return { text, sha1: createHash('sha1').update(text).digest('hex') };
}

/**
 * The registry: a sorted set of replicas by their last sign of life, and the moment at which it was made, which has no expiry.
 *
 *   KEYS  signs, born        ARGV  replica, '1' if it is leaving
 *   answer  now (ms), replicas, born (ms)
 */
export const REGISTRY_SCRIPT = script(`
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local text = string.format('%.0f', now)
if ARGV[2] == '1' then
  redis.call('ZREM', KEYS[1], ARGV[1])
else
  redis.call('ZADD', KEYS[1], text, ARGV[1])
end
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', '(' .. string.format('%.0f', now - ${REPLICA_MS}))
redis.call('PEXPIRE', KEYS[1], ${REPLICA_MS * 2})
redis.call('SET', KEYS[2], text, 'NX')
return { now, redis.call('ZCARD', KEYS[1]), tonumber(redis.call('GET', KEYS[2])) }
`);

/**
 * Calls on ledgers of one hash tag. A ledger is a hash: `level` in millionths of a token, `time` and `swept` in microseconds, `sum` of what
 * is out in tokens, and for each replica its record, "out spent seq term stamp".
 *
 *   KEYS  one for each call
 *   ARGV  replica, seq, born (ms), then for each call: rps, capacity, term, known (1 or 0), held, spent, want
 *   answer  for each call: granted, left
 */
export const LEDGER_SCRIPT = script(`
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local replica, seq, born = ARGV[1], tonumber(ARGV[2]), ARGV[3] * 1000
local TOKEN, RECORD, SWEEP = 1000000, ${RECORD_MS * 1000}, ${SWEEP_MS * 1000}

local function whole(number)
  return string.format('%.0f', number)
end

local function parse(text)
  if not text then return nil end
  local out, spent, seq, term, stamp = string.match(text, '^(-?%d+) (%d+) (%d+) (%d+) (%d+)$')
  if not out then return nil end
  return { out = tonumber(out), spent = tonumber(spent), seq = tonumber(seq), term = tonumber(term), stamp = tonumber(stamp) }
end

local answer = {}
for i, key in ipairs(KEYS) do
  local at = 3 + (i - 1) * 7
  local rps, capacity, term = tonumber(ARGV[at + 1]), ARGV[at + 2] * TOKEN, tonumber(ARGV[at + 3])
  local known, held, spent, want = ARGV[at + 4] == '1', tonumber(ARGV[at + 5]), tonumber(ARGV[at + 6]), tonumber(ARGV[at + 7])
  local found = redis.call('HMGET', key, 'level', 'time', 'sum', 'swept', replica)
  local level, sum, swept = tonumber(found[1] or nil), tonumber(found[3] or nil), tonumber(found[4] or nil)
  local record = parse(found[5])
  if not (level and sum and swept) then
    level = rps == 0 and capacity or math.min(capacity, rps * math.max(0, now - born))
    sum, swept = 0, now
  elseif rps == 0 then
    level = capacity
  else
    level = math.min(capacity, level + rps * math.max(0, now - (tonumber(found[2] or nil) or now)))
  end

  if now - swept >= SWEEP or now < swept then
    swept = now
    local all = redis.call('HGETALL', key)
    for j = 1, #all, 2 do
      local other = parse(all[j + 1])
      if other and (now - other.stamp >= RECORD or other.stamp > now + RECORD) then
        sum = sum - other.out
        if rps > 0 then level = level - math.max(0, other.out) * TOKEN end
        redis.call('HDEL', key, all[j])
        if all[j] == replica then record = nil end
      end
    end
  end

  local granted = 0
  local isLate = record and seq <= record.seq
  if not isLate then
    if record and record.term == term then
      sum = sum - record.out
      if rps > 0 then level = level - math.max(0, spent - record.spent) * TOKEN end
    else
      if record then
        sum = sum - record.out
        if rps > 0 then level = level - math.max(0, record.out) * TOKEN end
      end
      if known then
        level = math.min(level, (sum + held) * TOKEN)
      elseif rps > 0 then
        level = level - spent * TOKEN
      end
    end
    granted = math.max(0, math.min(want, math.floor((level - (sum + held) * TOKEN) / TOKEN)))
    local out = held + granted
    sum = sum + out
    if out == 0 and want == 0 then
      redis.call('HDEL', key, replica)
    else
      redis.call('HSET', key, replica, table.concat({ whole(out), whole(spent), whole(seq), whole(term), whole(now) }, ' '))
    end
  end
  redis.call('HSET', key, 'level', whole(level), 'time', whole(now), 'sum', whole(sum), 'swept', whole(swept))
  local full = rps == 0 and 0 or math.ceil((capacity - level) / rps / 1000)
  redis.call('PEXPIRE', key, whole(math.max(${RECORD_MS + SWEEP_MS}, full) + 1000))
  answer[#answer + 1] = granted
  answer[#answer + 1] = math.floor(level / TOKEN - sum)
end
return answer
`);
