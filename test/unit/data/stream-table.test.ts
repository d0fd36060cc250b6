import assert from 'node:assert/strict';
import { connect, createServer, type ServerHttp2Session, type ServerHttp2Stream } from 'node:http2';
import type { AddressInfo } from 'node:net';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { StreamTable, useStreamTable } from '../../../src/data/stream-table.ts';

describe('StreamTable', () => {
	it('holds what a Map holds, whatever is put in and taken out', () => {
		// Few identifiers, and such that meet in one place whatever the table's size.
		const id = fc.oneof(
			fc.integer({ min: 0, max: 40 }).map((n) => 2 * n + 1),
			fc.integer({ min: 0, max: 20 }).map((n) => 1 + n * 2 ** 12),
			fc.constantFrom(2 ** 31 - 1, 2 ** 31 - 3, 2),
		);
		const step = fc.tuple(fc.constantFrom('set', 'delete', 'get'), id);
		fc.assert(
			fc.property(fc.array(step, { maxLength: 300, size: 'max' }), (steps) => {
				const table = new StreamTable<object>();
				const model = new Map<number, object>();
				for (const [call, id] of steps) {
					const stream = {};
					if (call === 'set') {
						assert.equal(table.set(id, stream), table);
						model.set(id, stream);
					} else if (call === 'delete') {
						assert.equal(table.delete(id), model.delete(id));
					}
					assert.equal(table.get(id), model.get(id));
					assert.equal(table.size, model.size);
				}
				for (const [id, stream] of model) assert.equal(table.get(id), stream);
				const seen = new Set<object>();
				table.forEach((stream) => {
					seen.add(stream);
				});
				assert.deepEqual(seen, new Set(model.values()));
			}),
			{ numRuns: 500 },
		);
	});

	it('does not grow with the streams that have been, though one of them stays', () => {
		const table = new StreamTable<number>();
		table.set(1, 1);
		const before = process.memoryUsage();
		for (let id = 3; id < 2_000_001; id += 2) {
			table.set(id, id);
			assert.ok(table.delete(id));
		}
		assert.equal(table.get(1), 1);
		assert.equal(table.size, 1);
		// A place for each of the million would be 4 MB of numbers, and twice as much of pointers.
		assert.ok(process.memoryUsage().arrayBuffers - before.arrayBuffers < 1_000_000);
	});

	it('knows no stream 0, which is the connection', () => {
		const table = new StreamTable<number>();
		for (let id = 1; id < 32; id += 2) table.set(id, id);
		assert.equal(table.get(0), undefined);
		assert.equal(table.delete(0), false);
		assert.equal(table.size, 16);
	});

	it('may be emptied while it is gone through', () => {
		const table = new StreamTable<number>();
		for (let id = 1; id < 200; id += 2) table.set(id, id);
		const seen: number[] = [];
		table.forEach((id) => {
			seen.push(id);
			table.delete(id);
		});
		assert.equal(seen.length, 100);
		assert.equal(table.size, 0);
	});
});

describe('useStreamTable', () => {
	/** What a session of this Node keeps its streams in. */
	function streamsOf(session: ServerHttp2Session): unknown {
		const symbol = Object.getOwnPropertySymbols(session).find(({ description }) => description === 'state')!;
		return (session as unknown as Record<symbol, { streams: unknown }>)[symbol]!.streams;
	}

	/** Serves `requests` at once over one connection, whose table is exchanged if `version` is a known one. */
	async function serve(requests: number, version: string) {
		const server = createServer();
		const { promise: accepted, resolve: accept } = Promise.withResolvers<[ServerHttp2Session, boolean]>();
		server.on('session', (session) => accept([session, useStreamTable(session, version)]));
		const { promise: all, resolve: allOpen } = Promise.withResolvers<void>();
		const open: (() => void)[] = [];
		server.on('stream', (stream: ServerHttp2Stream) => {
			open.push(() => stream.respond({ ':status': 204 }, { endStream: true }));
			if (open.length === requests) allOpen();
		});
		await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening));
		const client = connect(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
		const answers = Array.from({ length: requests }, async () => {
			const request = client.request({ ':path': '/' });
			const { promise, resolve, reject } = Promise.withResolvers<void>();
			let status: unknown;
			request.on('response', (headers) => {
				status = headers[':status'];
			});
			request.on('error', reject).on('close', resolve).resume();
			await promise;
			return status;
		});
		await all;
		const [session, exchanged] = await accepted;
		const streams = streamsOf(session) as { readonly size: number };
		const atOnce = streams.size;
		for (const answer of open) answer();
		const statuses = await Promise.all(answers);
		client.close();
		await new Promise<void>((closed) => server.close(() => closed()));
		return { exchanged, streams, atOnce, statuses };
	}

	it('finds the table where this Node has it, and Node goes on with ours', async () => {
		const { exchanged, streams, atOnce, statuses } = await serve(70, process.versions.node);
		assert.equal(exchanged, true, 'this Node keeps its streams elsewhere: look at its lib/internal/http2/core.js');
		assert.ok(streams instanceof StreamTable);
		assert.equal(atOnce, 70);
		assert.deepEqual(new Set(statuses), new Set([204]));
		assert.equal(streams.size, 0);
	});

	it('leaves a Node alone that nobody has looked at', async () => {
		const { exchanged, streams, statuses } = await serve(3, '99.0.0');
		assert.equal(exchanged, false);
		assert.ok(!(streams instanceof StreamTable));
		assert.deepEqual(statuses, [204, 204, 204]);
	});

	it('does not touch a session whose insides are others', () => {
		const session = { [Symbol('state')]: { streams: undefined } };
		assert.equal(useStreamTable(session as unknown as ServerHttp2Session), false);
		assert.equal(useStreamTable({} as ServerHttp2Session), false);
	});

	it('has all that this Node calls on its table, and no more', () => {
		const source = (process as unknown as { binding(name: string): Record<string, string> }).binding('natives');
		const calls = source['internal/http2/core']!.matchAll(/\bstreams\.(\w+)/g);
		const names = new Set([...calls].map(([, name]) => name!));
		assert.deepEqual([...names].sort(), ['delete', 'forEach', 'get', 'set', 'size']);
	});
});
