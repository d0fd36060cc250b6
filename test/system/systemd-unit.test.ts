import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { resolve } from 'node:path';
import { describe, test } from 'node:test';

const UNIT = resolve(import.meta.dirname, '../../deploy/systemd/edge.service');

function analyze(...args: string[]) {
	const { error, status, stdout, stderr } = spawnSync('systemd-analyze', args, { encoding: 'utf8' });
	if (error !== undefined) throw error;
	return { status, stdout, stderr };
}

const skip = spawnSync('systemd-analyze', ['--version']).error !== undefined && 'not installed: systemd';

describe('the unit for systemd', { skip }, () => {
	test('has an exposure of at most 3.0 by systemd-analyze', () => {
		// In tenths.
		const { status, stdout } = analyze('security', '--no-pager', '--offline=true', '--threshold=30', UNIT);
		const exposure = Number(/Overall exposure level for edge\.service: ([\d.]+)/.exec(stdout)?.[1]);
		assert.ok(exposure <= 3, stdout);
		assert.equal(status, 0);
	});

	test('has no key that systemd does not know, and no value that it ignores', () => {
		const { stderr } = analyze('verify', '--man=no', UNIT);
		assert.doesNotMatch(stderr, /Unknown|ignoring|Failed to parse/i);
	});
});
