import assert from 'node:assert/strict';
import { test } from 'node:test';
import { reportUnknownKeys } from '../../../../packages/proxy/src/data/records/unknown-keys.ts';
import { FakeTime } from '../../control/fixtures/fake-time.ts';

test('unknown keys are reported once a second for each issuer, however many tokens name them', async () => {
	const time = new FakeTime();
	const reported: string[] = [];
	const onUnknownKey = reportUnknownKeys(time, (issuer) => reported.push(`${issuer} ${time.now()}`));
	for (let i = 0; i < 1000; i++) onUnknownKey('a');
	onUnknownKey('b');
	await time.advance(999);
	onUnknownKey('a');
	assert.deepEqual(reported, ['a 0', 'b 0']);
	await time.advance(1);
	onUnknownKey('a');
	assert.deepEqual(reported, ['a 0', 'b 0', 'a 1000']);
});
