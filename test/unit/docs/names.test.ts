/** Metrics that pages name exist, and pictures and tables of the pipeline have its gates in its order. Of files, tools/checks/paths.ts. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { KEYS } from '../../../packages/proxy/src/config/schema.ts';
import { FAMILIES } from '../../../packages/proxy/src/control/metrics/family-table.ts';
import { gatesWhere, PIPELINE } from '../../../packages/proxy/src/gates/pipeline.ts';
import { PAGES, readPage } from '../../fixtures/doc-blocks.ts';

/** Some keys of the configuration look like metrics. */
const NAMES = new Set<string>([
	...Object.values(FAMILIES).map(({ name }) => name),
	...Array.from(KEYS.values()).flat(),
]);
/** History may name what has gone, and other programs have directives that look like our metrics. */
const OTHERS = [
	'CHANGELOG.md',
	'bench/DECISIONS.md',
	'bench/RESULTS.md',
	'docs/reference/upgrade-notes.md',
	'docs/how-to/moving.md',
	'docs/how-to/tcp-balancer.md',
];

it('every metric that a page names exists', () => {
	const unknown = PAGES.filter((page) => !OTHERS.includes(page)).flatMap((page) =>
		Array.from(readPage(page).matchAll(/(?<![\w.:/-])proxy_[a-z\d_]+[a-z\d]\b(?!_?\*)/g), ([name]) => name)
			.filter((name) => !NAMES.has(name) && !NAMES.has(name.replace(/_(?:bucket|sum|count|created)$/, '')))
			.map((name) => `${page}: ${name}`),
	);
	assert.deepEqual(unknown, []);
});

describe('the gates of the pipeline, in its order, are in', () => {
	const life = readPage('docs/explanation/life-of-a-request.md');
	const [, alt] = /!\[A client's request passes (.*?), each with .*\]\(docs\/images\/flow\.svg\)/.exec(
		readPage('README.md'),
	)!;
	const mermaid = life.slice(life.indexOf('```mermaid'), life.indexOf('-. closed .->'));
	const found = (text: string, pattern: RegExp) => Array.from(text.matchAll(pattern), ([, step]) => step!);

	for (const [picture, steps] of Object.entries({
		'docs/images/flow.svg': found(readPage('docs/images/flow.svg'), />\d\. ([^<]+)</g),
		'README.md': alt!.split(/, | and /),
		'the picture of docs/explanation/life-of-a-request.md': found(mermaid, /[A-Z]\[([^\]]+)\]/g).slice(2),
	})) {
		it(picture, () => {
			const names = Object.keys(PIPELINE);
			const places = steps.map((step) => {
				const [first] = step.split(/, | and /);
				return names.findIndex((name) => name.endsWith(first!) || name.startsWith(first!));
			});
			assert.ok(places.length >= 6 && !places.includes(-1), `${steps}: ${places}`);
			assert.deepEqual(
				places,
				places.toSorted((a, b) => a - b),
			);
		});
	}

	it('the tables of docs/explanation/life-of-a-request.md list every explained gate in order', () => {
		const [tables] = life.split('`packages/proxy/src/data/request/admit.ts` is this table as code');
		assert.deepEqual(found(tables!, /\*\*([a-z ]+)\*\*/g), gatesWhere('explained'));
	});
});
