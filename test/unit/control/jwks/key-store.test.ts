import assert from 'node:assert/strict';
import { chmodSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import type { RemoteIssuer } from '../../../../packages/gate/src/jwks/remote-issuer.ts';
import { createKeyStore, SlowDisk } from '../../../../packages/proxy/src/control/jwks/key-store.ts';
import { temporaryFolder } from '../../../fixtures/pki.ts';
import { RecordedLog } from '../fixtures/recorded-log.ts';

const NOW = 1_800_000_000;
const ISSUER: RemoteIssuer = {
	issuer: 'https://issuer.test',
	url: 'https://issuer.test/jwks.json',
	ca: undefined,
	algorithms: ['RS256'],
	refreshMs: 1,
	maxStaleMs: 1,
};

function stored() {
	const dir = join(temporaryFolder('store'), 'state');
	const log = new RecordedLog();
	return { dir, log, store: createKeyStore(dir, log.logger) };
}

const fileIn = (dir: string) => join(dir, readdirSync(dir).find((name) => name.endsWith('.json'))!);

describe('the last good keys', () => {
	test('are kept in a private file with their age', async () => {
		const { dir, log, store } = stored();
		assert.equal(await store.load(ISSUER, NOW), undefined);
		await store.save(ISSUER, 'first', NOW - 10);
		await store.save(ISSUER, 'second', NOW - 5);
		await store.save({ ...ISSUER, url: undefined }, 'discovered', NOW);
		assert.deepEqual(await store.load(ISSUER, NOW), { text: 'second', ageMs: 5_000, file: fileIn(dir) });
		assert.equal((await store.load(ISSUER, NOW - 100))?.ageMs, 0, 'a clock that was set back');
		assert.equal((await store.load({ ...ISSUER, url: undefined }, NOW))?.text, 'discovered');
		const names = readdirSync(dir);
		assert.equal(names.length, 2, 'nothing else is left behind');
		for (const name of names) assert.equal(statSync(join(dir, name)).mode & 0o777, 0o600);
		assert.equal(statSync(dir).mode & 0o777, 0o700);
		assert.deepEqual(log.lines, []);
	});

	test('are those of the issuer and address that they were fetched from, or none', async () => {
		const { dir, log, store } = stored();
		await store.save(ISSUER, 'text', NOW);
		assert.equal(await store.load({ ...ISSUER, issuer: 'https://other.test' }, NOW), undefined);
		assert.equal(await store.load({ ...ISSUER, url: 'https://other.test/jwks.json' }, NOW), undefined);
		const path = join(dir, readdirSync(dir)[0]!);
		const kept = JSON.parse(readFileSync(path, 'utf8'));
		assert.deepEqual(log.lines, [], 'what is not there is no fault');
		for (const [text, cause] of [
			['', 'is not JSON'],
			['{', 'is not JSON'],
			['null', 'was not written by this proxy'],
			[JSON.stringify({ ...kept, issuer: 'https://other.test' }), 'has the keys of another issuer'],
			[JSON.stringify({ ...kept, url: null }), 'has the keys of another issuer'],
			[JSON.stringify({ ...kept, fetched_at: '1' }), 'was not written by this proxy'],
			[JSON.stringify({ ...kept, jwks: {} }), 'was not written by this proxy'],
		] as const) {
			writeFileSync(path, text);
			assert.equal(await store.load(ISSUER, NOW), undefined, text);
			const { level, message, fields } = log.records.at(-1)!;
			assert.deepEqual([level, fields], ['warn', { issuer: ISSUER.issuer, file: path, cause }]);
			assert.match(message, /^keys in state_dir cannot be read; remove the file/);
		}
		assert.equal(log.lines.length, 7);
	});

	test('stored keys that are not a file, or cannot be opened, log a line', async () => {
		const { dir, log, store } = stored();
		await store.save(ISSUER, 'text', NOW);
		const path = fileIn(dir);
		rmSync(path);
		mkdirSync(path);
		assert.equal(await store.load(ISSUER, NOW), undefined);
		assert.equal(log.fields('keys in state_dir cannot be read; remove the file, or fix its permissions').file, path);
	});

	test('keys that cannot be saved only log a line', async () => {
		const { dir, log, store } = stored();
		// A file where the folder should be: that holds for root as well.
		mkdirSync(join(dir, '..'), { recursive: true });
		writeFileSync(dir, '');
		chmodSync(dir, 0o600);
		await store.save(ISSUER, 'text', NOW);
		assert.match(log.lines[0]!, /^warn proxy::jwks: keys could not be saved in state_dir/);
		assert.equal(log.records[0]!.fields?.state_dir, dir);
	});
});

test('work on a folder runs one by one, also after a failure', async () => {
	const disk = new SlowDisk();
	let [atOnce, most] = [0, 0];
	const work = async () => {
		most = Math.max(most, ++atOnce);
		await new Promise(setImmediate);
		atOnce--;
	};
	const failed = disk.run(() => Promise.reject(new Error('full')));
	await Promise.all([work, work, work].map((one) => disk.run(one)).concat(assert.rejects(failed, /full/)));
	assert.equal(most, 1);
});

test('work that hangs is abandoned; other work fails at once until it returns', async () => {
	const disk = new SlowDisk(5);
	const hanging = Promise.withResolvers<void>();
	let begun = 0;
	const work = async () => {
		begun++;
	};
	await assert.rejects(
		disk.run(() => hanging.promise),
		/does not respond/,
	);
	await assert.rejects(disk.run(work), /does not respond/);
	assert.equal(begun, 0, 'it takes no other thread');
	hanging.resolve();
	await new Promise(setImmediate);
	await disk.run(work);
	assert.equal(begun, 1);
});
