/**
 * WebSockets of a real browser through the real command: Debian's Chromium, over HTTP/1.1 and over HTTP/2 (RFC 8441). The DevTools protocol
 * sets its token: a page cannot set one.
 */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { Browser } from 'puppeteer-core';
import { PROTOCOLS, type Protocol } from '../fixtures/clients.ts';
import { type TestPki, testPki } from '../fixtures/pki.ts';
import { ASKED_ONCE, firstVerdicts, type ProxyProcess, startProxy } from '../fixtures/proxy.ts';
import { until, within } from '../fixtures/wait.ts';
import { startWebSocketUpstream, type WebSocketUpstream } from '../fixtures/web-socket-upstream.ts';
import { chromium, startBrowser } from './status/browser.ts';
import { missing } from './tools.ts';
import { startCertificateRelay } from './websocket/certificate-relay.ts';

describe('a WebSocket of Chromium', { skip: missing(chromium === undefined ? ['chromium'] : []) }, () => {
	const open = new AsyncDisposableStack();
	let upstream: WebSocketUpstream;
	let pki: TestPki;
	let proxy: ProxyProcess;
	let browser: Browser;
	before(async () => {
		pki = await testPki();
		upstream = open.use(
			await startWebSocketUpstream(
				({ ws }) => {
					ws.on('message', (data, binary) => {
						if (!binary && String(data) === 'close') ws.close(4321, 'as asked');
						else ws.send(data, { binary });
					});
				},
				{ handleProtocols: () => 'chat.v1', perMessageDeflate: true },
			),
		);
		proxy = open.use(
			await startProxy({
				routes: [{ prefix: '/', upstream: upstream.url, websocket: true }],
				config: { ...ASKED_ONCE, tenant_rps: 0 },
				log: { access: 'all' },
			}),
		);
		await firstVerdicts(proxy);
		browser = await startBrowser();
		open.defer(() => browser.close());
	});
	after(() => open.disposeAsync());

	/** A page of the proxy's origin, whose connection a WebSocket over HTTP/2 shares. */
	async function openPageOver(protocol: Protocol, tenant = 'tenant') {
		const relay = await startCertificateRelay(proxy, protocol, pki);
		const context = await browser.createBrowserContext();
		const page = await context.newPage();
		const session = await page.createCDPSession();
		await session.send('Security.setIgnoreCertificateErrors', { ignore: true });
		await session.send('Network.enable');
		await session.send('Network.setExtraHTTPHeaders', { headers: { authorization: `Bearer ${pki.token(tenant)}` } });
		await page.goto(`https://localhost:${relay.port}/page`);
		await page.evaluate(PAGE);
		return {
			page,
			[Symbol.asyncDispose]: async () => {
				await context.close();
				await relay[Symbol.asyncDispose]();
			},
		};
	}

	for (const protocol of PROTOCOLS) {
		test(`over ${protocol}: text, a megabyte, a subprotocol and Closes of both sides`, async () => {
			const from = proxy.logs.length;
			await using opened = await openPageOver(protocol);
			const { page } = opened;
			assert.deepEqual(await page.evaluate(`talk('/mine')`), {
				...{ protocol: 'chat.v1', extensions: 'permessage-deflate', text: 'Grüße, 世界', same: true },
				...{ code: 4001, wasClean: true },
			});
			assert.deepEqual(await page.evaluate(`ended('/theirs', 'close')`), {
				code: 4321,
				reason: 'as asked',
				wasClean: true,
			});
			const wanted = protocol === 'h2' ? ['CONNECT', 'h2', 200] : ['GET', 'http/1.1', 101];
			for (const [path, by] of [
				['/mine', 'client'],
				['/theirs', 'upstream'],
			]) {
				const line = await proxy.waitForLog((line) => line.path === path, undefined, from);
				assert.deepEqual([line.method, line.protocol, line.status, line.tunnel_end], [...wanted, by]);
			}
		});

		test(`over ${protocol} gets 1008 when its tenant is revoked`, async () => {
			const tenant = `gone-${protocol}`;
			await using opened = await openPageOver(protocol, tenant);
			const { page } = opened;
			const closed = page.evaluate(`ended('/revoked', 'up')`);
			await until(() => upstream.accepted.at(-1)?.request.url === '/revoked', 'the WebSocket');
			const list = pki.writeFile(`revoked-${tenant}.toml`, `tenants = ["${tenant}"]`);
			proxy.writeConfig({ config: { revoked_path: list } });
			await proxy.reload();
			assert.deepEqual(await within(closed, 'the Close'), { code: 1008, reason: '', wasClean: true });
		});
	}
});

/** Runs in the page. */
const PAGE = `
	const at = (path) => new WebSocket('wss://' + location.host + path, ['chat.v1', 'other']);
	const once = (target, event) => new Promise((resolve) => target.addEventListener(event, resolve, { once: true }));
	globalThis.talk = async (path) => {
		const ws = at(path);
		ws.binaryType = 'arraybuffer';
		await once(ws, 'open');
		const { protocol, extensions } = ws;
		ws.send('Grüße, 世界');
		const text = (await once(ws, 'message')).data;
		const sent = new Uint8Array(1_000_000).map((_, i) => i * i);
		ws.send(sent);
		const got = new Uint8Array((await once(ws, 'message')).data);
		ws.close(4001, 'enough');
		const { code, wasClean } = await once(ws, 'close');
		const same = got.length === sent.length && got.every((byte, i) => byte === sent[i]);
		return { protocol, extensions, text, same, code, wasClean };
	};
	globalThis.ended = async (path, message) => {
		const ws = at(path);
		await once(ws, 'open');
		ws.send(message);
		const { code, reason, wasClean } = await once(ws, 'close');
		return { code, reason, wasClean };
	};`;
