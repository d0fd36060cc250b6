import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { SerialTable, serialMemorySizes } from '../../../packages/proxy/src/identity/serial-table.ts';
import { serialMemory } from '../../fixtures/crl.ts';

test('a table of serial numbers has those that were added and no other', () => {
	const serial = fc
		.uint8Array({ minLength: 1, maxLength: 3, max: 3 })
		.map((octets) => Buffer.from(octets).toString('hex'));
	fc.assert(
		fc.property(fc.array(serial, { maxLength: 40 }), fc.array(serial, { maxLength: 40 }), (added, others) => {
			const table = new SerialTable(serialMemory(added));
			for (const one of [...added, ...others]) {
				assert.equal(table.has(Buffer.from(one, 'hex')), added.includes(one), one);
			}
		}),
	);
});

test('at most half of the places in a table of serial numbers are taken', () => {
	for (const serials of [0, 1, 2, 3, 4, 1000, 300_000]) {
		const { places, octets } = serialMemorySizes(serials, 20 * serials);
		assert.equal(Math.log2(places) % 1, 0);
		assert.ok(places > 2 * serials && places <= 4 * serials + 1, `${places} for ${serials}`);
		assert.equal(octets, 1 + 21 * serials);
	}
});
