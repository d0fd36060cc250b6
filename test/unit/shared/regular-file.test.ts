import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import type { FileHandle } from 'node:fs/promises';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { before, describe, test } from 'node:test';
import {
	MAX_FILE_BYTES,
	readRegularFile,
	readRegularFileSync,
} from '../../../packages/gate/src/shared/regular-file.ts';
import { temporaryFolder } from '../../fixtures/pki.ts';

const WINDOWS = process.platform === 'win32';
const dir = temporaryFolder('regular-file');
const at = (name: string) => join(dir, name);

before(() => {
	mkdirSync(at('folder'));
	writeFileSync(at('empty'), '');
	writeFileSync(at('text'), 'text');
	writeFileSync(at('largest'), Buffer.alloc(MAX_FILE_BYTES, 'x'));
	writeFileSync(at('too-large'), Buffer.alloc(MAX_FILE_BYTES + 1, 'x'));
	if (WINDOWS) return;
	symlinkSync('text', at('link'));
	symlinkSync('circle', at('circle'));
	execFileSync('mkfifo', [at('fifo')]);
});

const readers: [name: string, read: (path: string) => Promise<Buffer>][] = [
	['readRegularFile', (path) => readRegularFile(path)],
	['readRegularFileSync', async (path) => readRegularFileSync(path)],
];
for (const [name, read] of readers) {
	describe(name, { skip: WINDOWS }, () => {
		test('reads regular files whole, up to 8 MiB, also through links', async () => {
			assert.equal(String(await read(at('text'))), 'text');
			assert.equal(String(await read(at('link'))), 'text');
			assert.equal((await read(at('empty'))).length, 0);
			assert.equal((await read(at('largest'))).length, MAX_FILE_BYTES);
		});

		test('reads files whose size is not known in advance', async (t) => {
			if (process.platform !== 'linux') return t.skip('reads /proc');
			assert.match(String(await read('/proc/self/status')), /^Name:/);
		});

		const refusals: [path: string, message: RegExp][] = [
			[at('none'), /^there is no such file$/],
			[at('text/below'), /^a part of its path is not a directory$/],
			[at('circle'), /^its symbolic links form a loop$/],
			[at('folder'), /^it is a directory$/],
			[at('fifo'), /^it is a FIFO, not a regular file$/],
			['/dev/zero', /^it is a device, not a regular file$/],
			[at('too-large'), /^it is larger than 8 MiB$/],
		];
		for (const [path, message] of refusals) {
			test(`refuses at once what is not a regular file: ${message.source}`, async () => {
				await assert.rejects(read(path), { name: 'FileError', message });
			});
		}

		test('refuses a socket', async () => {
			const server = createServer().listen(at(`${name}.sock`));
			await once(server, 'listening');
			await assert.rejects(read(at(`${name}.sock`)), { message: /^it is a socket.*, not a regular file$/ });
			server.close();
		});
	});
}

describe('a file system that hangs', () => {
	/** Opens never, until released. */
	function stuck() {
		const { promise, reject } = Promise.withResolvers<FileHandle>();
		return { open: () => promise, release: () => reject(new Error('released')) };
	}
	/** The reads of one test must not count in the next one. */
	const settled = () => new Promise((resolve) => setImmediate(resolve));

	test('is abandoned after the time limit, with an error that says so', async () => {
		const { open, release } = stuck();
		await assert.rejects(readRegularFile('/nfs/a', { open, limitMs: 5 }), {
			name: 'FileError',
			message: 'it could not be read within 0.005 s; check its file system',
		});
		release();
		await settled();
	});

	test('blocks one thread for each file, and two in all, until a read returns', async () => {
		const { open, release } = stuck();
		await assert.rejects(readRegularFile('/nfs/a', { open, limitMs: 1 }), /within/);
		await assert.rejects(readRegularFile('/nfs/a'), { message: 'an earlier read of it has not finished' });
		assert.equal(String(await readRegularFile(at('text'))), 'text', 'others are read');
		await assert.rejects(readRegularFile('/nfs/b', { open, limitMs: 1 }), /within/);
		await assert.rejects(readRegularFile(at('text')), {
			message: 'reads of other files have not finished (/nfs/a, /nfs/b)',
		});
		release();
		await settled();
		assert.equal(String(await readRegularFile(at('text'))), 'text');
	});

	test('does not keep the process from exiting', { skip: WINDOWS }, async () => {
		// An open without O_NONBLOCK hangs in a FIFO as it does in a mount that has gone.
		const script = `
			import { open } from 'node:fs/promises';
			import { readRegularFile } from ${JSON.stringify(new URL('../../../packages/gate/src/shared/regular-file.ts', import.meta.url).href)};
			readRegularFile(${JSON.stringify(at('fifo'))}, { open: (path) => open(path, 'r'), limitMs: 1000 }).catch((error) => {
				console.log(error.message);
				process.exit(1);
			});`;
		const child = spawn(process.execPath, ['--input-type=module', '--eval', script], { timeout: 20_000 });
		let output = '';
		child.stdout.on('data', (text) => {
			output += text;
		});
		const [code, signal] = await once(child, 'close');
		assert.match(output, /^it could not be read within 1 s/);
		assert.deepEqual([code, signal], [null, 'SIGKILL'], 'its own, not the SIGTERM of the time limit');
	});
});
