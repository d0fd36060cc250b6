import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { describe, it } from 'node:test';
import { HEAP_FLAGS } from '../../../../packages/proxy/src/control/workers/heap.ts';

describe('the settings of the heaps', () => {
	const options = execFileSync(process.execPath, ['--v8-options'], { encoding: 'utf8' });
	for (const flag of HEAP_FLAGS) {
		it(`this V8 knows ${flag}`, () => {
			const name = flag.replace(/^--(no-)?/, '').replace(/=.*/, '');
			assert.match(options, new RegExp(`^ +--${name} `, 'm'));
		});
	}
});
