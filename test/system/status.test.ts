/**
 * The status page in a real browser: Chromium as Debian has it. First over made-up facts, where everything can be seen at once, then
 * of the real command, where each panel has to follow what the proxy does.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { after, before, describe, test } from 'node:test';
import type { Browser, Page } from 'puppeteer-core';
import { connect, isAccepted, request } from '../fixtures/clients.ts';
import { testPki } from '../fixtures/pki.ts';
import { type ProxyProcess, startProxy } from '../fixtures/proxy.ts';
import { startUpstream, type Upstream } from '../fixtures/upstream.ts';
import { until } from '../fixtures/wait.ts';
import { chromium, live, NARROW, openPage, SCHEMES, startBrowser, textOf, WIDE } from './status/browser.ts';
import { serveExample } from './status/example.ts';

if (chromium === undefined && process.env.PROXY_TEST_ALL_CLIENTS) throw new Error('not installed: chromium');
const skip = chromium === undefined && 'not installed: chromium';

const AXE = readFileSync(new URL(import.meta.resolve('axe-core/axe.min.js')), 'utf8');
/** More than the two seconds of an update, on a machine that does much else. */
const SEEN_MS = 90_000;

/** The rules that are broken, with the elements that break them. */
async function axe(page: Page): Promise<string[]> {
	// Not by a script element: the page's own policy would rightly refuse it.
	await page.evaluate(AXE);
	const found = (await page.evaluate('axe.run(document)')) as {
		violations: { id: string; nodes: { html: string }[] }[];
		passes: { id: string }[];
	};
	const looked = new Set(found.passes.map(({ id }) => id));
	for (const rule of ['color-contrast', 'region', 'document-title']) assert.ok(looked.has(rule), rule);
	return found.violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).join('\n')}`);
}

async function shows(page: Page, selector: string, words: string | RegExp): Promise<void> {
	let last = '';
	const fits = async () => {
		last = await textOf(page, selector);
		return typeof words === 'string' ? last.includes(words) : words.test(last);
	};
	await until(fits, () => `${selector} to show ${words}; it shows: ${last}`, SEEN_MS);
}

/** Words of up to ten letters that are broken over lines. Runs in the page. */
const BROKEN_WORDS = String.raw`
	const broken = [];
	const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
	while (texts.nextNode()) {
		const text = texts.currentNode;
		for (const { 0: word, index } of text.data.matchAll(/(?<!\p{L})\p{L}{2,10}(?!\p{L})/gu)) {
			const range = document.createRange();
			range.setStart(text, index);
			range.setEnd(text, index + word.length);
			const lines = new Set([...range.getClientRects()].filter(({ width }) => width > 0).map(({ top }) => top));
			if (lines.size > 1) broken.push(word);
		}
	}
	broken`;

describe('the status page in a browser', { skip }, () => {
	let browser: Browser;
	before(async () => {
		browser = await startBrowser();
	});
	after(() => browser?.close());

	for (const scheme of SCHEMES) {
		for (const [name, size] of Object.entries({ wide: WIDE, narrow: NARROW })) {
			test(`has nothing that axe finds, breaks no policy, asks no other host and fits its window: ${scheme}, ${name}`, async () => {
				for (const options of [{ tenants: true, others: 40 }, { well: true }]) {
					await using example = await serveExample(options);
					await using opened = await openPage(browser, example.url, { size, scheme });
					const { page, complaints, requests } = opened;
					await live(page);
					assert.ok((await page.$$('canvas')).length >= 10, 'charts');
					assert.deepEqual(await axe(page), []);
					assert.deepEqual(complaints, []);
					for (const url of requests) assert.ok(url.startsWith(example.url) || url === 'data:,', url);
					assert.equal(
						await page.evaluate('document.documentElement.scrollWidth <= innerWidth'),
						true,
						'scrolls sideways',
					);
				}
			});
		}
	}

	test('breaks no word of up to ten letters on a phone', async () => {
		await using example = await serveExample({ others: 40, tenants: true });
		await using opened = await openPage(browser, example.url, { size: NARROW });
		const { page } = opened;
		await live(page);
		assert.deepEqual(await page.evaluate(BROKEN_WORDS), []);
	});

	test('is complete without script: every panel with its values, a filter and pages that work', async () => {
		await using example = await serveExample({ others: 60, tenants: true });
		await using opened = await openPage(browser, `${example.url}/`, { script: false });
		const { page } = opened;
		const panels: Record<string, string[]> = {
			'#summary': [
				'4 problems',
				'A breaker is open: reports.internal:8080',
				'since 14:28:49 UTC, 3 min',
				'expires in 9 days',
			],
			header: ['edge-1', 'one of 4 replicas', 'version 0.1.0', 'Node 26.10.0', 'collected bodies', 'up 3 d 4 h'],
			'#numbers': ['64/66 healthy'],
			'#upstreams': [
				'orders.internal:8080',
				'/api/carts',
				'half-open',
				'connection refused',
				'Opened 4×',
				'Page 1 of 3',
			],
			'#dns': ['billing.internal:8080', 'none', 'the name has no addresses', '9×'],
			'#refusals': ['token invalid', '1,718', 'no route'],
			'#handshakes': ['1,204,882', 'unknown CA', '2.31 ms'],
			'#connections': ['1,652', 'ended: revoked', 'reset-flood'],
			'#workers': ['worker 3', '41 %', '2.1 ms'],
			'#certificates': ['CN=edge.example.com', 'CRL', '1102'],
			'#issuers': ['https://login.example.com', '2026-08', '2 min', 'from a file'],
			'#memory': ['limits.max_buffered_bytes', '1 GiB', '9.4 %'],
			'#reloads': ['SIGHUP', 'applied', 'failed', 'routes[4].upstream'],
			'#tenants': ['acme', '5,000', 'unlimited'],
		};
		for (const [selector, texts] of Object.entries(panels)) {
			const text = await textOf(page, selector);
			for (const wanted of texts) assert.ok(text.includes(wanted), `${selector} lacks ${wanted}: ${text}`);
		}
		await Promise.all([page.waitForNavigation(), page.click('.pager a[rel=next]')]);
		assert.match(await textOf(page, '#upstreams'), /Page 2 of 3/);
		await page.type('#filter', 'shard-7');
		await Promise.all([page.waitForNavigation(), page.click('form button')]);
		assert.match(await textOf(page, 'caption'), /Upstreams shown: 1 of 66/);
		assert.equal(new URL(page.url()).search, '?filter=shard-7');
	});

	test('shows hostile names as the text that they are', async () => {
		const hostile = `"><img src=x onerror="document.title='owned'"><script>document.title='owned'</script></script>\u202e&amp;`;
		await using example = await serveExample({ hostile, tenants: true });
		await using opened = await openPage(browser, example.url);
		const { page, complaints } = opened;
		await live(page);
		assert.deepEqual(await page.$$('main img'), []);
		assert.deepEqual(complaints, []);
		assert.notEqual(await page.title(), 'owned');
		for (const panel of ['#upstreams', '#dns', '#certificates', '#issuers', '#reloads', '#tenants']) {
			assert.ok((await textOf(page, panel)).includes(`"><img src=x onerror=`), panel);
		}
	});

	test('is used by keyboard: everything is reached, the focus is seen, and stays where it is while the page changes', async () => {
		await using example = await serveExample({ others: 40 });
		await using opened = await openPage(browser, example.url);
		const { page } = opened;
		await live(page);
		const focused = () =>
			page.evaluate('document.activeElement.id || document.activeElement.textContent') as Promise<string>;
		await page.keyboard.press('Tab');
		assert.equal(await focused(), 'Skip to the summary');
		assert.equal(await page.evaluate('document.activeElement.getBoundingClientRect().top >= 0'), true);
		await page.keyboard.press('Enter');
		assert.equal(await focused(), 'summary');
		await page.evaluate('document.body.focus(); scrollTo(0, 0)');
		const reachable = 'a[href], button:not([hidden]), input:not([type=hidden]), summary';
		const wanted = (await page.$$(reachable)).length;
		await page.goto(example.url);
		await live(page);
		const reached = new Set<unknown>();
		for (let i = 0; i < wanted; i++) {
			await page.keyboard.press('Tab');
			reached.add(
				await page.evaluate(`[...document.querySelectorAll('${reachable}')].indexOf(document.activeElement)`),
			);
			assert.notEqual(
				await page.evaluate('getComputedStyle(document.activeElement).outlineStyle'),
				'none',
				await focused(),
			);
		}
		assert.equal(reached.has(-1) ? 'something else' : reached.size, wanted);
		await page.focus('#pause');
		await page.keyboard.press('Enter');
		assert.equal(await textOf(page, '#live-state'), 'Paused');
		await page.keyboard.press('Enter');
		await live(page);
		assert.equal(await focused(), 'pause');
		await page.focus('#filter');
		await page.keyboard.type('shard-1');
		await shows(page, '#upstreams caption', 'Upstreams shown: 11 of 46');
		assert.equal(await focused(), 'filter');
		assert.equal(new URL(page.url()).search, '?filter=shard-1');
	});

	test('keeps open what a reader has opened, while the page changes', async () => {
		await using example = await serveExample();
		await using opened = await openPage(browser, example.url);
		const { page } = opened;
		await live(page);
		await page.click('.upstreams summary');
		for (let i = 0; i < 2; i++) await page.waitForResponse((response) => response.url().includes('/status/page'));
		assert.equal(await page.evaluate("document.querySelector('.upstreams details').open"), true);
	});
});

