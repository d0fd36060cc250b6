import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { FileChanges } from '../../../../packages/proxy/src/control/reload/file-watch.ts';

/** `key@2` is the second state of the file `key`. */
function stamps(...states: string[]): Map<string, string> {
	return new Map(states.map((state) => state.split('@') as [string, string]));
}

/** Files that were read in their first state, and have been looked at since. */
function watched(...names: string[]): FileChanges {
	const changes = new FileChanges();
	const first = stamps(...names.map((name) => `${name}@1`));
	changes.reading(first);
	assert.deepEqual(changes.look(first), []);
	return changes;
}

describe('changed files', () => {
	test('are read again once two looks in a row find them the same, and then no more', () => {
		const changes = watched('cert', 'key');
		assert.deepEqual(changes.look(stamps('cert@2', 'key@1')), [], 'somebody may be writing');
		assert.deepEqual(changes.look(stamps('cert@2', 'key@1')), ['cert']);
		assert.deepEqual(changes.look(stamps('cert@2', 'key@1')), []);
		assert.deepEqual(changes.look(stamps('cert@2', 'key@1')), []);
	});

	test('one after the other are one change, when the last of them is still', () => {
		const changes = watched('cert', 'key', 'ca');
		assert.deepEqual(changes.look(stamps('cert@2', 'key@1', 'ca@1')), []);
		assert.deepEqual(changes.look(stamps('cert@2', 'key@2', 'ca@1')), []);
		assert.deepEqual(changes.look(stamps('cert@3', 'key@2', 'ca@1')), []);
		assert.deepEqual(changes.look(stamps('cert@3', 'key@2', 'ca@1')), ['cert', 'key']);
	});

	test('files that are back at their old state are not a change', () => {
		const changes = watched('cert');
		assert.deepEqual(changes.look(stamps('cert@ENOENT')), []);
		assert.deepEqual(changes.look(stamps('cert@1')), []);
		assert.deepEqual(changes.look(stamps('cert@1')), []);
	});

	test('between the start and the first look are noticed', () => {
		const changes = new FileChanges();
		changes.reading(stamps('cert@1'));
		assert.deepEqual(changes.look(stamps('cert@2')), []);
		assert.deepEqual(changes.look(stamps('cert@2')), ['cert']);
	});

	test('changed files that a reload by signal has read are not read again', () => {
		const changes = watched('cert');
		assert.deepEqual(changes.look(stamps('cert@2')), []);
		changes.reading(stamps('cert@2'));
		assert.deepEqual(changes.look(stamps('cert@2')), []);
		assert.deepEqual(changes.look(stamps('cert@2')), []);
	});

	test('files that change while a reload reads them are read again', () => {
		const changes = watched('cert');
		changes.reading(stamps('cert@2'));
		assert.deepEqual(changes.look(stamps('cert@3')), []);
		assert.deepEqual(changes.look(stamps('cert@3')), ['cert']);
	});
});

describe('files that a new configuration names', () => {
	test('are watched from what they were before they were read', () => {
		const changes = watched('config', 'old');
		changes.reading(stamps('config@2', 'old@1'));
		changes.follow(['config', 'new'], stamps('new@1'));
		assert.deepEqual(changes.look(stamps('config@2', 'new@1')), []);
		assert.deepEqual(changes.look(stamps('config@2', 'new@1')), [], 'they have just been read');
		assert.deepEqual(changes.look(stamps('config@2', 'new@2')), []);
		assert.deepEqual(changes.look(stamps('config@2', 'new@2')), ['new']);
	});

	test('do not hide that one which was watched before has changed meanwhile', () => {
		const changes = watched('config', 'old');
		changes.reading(stamps('config@2', 'old@1'));
		changes.follow(['config', 'new'], stamps('new@1'));
		assert.deepEqual(changes.look(stamps('config@3', 'new@1')), []);
		assert.deepEqual(changes.look(stamps('config@3', 'new@1')), ['config']);
	});

	test('are read again if nothing could be found out about them', () => {
		const changes = watched('config');
		changes.follow(['config', 'new'], stamps());
		assert.deepEqual(changes.look(stamps('config@1', 'new@1')), []);
		assert.deepEqual(changes.look(stamps('config@1', 'new@1')), ['new']);
	});
});
