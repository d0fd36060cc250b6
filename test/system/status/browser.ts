/** Chromium as Debian has it, driven through its protocol. Nothing is downloaded. */
import { existsSync } from 'node:fs';
import { type Browser, launch, type Page } from 'puppeteer-core';

const PATHS = [process.env.CHROMIUM, '/usr/bin/chromium', '/usr/bin/chromium-browser'];

export const chromium = PATHS.find((path) => path !== undefined && existsSync(path));

export function startBrowser(): Promise<Browser> {
	// Its sandbox does not start for root, as whom CI runs; all pages are ours.
	return launch({
		executablePath: chromium!,
		timeout: PATIENCE_MS,
		args: ['--no-sandbox', '--disable-gpu', '--disable-lcd-text', '--force-device-scale-factor=1'],
	});
}

/** A browser starts and loads a page late on a machine that does much else, ms. */
const PATIENCE_MS = 120_000;

export const WIDE = { width: 1280, height: 900 } as const;
/** A phone. */
export const NARROW = { width: 390, height: 844 } as const;
export const SCHEMES = ['light', 'dark'] as const;
export type Scheme = (typeof SCHEMES)[number];

interface PageOptions {
	readonly size?: { readonly width: number; readonly height: number };
	readonly scheme?: Scheme;
	readonly script?: boolean;
}

/** A page, and what went wrong in it: nothing may. */
export async function openPage(browser: Browser, url: string, options: PageOptions = {}) {
	const { size = WIDE, scheme = 'light', script = true } = options;
	const context = await browser.createBrowserContext();
	const page = await context.newPage();
	page.setDefaultTimeout(PATIENCE_MS);
	const complaints: string[] = [];
	const requests: string[] = [];
	page.on('console', (message) => {
		if (message.type() === 'error' || message.type() === 'warn') complaints.push(message.text());
	});
	page.on('pageerror', (error) => complaints.push(String(error)));
	page.on('request', (request) => requests.push(request.url()));
	await page.setViewport(size);
	await page.emulateMediaFeatures([{ name: 'prefers-color-scheme', value: scheme }]);
	await page.setJavaScriptEnabled(script);
	await page.goto(url, { waitUntil: 'domcontentloaded' });
	return { page, complaints, requests, [Symbol.asyncDispose]: () => context.close() };
}

/** Resolves when the page is up to date, charts included. */
export async function live(page: Page): Promise<void> {
	await page.waitForSelector('#live-state.on');
}

export function textOf(page: Page, selector: string): Promise<string> {
	return page.$eval(selector, (element) => element.textContent ?? '');
}
