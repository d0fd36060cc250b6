import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { ErrorReply } from '@redis/client';
import type { LimiterConfig } from '../../../../packages/proxy/src/config/config.ts';
import { fleetSecret, ProcessMemory } from '../../../../packages/proxy/src/control/process-memory.ts';
import type { OpenStore } from '../../../../packages/proxy/src/control/store/client.ts';
import { StoreFailure } from '../../../../packages/proxy/src/control/store/failure.ts';
import { Sharing } from '../../../../packages/proxy/src/control/store/sharing.ts';
import { FakeTime, settle } from '../fixtures/fake-time.ts';
import { RecordedLog } from '../fixtures/recorded-log.ts';
import { MEMORY_SIZES } from './memory-sizes.ts';

const SECRET = 'hunter2';
const FILES = { password: SECRET, sentinelPassword: undefined, secret: undefined, ca: undefined, identity: undefined };
const CONFIG = {
	store: [{ host: 'store.test', port: 6379, tls: false, database: 0 }],
	prefix: 'proxy',
	onStoreFailure: 'share',
	replicas: 4,
	timeoutMs: 500,
	revocations: true,
} as Partial<LimiterConfig> as LimiterConfig;

function build(answers: OpenStore | undefined = undefined) {
	const time = new FakeTime();
	const log = new RecordedLog();
	let failure: Error | undefined;
	const open: OpenStore = async () => ({
		send: async (_key, args) => {
			if (failure !== undefined) throw failure;
			if (!args[0]!.startsWith('EVAL')) return [];
			return args[2] === '2' ? [3, 0] : [0];
		},
		close: () => {},
	});
	const memory = new ProcessMemory({ ...MEMORY_SIZES, fleetSecret: new Uint8Array(32) });
	const parts = {
		config: CONFIG,
		files: FILES,
		memory,
		onRevoked: () => {},
		timers: time,
		clock: time,
		log: log.logger,
	};
	const sharing = new Sharing(parts, answers ?? open);
	const fail = (error: Error | undefined) => {
		failure = error;
	};
	return { time, log, sharing, fail };
}

describe('what is shared with other replicas', () => {
	it('appears in words, metrics and one log line for each change, without text from the store or a credential', async () => {
		const { time, log, sharing, fail } = build();
		const started = sharing.start();
		await time.advance(2_000);
		await started;
		assert.equal(sharing.inWords, 'limits shared by 3 replicas');
		fail(new ErrorReply(`NOAUTH ${SECRET}`));
		await time.advance(5_000);
		assert.equal(
			sharing.inWords,
			'limits not shared, the store is unavailable (credentials): each replica allows its share of the limits',
		);
		const { facts } = sharing;
		assert.equal(facts.isAway, true);
		assert.equal(facts.replicas, 3);
		assert.ok(facts.calls.failures.get('credentials')! > 1);
		fail(undefined);
		await time.advance(5_000);
		assert.equal(sharing.facts.isAway, false);
		const lines = log.lines.filter((line) => line.includes('limit'));
		assert.deepEqual(
			lines.filter((line) => !line.includes('revocations')),
			[
				'info proxy::limiter: limits are shared with the other replicas',
				'warn proxy::limiter: limiter store is unavailable',
				'info proxy::limiter: limiter store is back',
			],
		);
		assert.match(
			String(log.fields('limiter store is unavailable').cause),
			/^the store refuses the credentials; .*\(NOAUTH\)$/,
		);
		assert.ok(!JSON.stringify([log.records, facts]).includes(SECRET));
	});

	const never = new Promise<never>(() => {});
	for (const [what, answers] of [
		['cannot be reached', () => Promise.reject(new StoreFailure('unreachable'))],
		['takes no connection', () => never],
		['takes a connection and does not answer', async () => ({ send: () => never, close: () => {} })],
	] satisfies [string, OpenStore][]) {
		it(`is waited for 2 s at most at the start, if the store ${what}`, async () => {
			const { time, log, sharing } = build(answers);
			let isStarted = false;
			void sharing.start().then(() => {
				isStarted = true;
			});
			await time.advance(2_000);
			assert.ok(isStarted);
			assert.match(sharing.inWords, /^limits not shared, the store is unavailable/);
			assert.equal(log.lines.filter((line) => line === 'warn proxy::limiter: limiter store is unavailable').length, 1);
		});
	}

	it('is given back at the end, and not waited for', async () => {
		const { time, sharing } = build();
		const started = sharing.start();
		await time.advance(2_000);
		await started;
		const left = sharing.leave();
		await settle();
		await time.advance(1_000);
		await left;
		assert.equal(time.pending, 0);
	});

	it('has the keys of all replicas with one prefix and one secret', () => {
		const secretOf = (...args: Parameters<typeof fleetSecret>) => Buffer.from(fleetSecret(...args)).toString('hex');
		assert.equal(secretOf('a', undefined), secretOf('a', undefined));
		assert.notEqual(secretOf('a', undefined), secretOf('b', undefined));
		assert.notEqual(secretOf('a', undefined), secretOf('a', 'x'.repeat(32)));
		assert.equal(secretOf('a', 'x'.repeat(32)).length, 64);
	});
});
