import assert from 'node:assert/strict';
import { test } from 'node:test';
import { missingPlatforms } from '../../../tools/lock.ts';

test('adds the missing platforms to a lock, each marked so that others skip it', () => {
	const optionalDependencies = {
		'@b/cli-linux-x64': '2.0.0',
		'@b/cli-linux-x64-musl': '2.0.0',
		'@b/cli-linux-arm-gnueabihf': '2.0.0',
		'@b/cli-darwin-arm64': '2.0.0',
		'@b/cli-wasm32-wasi': '2.0.0',
	};
	const packages = {
		'node_modules/@b/b': { dev: true, optionalDependencies },
		'node_modules/@b/cli-linux-x64': { version: '2.0.0' },
	};
	const entry = { version: '2.0.0', dev: true, optional: true };
	assert.deepEqual(missingPlatforms({ packages }), {
		'node_modules/@b/cli-linux-x64-musl': { ...entry, os: ['linux'], cpu: ['x64'], libc: ['musl'] },
		'node_modules/@b/cli-linux-arm-gnueabihf': { ...entry, os: ['linux'], cpu: ['arm'], libc: ['glibc'] },
		'node_modules/@b/cli-darwin-arm64': { ...entry, os: ['darwin'], cpu: ['arm64'] },
		'node_modules/@b/cli-wasm32-wasi': { ...entry, cpu: ['wasm32'] },
	});
});
