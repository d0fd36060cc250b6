import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { checkIsolation } from '../../../tools/checks/embed-isolation.ts';

describe('the check that the parts of the embedded gate are isolated', () => {
	const node = {
		name: 'embed/node',
		loaded: ['src/embed/node.ts', 'src/embed/error.ts', 'src/gates/jwt.ts', 'node:tls'],
	};
	const hono = (loaded: string[]) => ({ name: 'embed/hono', loaded: ['src/embed/hono.ts', ...loaded] });

	it('passes parts that load themselves and what all share', () => {
		assert.deepEqual(checkIsolation([node, hono(['src/memory/limiter.ts'])]), []);
	});

	it('reports a part that loads another one, or anything outside the sources of the package', () => {
		for (const module of [
			'src/embed/node.ts',
			'../proxy/src/config/config.ts',
			'file:///elsewhere/node_modules/hono/index.js',
		]) {
			assert.deepEqual(checkIsolation([node, hono([module])]), [`importing embed/hono loads ${module}`]);
		}
	});

	it('does not count an unloaded part as isolated', () => {
		assert.deepEqual(checkIsolation([{ name: 'embed/tls', loaded: [] }]), [
			'importing embed/tls does not load src/embed/tls.ts',
		]);
	});
});
