import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SlowDisk } from '../../../../packages/proxy/src/control/jwks/key-store.ts';

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
