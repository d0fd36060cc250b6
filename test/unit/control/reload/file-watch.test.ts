import assert from 'node:assert/strict';
import { mkdirSync, renameSync, rmSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { FileWatch, LOOK_INTERVAL_MS, stampOf } from '../../../../packages/proxy/src/control/reload/file-watch.ts';
import { temporaryFolder } from '../../../fixtures/pki.ts';
import { FakeTime, settle } from '../fixtures/fake-time.ts';

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

	test('tells of what changed while it was being set up', async () => {
		const test = new TestWatch('cert');
		await test.watch.reading();
		test.stamps.set('cert', 'second');
		test.watch.start((changed) => test.changes.push(changed));
		await test.looks(2);
		assert.deepEqual(test.changes, [['cert']]);
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
