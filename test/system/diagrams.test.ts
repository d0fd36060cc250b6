/** Mermaid diagrams of all pages, drawn by Mermaid in a browser. GitHub shows an unreadable one as a red error box. */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import type { Browser, Page } from 'puppeteer-core';
import { blocksIn, PAGES } from '../fixtures/doc-blocks.ts';
import { chromium, startBrowser } from './status/browser.ts';
import { missingLinter, missingTools, ROOT } from './tools.ts';

const SCRIPT = join(ROOT, '.linters/node_modules/mermaid/dist/mermaid.min.js');
const DIAGRAMS = PAGES.flatMap((page) => blocksIn(page)).filter(({ language }) => language === 'mermaid');
const BROKEN = 'stateDiagram-v2\n  [*] --> a: one: two\n  a -->';

describe('diagrams', { skip: missingLinter('mermaid') || (chromium === undefined && missingTools('chromium')) }, () => {
	let browser: Browser;
	let page: Page;

	before(async () => {
		browser = await startBrowser();
		page = await browser.newPage();
		await page.setContent('<!doctype html><html><body></body></html>');
		await page.addScriptTag({ path: SCRIPT });
	});
	after(() => browser?.close());

	for (const { page: file, line, code } of DIAGRAMS) {
		test(`${file}:${line} is drawn with all of its labels`, async () => {
			const { labels, error } = await draw(page, code);
			assert.equal(error, undefined);
			for (const label of labelsIn(code))
				assert.ok(labels.includes(squeezed(label)), `"${label}" is not in it: ${labels}`);
		});
	}

	test('there are diagrams, and a broken one is an error', async () => {
		assert.ok(DIAGRAMS.length > 5);
		assert.match((await draw(page, BROKEN)).error ?? '', /Parse error|Syntax error/);
	});
});

interface Drawn {
	/** The picture's text without white space: a label may be broken into lines. */
	readonly labels: string;
	readonly error?: string | undefined;
}

async function draw(page: Page, code: string): Promise<Drawn> {
	const { svg, error } = await page.evaluate(async (source) => {
		const { mermaid } = globalThis as unknown as { mermaid: Mermaid };
		mermaid.initialize({ startOnLoad: false, securityLevel: 'strict' });
		try {
			return await mermaid.render(`diagram-${Math.random().toString(36).slice(2)}`, source);
		} catch (error) {
			return { svg: '', error: String(error) };
		}
	}, code);
	return { labels: squeezed(textIn(svg)), error };
}

interface Mermaid {
	initialize(options: object): void;
	render(id: string, source: string): Promise<{ svg: string; error?: undefined }>;
}

/** Labels of boxes, arrows and notes: between bars in a flowchart, after a colon elsewhere. */
function labelsIn(code: string): string[] {
	const boxes = code.matchAll(/\w[[({]+"?([^"\])}]+)"?[\])}]+/g);
	const arrow = code.startsWith('flowchart') ? /-->\|"([^"]+)"\|/g : /(?:--?>>?|Note over [^:]+)[^:\n]*: (.+)$/gm;
	return [...boxes, ...code.matchAll(arrow)].map(([, label]) => label!.trim());
}

function textIn(svg: string): string {
	const text = svg.replace(/<style[\s\S]*?<\/style>|<[^>]*>/g, '');
	return text.replaceAll('&lt;', '<').replaceAll('&gt;', '>').replaceAll('&amp;', '&');
}

function squeezed(text: string): string {
	return text.replace(/\s/g, '');
}
