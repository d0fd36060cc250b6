import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SlowDisk } from '../../../../packages/proxy/src/control/jwks/slow-disk.ts';

test('work on a folder goes one by one, also behind work that fails', async () => {
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

test('work that hangs is given up; other work fails at once until it has come back, then goes on', async () => {
	const disk = new SlowDisk(5);
	const hanging = Promise.withResolvers<void>();
	let begun = 0;
	const work = async () => {
		begun++;
	};
	await assert.rejects(
		disk.run(() => hanging.promise),
		/does not answer/,
	);
	await assert.rejects(disk.run(work), /does not answer/);
	assert.equal(begun, 0, 'it takes no other thread');
	hanging.resolve();
	await new Promise(setImmediate);
	await disk.run(work);
	assert.equal(begun, 1);
});
