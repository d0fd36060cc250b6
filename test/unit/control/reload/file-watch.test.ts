import assert from 'node:assert/strict';
import { mkdirSync, renameSync, rmSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import {
	FileChanges,
	FileWatch,
	LOOK_INTERVAL_MS,
	stampOf,
} from '../../../../packages/proxy/src/control/reload/file-watch.ts';
import { temporaryFolder } from '../../../fixtures/pki.ts';
import { FakeTime, settle } from '../fixtures/fake-time.ts';

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
	test('are watched from their state before they were read', () => {
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

/** A watch over files whose states the test makes up. */
class TestWatch {
	readonly time = new FakeTime();
	readonly stamps = new Map<string, string>();
	/** Files that do not answer, and how to make them. */
	readonly hanging = new Map<string, PromiseWithResolvers<void>>();
	readonly asked: string[] = [];
	readonly changes: (readonly string[])[] = [];
	readonly watch: FileWatch;

	constructor(...paths: string[]) {
		for (const path of paths) this.stamps.set(path, 'first');
		this.watch = new FileWatch({ stampOf: (path) => this.#stampOf(path), timers: this.time }, paths);
	}

	static async started(...paths: string[]): Promise<TestWatch> {
		const test = new TestWatch(...paths);
		await test.watch.reading();
		test.watch.start((changed) => test.changes.push(changed));
		await test.looks(2);
		return test;
	}

	async looks(count: number): Promise<void> {
		await this.time.advance(count * LOOK_INTERVAL_MS);
	}

	hang(path: string): void {
		this.hanging.set(path, Promise.withResolvers());
	}

	release(path: string): void {
		this.hanging.get(path)!.resolve();
		this.hanging.delete(path);
	}

	async #stampOf(path: string): Promise<string> {
		this.asked.push(path);
		await this.hanging.get(path)?.promise;
		return this.stamps.get(path)!;
	}
}

describe('a watch', () => {
	test('reports changed files once, when they are unchanged for one look', async () => {
		const test = await TestWatch.started('config', 'cert', 'key');
		test.stamps.set('cert', 'second');
		await test.looks(1);
		test.stamps.set('key', 'second');
		await test.looks(1);
		assert.deepEqual(test.changes, []);
		await test.looks(1);
		assert.deepEqual(test.changes, [['cert', 'key']]);
		await test.looks(5);
		assert.equal(test.changes.length, 1);
	});

	test('follows the paths of a new configuration, and leaves the old ones', async () => {
		const test = await TestWatch.started('config', 'old');
		test.stamps.set('new', 'first');
		await test.watch.reading();
		await test.watch.follow(['config', 'new']);
		test.stamps.set('old', 'second');
		await test.looks(3);
		assert.deepEqual(test.changes, []);
		test.stamps.set('new', 'second');
		await test.looks(2);
		assert.deepEqual(test.changes, [['new']]);
	});

	test('ends when asked to', async () => {
		const test = await TestWatch.started('cert');
		test.watch.stop();
		test.stamps.set('cert', 'second');
		await test.looks(3);
		assert.deepEqual([test.changes, test.time.pending], [[], 0]);
	});

	test('asks one file at a time, so that a file system which hangs holds one thread and no more', async () => {
		const test = await TestWatch.started('config', 'cert', 'key');
		test.asked.length = 0;
		test.hang('cert');
		await test.looks(10);
		assert.deepEqual(test.asked, ['config', 'cert']);
		test.stamps.set('key', 'second');
		test.release('cert');
		await settle();
		await test.looks(1);
		assert.deepEqual(test.changes, [['key']]);
	});

	test('holds a reload up for 5 s at most, and has the files read again once they can be looked at', async () => {
		const test = await TestWatch.started('config', 'cert');
		test.hang('cert');
		let begun = false;
		void test.watch.reading().then(() => {
			begun = true;
		});
		await test.time.advance(4_999);
		assert.equal(begun, false);
		await test.time.advance(1);
		assert.equal(begun, true);
		test.release('cert');
		await test.looks(2);
		assert.deepEqual(test.changes, [['config', 'cert']]);
	});
});

describe('the stamp of a file', () => {
	const dir = temporaryFolder('stamps');
	const write = (name: string, text: string) => {
		const path = join(dir, name);
		writeFileSync(path, text);
		return path;
	};

	test('is the same while the file is unchanged', async () => {
		const path = write('same', 'x');
		assert.equal(await stampOf(path), await stampOf(path));
	});

	test('changes with each way of replacing the file', async () => {
		const path = write('replaced', 'first');
		const seen = [await stampOf(path)];
		const replace: (() => void)[] = [
			() => write('replaced', 'longer than the first'),
			() => renameSync(write('replaced.new', 'renamed over'), path),
			() => rmSync(path),
			() => write('replaced', 'there again'),
			// As `cp -p` does, with the same length.
			() => {
				write('replaced', 'THERE AGAIN');
				utimesSync(path, 1, 1);
			},
		];
		for (const step of replace) {
			step();
			seen.push(await stampOf(path));
		}
		assert.equal(new Set(seen).size, seen.length, seen.join('\n'));
		assert.equal(seen[3], 'ENOENT');
	});

	test('is another one when the folder after a symbolic link is exchanged, as Kubernetes does', async () => {
		for (const version of ['..v1', '..v2']) {
			mkdirSync(join(dir, version));
			// The same in everything but its place.
			writeFileSync(join(dir, version, 'tls.crt'), 'same');
			utimesSync(join(dir, version, 'tls.crt'), 1, 1);
		}
		symlinkSync('..v1', join(dir, '..data'));
		symlinkSync('..data/tls.crt', join(dir, 'tls.crt'));
		const before = await stampOf(join(dir, 'tls.crt'));
		symlinkSync('..v2', join(dir, '..data_tmp'));
		renameSync(join(dir, '..data_tmp'), join(dir, '..data'));
		assert.notEqual(await stampOf(join(dir, 'tls.crt')), before);
	});
});
