import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { parseConfig } from '../../../src/config/load.ts';
import { configWarnings } from '../../../src/config/warnings.ts';
import { MINIMAL } from './minimal.ts';

const QUIET = `${MINIMAL}issuer = "i"\naudience = "a"\n[[routes]]\nprefix = "/"\nupstream = "http://a"\n`;
const warningsOf = (text: string) => configWarnings(parseConfig(text, 'config.toml'));

describe('the warnings about a configuration', () => {
	it('are none where nothing is doubtful', () => {
		assert.deepEqual(warningsOf(QUIET), []);
	});

	it('name the claim that is not checked', () => {
		assert.match(warningsOf(QUIET.replace(/issuer.*/, '')).join(), /^jwt\.issuer is not set: tokens of any issuer/);
		assert.match(warningsOf(QUIET.replace(/audience.*/, '')).join(), /^jwt\.audience is not set: .* rejected/);
	});

	it('tell of a proxy without routes', () => {
		assert.match(warningsOf(QUIET.replace(/\[\[routes\]\][\s\S]*/, '')).join(), /^there are no \[\[routes\]\]/);
	});

	it('tell of bodies that are allowed and yet never fit', () => {
		const limits = (held: number) => `${QUIET}[limits]\nmax_request_body_bytes = 100\nmax_buffered_bytes = ${held}`;
		assert.deepEqual(warningsOf(limits(100)), []);
		assert.match(warningsOf(limits(99)).join(), /^limits\.max_buffered_bytes is less/);
		const share = (bytes: number) => `${limits(200)}\nmax_buffered_bytes_per_tenant = ${bytes}`;
		assert.deepEqual(warningsOf(share(100)), []);
		assert.match(warningsOf(share(99)).join(), /^limits\.max_buffered_bytes_per_tenant is less/);
	});
});
