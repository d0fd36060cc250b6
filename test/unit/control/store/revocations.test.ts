import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { issuerKey, NOTHING_REVOKED } from '../../../../packages/gate/src/identity/revocations.ts';
import { RateLimitedLog } from '../../../../packages/gate/src/shared/rate-limited-log.ts';
import { StoreFailure } from '../../../../packages/proxy/src/control/store/failure.ts';
import {
	MAX_REVOKED,
	mergeRevoked,
	RevocationLog,
} from '../../../../packages/proxy/src/control/store/revocation-log.ts';
import { POLL_MS, SharedRevocations } from '../../../../packages/proxy/src/control/store/shared-revocations.ts';
import type { TlsMaterial } from '../../../../packages/proxy/src/shared/messages.ts';
import { FakeTime } from '../fixtures/fake-time.ts';
import { RecordedLog } from '../fixtures/recorded-log.ts';

const SHA = 'ab'.repeat(32);

describe('the entries of the stream', () => {
	it('revoke, and lift what was revoked, in whatever way it is written', () => {
		const log = new RevocationLog();
		const problems = [
			['revoke', 'tenant:acme', 'note', 'ticket 42'],
			['revoke', `certificate:${SHA}`, 'revoke', 'token:j-1'],
			['revoke', 'serial:00:0a:1b C = DE, CN = Clients'],
			['revoke', 'tenant:urn:b:c'],
			['lift', 'token:j-1'],
			['lift', `certificate:sha256:${SHA.toUpperCase()}`],
		].flatMap((fields) => log.add(fields));
		assert.deepEqual(problems, []);
		assert.deepEqual(log.list, {
			tenants: ['acme', 'urn:b:c'],
			tokens: [],
			certificates: [],
			serials: [{ issuer: issuerKey('C=DE, CN=Clients'), serial: '0A1B' }],
		});
	});

	for (const [fields, problem] of [
		[[], /is empty/],
		[['revok', 'tenant:hunter2'], /has a field that is not revoke, lift or note/],
		[['revoke', 'hunter2'], /write tenant:NAME, token:JTI/],
		[['revoke', 'tenants:hunter2'], /write tenant:NAME/],
		[['revoke', 'tenant:'], /names no tenant/],
		[['revoke', 'certificate:hunter2'], /64 hexadecimal digits/],
		[['revoke', 'serial:0A1B'], /a serial number in hexadecimal, a space and the name/],
		[['revoke', 'tenant:hunter2\ufffd'], /is not UTF-8/],
		[['lift', `token:hunter2${'x'.repeat(2048)}`], /is longer than 2048/],
	] as const) {
		it(`are named where they cannot be read, and the rest of them holds: ${fields.join(' ').slice(0, 40)}`, () => {
			const log = new RevocationLog();
			const problems = log.add([...fields, ...(fields.length > 0 ? ['revoke', 'tenant:acme'] : [])]);
			assert.equal(problems.length, 1);
			assert.match(problems[0]!, problem);
			assert.doesNotMatch(problems[0]!, /hunter2/);
			assert.deepEqual(log.list.tenants, fields.length > 0 ? ['acme'] : []);
		});
	}

	it('are bounded', () => {
		const log = new RevocationLog();
		for (let i = 0; i < MAX_REVOKED; i++) log.add(['revoke', `token:${i}`]);
		assert.match(log.add(['revoke', 'token:more'])[0]!, /beyond the 100000/);
		assert.deepEqual(log.add(['revoke', 'token:7']), []);
		log.add(['lift', 'token:7']);
		assert.deepEqual(log.add(['revoke', 'token:more']), []);
	});

	it('are added to those of the file', () => {
		const file = { ...NOTHING_REVOKED, tenants: ['a', 'b'] };
		assert.equal(mergeRevoked(file, NOTHING_REVOKED), file);
		assert.deepEqual(mergeRevoked(file, { ...NOTHING_REVOKED, tenants: ['b', 'c'] }).tenants, ['a', 'b', 'c']);
	});
});

/** A stream as Redis has it, as far as it is asked here. */
class FakeStream {
	entries: [id: string, fields: string[]][] = [];
	failing = false;
	answer: unknown;
	asked = 0;

	command = async (_key: string, [command, , from, , , count]: readonly string[]): Promise<unknown> => {
		this.asked++;
		if (this.failing) throw new StoreFailure('unreachable');
		if (this.answer !== undefined) return this.answer;
		if (command === 'XREVRANGE') return this.entries.slice(-1);
		const after = from === '-' ? 0 : this.entries.findIndex(([id]) => `(${id}` === from) + 1;
		return this.entries.slice(after, after + Number(count));
	};
	malformed = () => new StoreFailure('malformed');

	add(id: string, ...fields: string[]): void {
		this.entries.push([id, fields]);
	}
}

const MATERIAL = { cert: 'c', key: 'k', ca: 'a', clients: { revoked: { ...NOTHING_REVOKED, tenants: ['filed'] } } };

function build() {
	const time = new FakeTime();
	const stream = new FakeStream();
	const log = new RecordedLog();
	const taken: (readonly string[])[] = [];
	const revocations: SharedRevocations = new SharedRevocations({
		client: stream,
		prefix: 'proxy',
		onChange: () => taken.push(tenants()),
		timers: time,
		log: log.logger,
		limitedLog: new RateLimitedLog(log.logger, time),
	});
	const tenants = () => revocations.withShared(MATERIAL as unknown as TlsMaterial).clients!.revoked.tenants;
	return { time, stream, log, taken, revocations, tenants };
}

