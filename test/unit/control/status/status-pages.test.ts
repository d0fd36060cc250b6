import assert from 'node:assert/strict';
import type { IncomingMessage } from 'node:http';
import { describe, mock, test } from 'node:test';
import type { PageResponse } from '../../../../packages/proxy/src/control/admin/listener.ts';
import type { StatusPages } from '../../../../packages/proxy/src/control/status/status-pages.ts';
import type { UpstreamStatus } from '../../../../packages/proxy/src/control/status/upstreams.ts';
import { upstreamsPanel } from '../../../../packages/proxy/src/control/status/upstreams-panel.ts';
import { type StatusPage, WHOLE_VIEW } from '../../../../packages/proxy/src/control/status/view.ts';
import { type ExampleOptions, examplePages } from '../../../system/status/example.ts';

const MANY = 40;
const PATHS = ['/', '/status/page', '/status.json', '/?rows=200', '/status.json?rows=200'];

function ask(pages: StatusPages, url: string): Promise<PageResponse> {
	const route = pages.routes.get(url.split('?')[0]!)!;
	return Promise.resolve(route({ url } as IncomingMessage));
}

/** Every look at the clock takes a millisecond, so that a slice has at most four steps. @returns turns of the loop meanwhile. */
async function turnsOf(work: () => Promise<unknown>): Promise<number> {
	let [now, turns, isDone] = [0, 0, false];
	const clock = mock.method(performance, 'now', () => ++now);
	const turn = () => {
		turns++;
		if (!isDone) setImmediate(turn);
	};
	setImmediate(turn);
	try {
		await work();
	} finally {
		isDone = true;
		clock.mock.restore();
	}
	return turns;
}

/** Turns that pages made by `options` need for `work`. */
async function costOf(work: (pages: StatusPages) => Promise<unknown>, options: ExampleOptions = {}): Promise<number> {
	const pages = examplePages(options);
	return turnsOf(() => work(pages));
}

describe('the pages of many upstreams', () => {
	for (const path of PATHS) {
		test(`${path} is made in slices between which the event loop has its turns`, async () => {
			const few = await costOf((pages) => ask(pages, path));
			const many = await costOf((pages) => ask(pages, path), { others: MANY });
			// Each upstream is read, and looked at by the filter: two steps.
			assert.ok(many - few >= (2 * MANY) / 4, `${many} turns, with six upstreams ${few}`);
		});
	}

	test('128 requests for one view at once cost as many turns as one', async () => {
		const options = { others: MANY };
		for (const path of PATHS) {
			const one = await costOf((pages) => ask(pages, path), options);
			const all = await costOf(async (pages) => {
				const answers = await Promise.all(Array.from({ length: 128 }, () => ask(pages, path)));
				assert.equal(new Set(answers.map(({ body }) => body)).size, 1);
			}, options);
			assert.ok(all <= one + 2, `${path}: ${all} turns, for one request ${one}`);
		}
	});

	test('several views at once share the facts', async () => {
		const askAll = (views: number) =>
			costOf((pages) => Promise.all(Array.from({ length: views }, (_, i) => ask(pages, `/status.json?filter=x${i}`))), {
				others: MANY,
			});
		const [one, ten] = [await askAll(1), await askAll(10)];
		// One of the two steps for each upstream is for all views.
		assert.ok(ten <= 10 * one - (9 * MANY) / 5, `${ten} turns, for one view ${one}`);
	});
});

test('/status.json is what JSON.stringify writes', async () => {
	const { body } = await ask(examplePages({ tenants: true, hostile: '"\\<\u2028' }), '/status.json');
	assert.equal(body, `${JSON.stringify(JSON.parse(String(body)))}\n`);
});

test('an upstream with protocol auto shows the protocols of its open connections', async () => {
	const { body } = await ask(examplePages(), '/status.json');
	const page: StatusPage = JSON.parse(String(body));
	const [first] = page.upstreams.items;
	const notesWith = (changes: Partial<UpstreamStatus>) => {
		const panel = upstreamsPanel(
			{ ...page, upstreams: { ...page.upstreams, items: [{ ...first!, ...changes }] } },
			WHOLE_VIEW,
		);
		let step = panel.next();
		while (!step.done) step = panel.next();
		return /class="authority">.*?<small>(.*?)<\/small>/s.exec(String(step.value))![1]!;
	};
	const cases: [UpstreamStatus['chosen'], words: string][] = [
		[[], 'HTTP/2 or HTTP/1.1'],
		[['h2'], 'auto: HTTP/2'],
		[['http/1.1', 'h2'], 'auto: HTTP/1.1 and HTTP/2'],
	];
	for (const [chosen, words] of cases) {
		assert.ok(notesWith({ protocol: 'auto', chosen }).includes(words), words);
	}
	assert.ok(!notesWith({ protocol: 'h2', chosen: null }).includes('auto'));
});

test('/status/page is the part of the page that changes', async () => {
	const pages = examplePages();
	const [{ body: part }, { body: whole }] = await Promise.all([ask(pages, '/status/page'), ask(pages, '/')]);
	assert.match(String(part), /^\s*<div id="page" data-build="[\w-]{16}">/);
	assert.ok(String(whole).includes(String(part)));
	assert.doesNotMatch(String(part), /<style|<script>/);
});
