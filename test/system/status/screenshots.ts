/**
 * Takes the pictures of docs/reference/status.md: `npm run screenshots`. What they show is made up (`example.ts`), so that they change with the
 * page alone.
 */
import { statSync } from 'node:fs';
import { resolve } from 'node:path';
import { live, NARROW, openPage, SCHEMES, startBrowser, WIDE } from './browser.ts';
import { serveExample } from './example.ts';

const FOLDER = resolve(import.meta.dirname, '../../../docs/images');
const SIZES = { wide: WIDE, narrow: NARROW };

const browser = await startBrowser();
try {
	await using example = await serveExample();
	for (const scheme of SCHEMES) {
		for (const [name, size] of Object.entries(SIZES)) {
			await using opened = await openPage(browser, example.url, { size, scheme });
			await live(opened.page);
			const path = resolve(FOLDER, `status-${scheme}-${name}.png`) as `${string}.png`;
			await opened.page.screenshot({ path, fullPage: process.env.FULL_PAGE !== undefined });
			console.log(`${path}: ${Math.ceil(statSync(path).size / 1024)} KiB${opened.complaints.join('; ')}`);
		}
	}
} finally {
	await browser.close();
}
