import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { describe, it } from 'node:test';
import { heapFlags } from '../../../../packages/proxy/src/control/workers/heap.ts';

describe('the settings of the heaps', () => {
	const options = execFileSync(process.execPath, ['--v8-options'], { encoding: 'utf8' });
	for (const flag of new Set([...heapFlags('collected'), ...heapFlags('streaming')])) {
		it(`this V8 knows ${flag}`, () => {
			const name = flag.replace(/^--(no-)?/, '').replace(/=.*/, '');
			assert.match(options, new RegExp(`^ +--${name} `, 'm'));
		});
	}

	it('leave room for buffers of reads in both modes, so that they cause no full collections', () => {
		for (const bodyMode of ['collected', 'streaming']) {
			assert.ok(heapFlags(bodyMode).includes('--initial-old-space-size=64'), bodyMode);
		}
	});

	it('keep the young generation small if bodies are collected', () => {
		const isSmall = (bodyMode: string) => heapFlags(bodyMode).some((flag) => flag.startsWith('--max-semi-space-size='));
		assert.deepEqual([isSmall('collected'), isSmall('streaming')], [true, false]);
	});
});
