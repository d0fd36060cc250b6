import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { resolve } from 'node:path';
import { test } from 'node:test';
import { CASES } from '../../../bench/cases.ts';

const skip = spawnSync('python3', ['--version']).error !== undefined && 'not installed: python3';

function bench(...args: string[]) {
	const file = resolve(import.meta.dirname, '../../../bench/run.ts');
	return spawnSync(process.execPath, [file, ...args], { encoding: 'utf8' });
}

test('npm run bench -- --help names every case, its own options and those of compare.py', { skip }, () => {
	const { status, stdout } = bench('--help');
	assert.equal(status, 0);
	for (const { name, args } of CASES) {
		assert.match(stdout, new RegExp(`^Cases:.*\\b${name}\\b`, 'm'));
		for (const option of args.filter((arg) => arg.startsWith('--'))) assert.ok(stdout.includes(`  ${option}`), option);
	}
	for (const option of ['--only', '--rounds', '--secs', '--more', '--envoy', '--ferryman', '--skip']) {
		assert.ok(stdout.includes(option), option);
	}
});

test('npm run bench refuses a case that it does not know, and says which there are', () => {
	const { status, stderr } = bench('--only', 'h3');
	assert.equal(status, 2);
	assert.match(stderr, /no case 'h3'; there are h2-varied, /);
});
