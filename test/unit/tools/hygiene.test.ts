import assert from 'node:assert/strict';
import { test } from 'node:test';
import { checkLock, findTraces, tracesOf } from '../../../tools/checks/hygiene.ts';

const MACHINE = { root: '/build/ann/clone', home: '/home/ann', registry: 'https://packages.example.net/npm/' };

test('the clone, the folder around it, the home and the registry are traces of a machine', () => {
	const text = ['see /build/ann/clone/src', 'cd /build/ann/other', '~ is /home/ann/', '# packages.example.net', 'ok'];
	assert.deepEqual(findTraces('a.md', text.join('\n'), tracesOf(MACHINE)), [
		'a.md:1: names a path of this machine',
		'a.md:1: names a path of this machine',
		'a.md:2: names a path of this machine',
		'a.md:3: names a path of this machine',
		'a.md:4: names the package registry',
	]);
});

test('a locked package with an address is reported, a workspace is not', () => {
	const packages = {
		'': {},
		'node_modules/a': { resolved: 'https://packages.example.net/a.tgz' },
		'node_modules/b': { integrity: 'sha512-x' },
		'node_modules/c': { resolved: 'tools/c', link: true },
	};
	const breaches = checkLock('package-lock.json', { packages });
	assert.equal(breaches.length, 1);
	assert.match(breaches[0] ?? '', /node_modules\/a has a 'resolved' address/);
});
