import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { MAX_CLIENTS, StatusEvents } from '../../../../src/control/status/events.ts';
import { around, type Fragment, leaf } from '../../../../src/control/status/fragment.ts';
import { html } from '../../../../src/control/status/markup.ts';
import { parseView } from '../../../../src/control/status/view.ts';
import { FakeTime } from '../fixtures/fake-time.ts';

/** A reader that takes what it gets, or does not. */
class Reader {
	readonly got: string[] = [];
	writableNeedDrain = false;
	destroyed = false;
	#onClose = () => {};

	write(text: string): boolean {
		this.got.push(text);
		return true;
	}
	on(_event: string, listener: () => void): this {
		this.#onClose = listener;
		return this;
	}
	destroy(): this {
		this.destroyed = true;
		this.close();
		return this;
	}
	close(): void {
		this.#onClose();
	}
	get elements(): string[][] {
		return this.got.filter((text) => text.startsWith('data: ')).map((text) => JSON.parse(text.slice(6)));
	}
}

function events() {
	const time = new FakeTime();
	const state = { first: '1', second: '1', renderings: 0, delay: Promise.resolve() };
	const render = async (): Promise<Fragment> => {
		state.renderings++;
		await state.delay;
		const part = (id: string, text: string) => leaf(id, html`<p id="${id}">${text}</p>`);
		return around(
			'page',
			html`<main id="page">`,
			[part('first', state.first), part('second', state.second)],
			html`</main>`,
		);
	};
	const faults: unknown[] = [];
	const hub = new StatusEvents({ timers: time, render, onFault: (error) => faults.push(error) });
	const add = (query = '') => {
		const reader = new Reader();
		hub.add(parseView(query), reader as never);
		return reader;
	};
	return { hub, time, state, add, faults };
}

describe('the stream of the status page', () => {
	test('begins with the whole, and then brings what has changed, once a second', async () => {
		const { time, state, add } = events();
		const reader = add();
		await time.advance(0);
		assert.equal(reader.got[0], 'retry: 3000\n\n');
		assert.deepEqual(reader.elements, [['<main id="page"><p id="first">1</p><p id="second">1</p></main>']]);
		state.second = '2';
		await time.advance(1_000);
		assert.deepEqual(reader.elements[1], ['<p id="second">2</p>']);
		await time.advance(2_000);
		assert.deepEqual(reader.elements.slice(2), [[], []]);
	});

	test('asks for a rendering a second and reader, and for none while there is no reader', async () => {
		const { hub, time, state, add } = events();
		await time.advance(5_000);
		assert.deepEqual([state.renderings, time.pending], [0, 0]);
		const readers = Array.from({ length: 5 }, () => add());
		await time.advance(0);
		state.renderings = 0;
		await time.advance(1_000);
		assert.equal(state.renderings, 5);
		for (const reader of readers) reader.close();
		assert.deepEqual([hub.clients, time.pending], [0, 0]);
	});

	test('waits for a rendering that takes longer than a second, and asks for no second one meanwhile', async () => {
		const { time, state, add } = events();
		const { promise, resolve } = Promise.withResolvers<void>();
		state.delay = promise;
		const [reader, gone] = [add(), add()];
		await time.advance(5_000);
		assert.deepEqual([state.renderings, reader.elements.length], [2, 0]);
		gone.close();
		resolve();
		await time.advance(0);
		assert.deepEqual([reader.elements.length, gone.elements.length], [1, 0]);
	});

	test('goes on after a rendering that has failed', async () => {
		const { time, state, add, faults } = events();
		state.delay = Promise.reject(new Error('no such fact'));
		const reader = add();
		await time.advance(0);
		assert.match(String(faults), /^Error: no such fact$/);
		state.delay = Promise.resolve();
		await time.advance(1_000);
		assert.equal(reader.elements.length, 1);
	});

	test('has room for 16 readers', () => {
		const { hub, add } = events();
		const readers = Array.from({ length: MAX_CLIENTS }, () => add());
		assert.deepEqual([MAX_CLIENTS, hub.isFull], [16, true]);
		readers[0]!.close();
		assert.equal(hub.isFull, false);
	});

	test('keeps nothing for a reader that is slow, tells it all that it has missed, and drops it after ten', async () => {
		const { hub, time, state, add } = events();
		const reader = add();
		await time.advance(0);
		reader.writableNeedDrain = true;
		state.first = '2';
		await time.advance(2_000);
		state.second = '3';
		await time.advance(1_000);
		assert.equal(reader.elements.length, 1);
		reader.writableNeedDrain = false;
		await time.advance(1_000);
		assert.deepEqual(reader.elements[1], ['<p id="first">2</p>', '<p id="second">3</p>']);
		reader.writableNeedDrain = true;
		await time.advance(9_000);
		assert.equal(reader.destroyed, false);
		await time.advance(1_000);
		assert.deepEqual([reader.destroyed, hub.clients, time.pending], [true, 0, 0]);
	});
});
