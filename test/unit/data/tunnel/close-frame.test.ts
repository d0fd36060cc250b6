import assert from 'node:assert/strict';
import { it } from 'node:test';
import { closeFrame } from '../../../../packages/proxy/src/data/tunnel/direction.ts';
import { Receiver } from './fixtures/ws-parts.ts';

for (const [from, mask] of [
	['client', Buffer.from([9, 250, 3, 77])],
	['server', undefined],
] as const) {
	it(`ws reads a ${from}'s Close and its code`, async () => {
		const receiver = new Receiver({ isServer: from === 'client' });
		const code = new Promise((resolve) => receiver.once('conclude', resolve));
		receiver.write(closeFrame(1011, mask));
		assert.equal(await code, 1011);
	});
}
