/** Names in the pages: metrics that there are, files that there are, and gates in the order in which they are asked. */
import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { KEYS } from '../../../packages/proxy/src/config/schema.ts';
import { FAMILIES } from '../../../packages/proxy/src/control/metrics/family-table.ts';
import { gatesWhere, PIPELINE } from '../../../packages/proxy/src/gates/pipeline.ts';
import { PAGES, ROOT, readPage } from '../../fixtures/doc-blocks.ts';

const METRICS = new Set<string>(Object.values(FAMILIES).map(({ name }) => name));
/** Keys of the configuration, of which some look like metrics. */
const OWN_KEYS = new Set(Array.from(KEYS.values()).flat());
/** History may name what has gone, and bench/RESULTS.md tells of other commits. */
const OF_TODAY = PAGES.filter(
	(page) => !['CHANGELOG.md', 'bench/RESULTS.md', 'docs/reference/upgrade-notes.md'].includes(page),
);

describe('names in the pages', () => {
	for (const page of OF_TODAY) {
		it(`${page}: metrics and files are there`, () => {
			const text = readPage(page);
			// Directives of nginx look like our metrics.
			const metrics = ['docs/how-to/moving.md', 'docs/how-to/tcp-balancer.md'].includes(page)
				? []
				: Array.from(text.matchAll(/(?<![\w.:/-])proxy_[a-z\d_]+[a-z\d]\b(?!_?\*)/g), ([name]) => name);
			const unknown = metrics.filter(
				(name) => !OWN_KEYS.has(name) && !METRICS.has(name.replace(/_(?:bucket|sum|count|created)$/, '')),
			);
			const files = Array.from(
				text.matchAll(/`((?:packages|test|tools|bench|deploy|docs)\/[\w./-]+)`/g),
				([, file]) => file!,
			);
			// A build makes these.
			const isBuilt = (file: string) => /^packages\/\w+\/dist(?:-streaming)?$/.test(file);
			const missing = files.filter((file) => !isBuilt(file) && !existsSync(join(ROOT, file)));
			assert.deepEqual({ unknown, missing }, { unknown: [], missing: [] });
		});
	}
});

describe('pictures of the pipeline', () => {
	const [, alt] = /!\[A client's request passes (.*?), each with .*\]\(docs\/images\/flow\.svg\)/.exec(
		readPage('README.md'),
	)!;
	const svg = readFileSync(join(ROOT, 'docs/images/flow.svg'), 'utf8');
	const life = readPage('docs/explanation/life-of-a-request.md');
	const mermaid = life.slice(life.indexOf('```mermaid'), life.indexOf('-. closed .->'));
	const pictures = {
		'docs/images/flow.svg': Array.from(svg.matchAll(/>\d\. ([^<]+)</g), ([, step]) => step!),
		'README.md': alt!.split(/, | and /),
		'docs/explanation/life-of-a-request.md': Array.from(
			mermaid.matchAll(/[A-Z]\[([^\]]+)\]/g),
			([, step]) => step!,
		).slice(2),
	};
	for (const [picture, steps] of Object.entries(pictures)) {
		it(`${picture} shows gates of the pipeline, in its order`, () => {
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
});

describe('docs/explanation/life-of-a-request.md', () => {
	const page = readPage('docs/explanation/life-of-a-request.md');

	it('has the gates of proxy explain, in the order in which they are asked', () => {
		const [tables] = page.split('`packages/proxy/src/data/request/admit.ts` is this table as code');
		const bold = Array.from(tables!.matchAll(/\*\*([a-z ]+)\*\*/g), ([, gate]) => gate!);
		assert.deepEqual(bold, gatesWhere('explained'));
	});

	it('names code that is there', () => {
		const files = Array.from(
			page.matchAll(/`((?:gates|identity|memory|shared|data|tls|jwks)\/[\w./-]*)`/g),
			([, file]) => file!,
		);
		assert.ok(files.length > 15);
		assert.deepEqual(
			files.filter((file) => !['gate', 'proxy'].some((name) => existsSync(join(ROOT, 'packages', name, 'src', file)))),
			[],
		);
	});
});