describe('what is revoked in the store', () => {
	it('is known after the start, and then reported with each change', async () => {
		const { time, stream, taken, revocations } = build();
		stream.add('5-0', 'revoke', 'tenant:a');
		await revocations.start();
		assert.deepEqual(taken, [['filed', 'a']]);
		stream.add('6-0', 'revoke', 'tenant:b');
		await time.advance(POLL_MS);
		stream.add('6-1', 'lift', 'tenant:a');
		await time.advance(POLL_MS);
		assert.deepEqual(taken.slice(1), [
			['filed', 'a', 'b'],
			['filed', 'b'],
		]);
	});

	it('costs one call at a time while nothing changes', async () => {
		const { time, stream, taken, revocations } = build();
		stream.add('5-0', 'revoke', 'tenant:a');
		await revocations.start();
		const { asked } = stream;
		await time.advance(10 * POLL_MS);
		assert.equal(stream.asked - asked, 10);
		assert.equal(taken.length, 1);
	});

	it('is read page by page, and what was read before the store went away counts', async () => {
		const { time, stream, revocations } = build();
		for (let i = 1; i <= 2_500; i++) stream.add(`${i}-0`, 'revoke', `token:${i}`);
		const { command } = stream;
		stream.command = (key, args) => (stream.asked === 2 ? Promise.reject(new Error('away')) : command(key, args));
		await revocations.start();
		assert.equal(revocations.size, 1_000);
		assert.equal(revocations.withShared(MATERIAL as unknown as TlsMaterial).clients!.revoked.tokens.length, 1_000);
		stream.command = command;
		await time.advance(POLL_MS);
		assert.equal(revocations.size, 2_500);
	});

	it('stays while the store is away, and when the store has lost it', async () => {
		const { time, stream, log, revocations, tenants } = build();
		stream.add('5-0', 'revoke', 'tenant:a');
		await revocations.start();
		stream.failing = true;
		await time.advance(10 * POLL_MS);
		assert.deepEqual(tenants(), ['filed', 'a']);
		const said = () => log.lines.filter((line) => line.startsWith('warn'));
		assert.deepEqual(said(), [
			'warn proxy::limiter: revocations in the store cannot be read; the known ones stay in force',
		]);
		stream.failing = false;
		stream.entries = [];
		await time.advance(10 * POLL_MS);
		assert.deepEqual(tenants(), ['filed', 'a']);
		assert.equal(
			log.lines.filter((line) => line.startsWith('error proxy::limiter: revocations have disappeared')).length,
			1,
		);
		// A clock that is behind the last one's.
		stream.add('3-0', 'revoke', 'tenant:b');
		await time.advance(POLL_MS);
		stream.add('4-0', 'lift', 'tenant:a');
		await time.advance(POLL_MS);
		assert.deepEqual(tenants(), ['filed', 'b']);
	});

	it('says nothing when the store has lost it, and nothing was revoked', async () => {
		const { time, stream, log, revocations, tenants } = build();
		stream.add('5-0', 'revoke', 'tenant:a');
		stream.add('6-0', 'lift', 'tenant:a');
		await revocations.start();
		stream.entries = [];
		await time.advance(2 * POLL_MS);
		assert.deepEqual(log.lines, ['info proxy::limiter: revocations read from the store']);
		stream.add('1-0', 'revoke', 'tenant:b');
		await time.advance(POLL_MS);
		assert.deepEqual(tenants(), ['filed', 'b']);
	});

	it('is read again from the beginning if another stream took its place', async () => {
		const { time, stream, revocations, tenants } = build();
		stream.add('5-0', 'revoke', 'tenant:a');
		await revocations.start();
		stream.entries = [];
		stream.add('4-7', 'revoke', 'tenant:b');
		await time.advance(POLL_MS);
		assert.deepEqual(tenants(), ['filed', 'a', 'b']);
	});

	it('names entries that cannot be read, once', async () => {
		const { time, stream, log, revocations, tenants } = build();
		stream.add('5-0', 'revoke', 'tenannt:hunter2');
		stream.add('6-0', 'revoke', 'tenant:a');
		await revocations.start();
		await time.advance(10 * POLL_MS);
		assert.deepEqual(tenants(), ['filed', 'a']);
		const lines = log.records.filter(({ message }) => message === 'a revocation in the store cannot be read');
		assert.equal(lines.length, 1);
		assert.equal(lines[0]?.fields?.entry, '5-0');
		assert.doesNotMatch(JSON.stringify(log.records), /hunter2/);
	});

	for (const answer of [null, 'x', [['5-0']], [['x', []]], [['5-0', ['revoke']]], [['5-0', ['revoke', 7]]]]) {
		it(`is not what makes no sense: ${JSON.stringify(answer)}`, async () => {
			const { stream, revocations, tenants } = build();
			stream.answer = answer;
			await revocations.start();
			assert.equal(revocations.isKnown, false);
			assert.deepEqual(tenants(), ['filed']);
		});
	}

	it('is not asked for any more once it has stopped', async () => {
		const { time, stream, revocations } = build();
		await revocations.start();
		revocations.stop();
		const { asked } = stream;
		await time.advance(10 * POLL_MS);
		assert.equal(stream.asked, asked);
		assert.equal(time.pending, 0);
	});
});
