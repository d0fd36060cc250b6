/**
 * Takes the pictures of docs/reference/status.md: `npm run screenshots`. What they show is made up (`example.ts`), so that they change with the
 * page alone. With a folder, all of the page goes there, in trouble and in calm: `npm run screenshots -- /tmp/pictures`.
 */
import { statSync } from 'node:fs';
import { resolve } from 'node:path';
import { live, NARROW, openPage, SCHEMES, startBrowser, WIDE } from './browser.ts';
import { type ExampleOptions, serveExample } from './example.ts';

const DOCS = resolve(import.meta.dirname, '../../../docs/images');
const SIZES = { wide: WIDE, narrow: NARROW };
const CASES: Record<string, ExampleOptions> = {
	status: {},
	'status-calm': { well: true },
	'status-many': { storeAway: true, others: 40, tenants: true },
};
/** Below what a picture of the page ends with, pixels. */
const MARGIN = 16;

const [folder] = process.argv.slice(2);
const browser = await startBrowser();
try {
	for (const [prefix, options] of Object.entries(folder === undefined ? { status: CASES.status } : CASES)) {
		await using example = await serveExample(options);
		for (const scheme of SCHEMES) {
			for (const [name, size] of Object.entries(SIZES)) {
				await using opened = await openPage(browser, example.url, { size, scheme });
				const { page, complaints } = opened;
				await live(page);
				const path = resolve(folder ?? DOCS, `${prefix}-${scheme}-${name}.png`) as `${string}.png`;
				// Those of the pages end with the table of upstreams: nothing is cut through.
				const end = Number(await page.evaluate("document.getElementById('upstreams').getBoundingClientRect().bottom"));
				const clip = { x: 0, y: 0, width: size.width, height: Math.ceil(end) + MARGIN };
				await page.screenshot(
					folder === undefined ? { path, clip, captureBeyondViewport: true } : { path, fullPage: true },
				);
				console.log(`${path}: ${Math.ceil(statSync(path).size / 1024)} KiB${complaints.join('; ')}`);
			}
		}
	}
} finally {
	await browser.close();
}
