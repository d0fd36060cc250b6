import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { checkDependencies, checkNone } from '../../../tools/checks/dependencies.ts';

const architecture = (...rows: string[]) =>
	['# Architecture', '', '## Dependencies', '', '| Package | Why |', '|---|---|', ...rows, '', '## Drain', ''].join(
		'\n',
	);

describe('run-time dependencies', () => {
	test('of a package that promises none are reported, except peers', () => {
		const manifest = { name: 'gate', version: '', peerDependencies: { hono: '>=4' } };
		assert.deepEqual(checkNone(manifest), []);
		const installed = { ...manifest, dependencies: { undici: '8' }, optionalDependencies: { redis: '1' } };
		assert.deepEqual(checkNone(installed), ['gate installs undici', 'gate installs redis']);
	});

	test('without a row, without a reason, or removed are reported', () => {
		const manifest = {
			name: '',
			version: '',
			dependencies: { zod: '4.0.0' },
			optionalDependencies: { redis: '1.0.0' },
		};
		assert.deepEqual(checkDependencies(manifest, architecture('| `redis` |  |', '| `left` | pads |')), [
			'ARCHITECTURE.md gives no reason for zod',
			'ARCHITECTURE.md gives no reason for redis',
			'ARCHITECTURE.md gives a reason for left, which package.json does not have',
		]);
	});
});
