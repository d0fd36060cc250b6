import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { groupOf } from '../../../../packages/proxy/src/data/listener/tls-group.ts';

/** The beginning of an SSL_SESSION as OpenSSL 3.5 writes it, with the fields that follow. */
function session(...fields: string[]): Buffer {
	const content = `0201010202030404021302040004${'00'}${fields.join('')}`;
	return Buffer.from(`30${(content.length / 2).toString(16).padStart(2, '0')}${content}`, 'hex');
}

describe('the group of a handshake', () => {
	it('is read from its session, by the number that IANA has given it', () => {
		assert.equal(groupOf(session('a1060204' + '6b0299b5', 'b304020211ec')), 'X25519MLKEM768');
		assert.equal(groupOf(session('b30302011d')), 'x25519');
		assert.equal(groupOf(session('b303020117', 'a403020100')), 'secp256r1');
	});

	it('is another one if the number is unknown, or is not there', () => {
		assert.equal(groupOf(session('b3040202ffff')), 'other');
		assert.equal(groupOf(session('a403020100')), 'other');
		assert.equal(groupOf(undefined), 'other');
	});

	it('is behind a field of any length', () => {
		assert.equal(groupOf(Buffer.from(`308200c0${`a381b4${'00'.repeat(0xb4)}`}b30302011d`, 'hex')), 'x25519');
	});

	it('never fails for any input, and keeps nothing of the session', () => {
		fc.assert(
			fc.property(fc.uint8Array({ maxLength: 60 }), (bytes) => {
				const given = Buffer.concat([Buffer.from([0x30]), bytes]);
				groupOf(given);
				assert.ok(given.every((byte) => byte === 0));
			}),
		);
	});
});
