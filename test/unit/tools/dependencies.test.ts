import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { checkDependencies, checkNone } from '../../../tools/checks/dependencies.ts';

const architecture = (...rows: string[]) =>
	['# Architecture', '', '## Dependencies', '', '| Package | Why |', '|---|---|', ...rows, '', '## Drain', ''].join(
		'\n',
	);

describe('run-time dependencies', () => {
	test('of a package that promises to have none are told; peers are none', () => {
		const manifest = { name: 'gate', version: '', peerDependencies: { hono: '>=4' } };
		assert.deepEqual(checkNone(manifest), []);
		const installed = { ...manifest, dependencies: { undici: '8' }, optionalDependencies: { redis: '1' } };
		assert.deepEqual(checkNone(installed), ['gate installs undici', 'gate installs redis']);
	});

	test('that have each a reason in ARCHITECTURE.md pass', () => {
		const dependencies = { zod: '4.0.0', '@a/b': '1.0.0' };
		assert.deepEqual(
			checkDependencies({ name: '', version: '', dependencies }, architecture('| `zod` | schema |', '| `@a/b` | b |')),
			[],
		);
	});

	test('without a row, without a reason, or gone are told', () => {
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

	test('of more than eight are told', () => {
		const names = Array.from({ length: 9 }, (_, i) => `p${i}`);
		const dependencies = Object.fromEntries(names.map((name) => [name, '1.0.0']));
		const rows = names.map((name) => `| \`${name}\` | why |`);
		assert.deepEqual(checkDependencies({ name: '', version: '', dependencies }, architecture(...rows)), [
			'package.json has 9 run-time dependencies, more than 8',
		]);
	});

	test('are looked for in their own section, also when it is the last', () => {
		const manifest = { name: '', version: '', dependencies: { zod: '4.0.0' } };
		assert.deepEqual(checkDependencies(manifest, '## Drain\n| `zod` | schema |\n'), [
			"ARCHITECTURE.md has no section '## Dependencies'",
		]);
		assert.deepEqual(checkDependencies(manifest, '## Dependencies\n| `zod` | schema |'), []);
	});
});
