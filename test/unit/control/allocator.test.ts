import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { reloadAskedBefore, tunedEnvironment } from '../../../src/control/allocator.ts';

describe('the environment to start over with', () => {
	it('is the same, and tunes glibc', () => {
		const tuned = tunedEnvironment('linux', { PATH: '/bin', PROXY_CONFIG: 'a.toml' }, false);
		assert.equal(tuned?.PATH, '/bin');
		assert.equal(tuned?.PROXY_CONFIG, 'a.toml');
		assert.match(tuned?.GLIBC_TUNABLES ?? '', /^glibc\.malloc\./);
	});

	it('is that of a process which does not start over again, even if the tunables were taken away', () => {
		const { GLIBC_TUNABLES: _taken, ...left } = tunedEnvironment('linux', {}, false)!;
		assert.equal(tunedEnvironment('linux', left, false), undefined);
	});

	it('carries a reload along that has been asked for', () => {
		assert.equal(reloadAskedBefore({}), false);
		assert.equal(reloadAskedBefore(tunedEnvironment('linux', {}, false)!), false);
		assert.equal(reloadAskedBefore(tunedEnvironment('linux', {}, true)!), true);
	});

	it('is none where somebody has tuned glibc himself, be it with nothing', () => {
		assert.equal(tunedEnvironment('linux', { GLIBC_TUNABLES: 'glibc.malloc.arena_max=2' }, false), undefined);
		assert.equal(tunedEnvironment('linux', { GLIBC_TUNABLES: '' }, false), undefined);
	});

	it('is none on other systems', () => {
		assert.equal(tunedEnvironment('darwin', {}, false), undefined);
	});
});