describe('the status page of a proxy', { skip }, () => {
	const open = new AsyncDisposableStack();
	let proxy: ProxyProcess;
	let upstreams: Upstream[];
	let opened: Awaited<ReturnType<typeof openPage>>;
	before(async () => {
		const browser = await startBrowser();
		open.defer(() => browser.close());
		upstreams = await Promise.all([startUpstream(), startUpstream()]);
		for (const upstream of upstreams) open.defer(() => upstream.stop());
		proxy = open.use(
			await startProxy({
				routes: upstreams.map(({ url }, i) => ({ prefix: `/lane-${i + 1}`, upstream: url })),
				config: { tenant_rps: 0 },
			}),
		);
		opened = open.use(await openPage(browser, `http://127.0.0.1:${proxy.metricsPort}/`));
		await live(opened.page);
	});
	after(() => open.disposeAsync());

	test('reports no problem at first', () => shows(opened.page, '#summary', 'All is well'));

	test('follows requests, and draws them', async () => {
		await request('h2', proxy, { path: '/lane-1' });
		await shows(opened.page, '.upstreams tbody tr .number', /\d/);
		await opened.page.waitForSelector('#traffic canvas', { timeout: SEEN_MS });
		// The next point of ten seconds has them.
		await shows(opened.page, '#traffic', /peak (?!0\/s)[\d.]+\/s/);
		await shows(opened.page, '#traffic', /p99 \d/);
	});

	test('follows refusals by their reason', async () => {
		await request('h1', proxy, { path: '/lane-1', token: null });
		await shows(opened.page, '#refusals', /token missing\s*401\s*1\s*1/);
		await request('h2', proxy, { path: '/lane-1', token: 'x.y.z' });
		await shows(opened.page, '#refusals', /token invalid\s*401\s*1\s*1/);
	});

	test('follows handshakes that fail, by their reason', async () => {
		const { clients } = await testPki();
		assert.equal(await isAccepted(proxy, { cert: clients.expired }), false);
		await shows(opened.page, '#handshakes', /expired\s*1\s*1/);
	});

	test('follows connections, and the budget that they are taken from', async () => {
		await using connection = await connect('h2', proxy);
		assert.equal(connection.protocol, 'h2');
		await shows(opened.page, '#connections', /HTTP\/2\s*1\D/);
		await shows(opened.page, '#memory tbody tr:nth-child(2) td', /^1$/);
		await shows(opened.page, '#workers', /worker \d[\s\S]*? %[\s\S]*? ms/);
	});

	test('says that an upstream is gone: what, why and since when', async () => {
		await upstreams[1]!.stop();
		await shows(opened.page, '#summary', `A breaker is open: ${upstreams[1]!.authority}`);
		await shows(
			opened.page,
			'.upstreams tbody tr .state',
			/open[\s\S]*Breaker open since \d\d:\d\d:\d\d UTC:[\s\S]*connection (?:refused|reset)[\s\S]*Health check: /,
		);
		await shows(opened.page, '#announcement', 'A breaker is open');
	});

	test('follows reloads, their outcome, and the routes and certificates that they bring', async () => {
		proxy.writeConfig({
			routes: [
				{ prefix: '/lane-1', upstream: upstreams[0]!.url },
				{ prefix: '/new', upstream: upstreams[0]!.url },
			],
		});
		await proxy.reload();
		await shows(opened.page, '#reloads', /routes[\s\S]*applied[\s\S]*SIGUSR1/);
		await shows(opened.page, '#upstreams', '/new');
		await shows(opened.page, '#summary', 'All is well');
		const { issueServer } = await testPki();
		const renewed = await issueServer('renewed');
		proxy.writeConfig({ tls: { cert_path: renewed.certPath, key_path: renewed.keyPath } });
		await proxy.reload();
		await shows(opened.page, '#certificates', 'CN=renewed');
		proxy.writeConfig('this is no TOML');
		await proxy.reload();
		await shows(opened.page, '#reloads', /failed[\s\S]*config\.toml/);
		await shows(opened.page, '#summary', 'The last reload of tls, routes failed');
	});

	test('has issuers and their keys', () =>
		shows(opened.page, '#issuers', /https:\/\/issuer\.test[\s\S]*RS256[\s\S]*from a file/));

	test('has violated no policy and contacted no other host', () => {
		assert.deepEqual(opened.complaints, []);
		for (const url of opened.requests)
			assert.ok(url.startsWith(`http://127.0.0.1:${proxy.metricsPort}/`) || url === 'data:,', url);
	});

	test('greys its figures when the proxy has died, and shows their time', async () => {
		const { page } = opened;
		const filter = () => page.evaluate("getComputedStyle(document.querySelector('main')).filter");
		assert.equal(await filter(), 'none');
		await proxy.kill();
		await shows(page, '#live-state', /^No answer: these figures are from \d/);
		assert.equal(await filter(), 'grayscale(1)');
		assert.equal(await page.title(), `No answer – ${hostname()}`);
	});
});
