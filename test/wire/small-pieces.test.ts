import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { h1Raw } from '../fixtures/clients.ts';
import { testPki } from '../fixtures/pki.ts';
import { HAS_PROC, heldBytes, residentBytes } from '../fixtures/proc.ts';
import { startProxy } from '../fixtures/proxy.ts';
import { startUpstream } from '../fixtures/upstream.ts';
import { until } from '../fixtures/wait.ts';

const CONNECTIONS = 10;
/** More than the proxy reads ahead of an unread body. */
const PIECES = 200_000;
/** As much is read ahead, bytes. */
const KEPT_ON_THE_WIRE = 65_536;

describe('bodies in pieces of a byte', { skip: HAS_PROC ? false : '/proc' }, () => {
	test('bodies in pieces of a byte, behind another request, use memory for their bytes only, and arrive whole', async () => {
		const release = Promise.withResolvers<void>();
		await using upstream = await startUpstream({
			script: async (exchange) => {
				if (exchange.request.target === '/slow') await release.promise;
				exchange.respond({ body: `${exchange.request.body.length}` });
			},
		});
		await using proxy = await startProxy({
			workers: 1,
			routes: [{ prefix: '/', upstream: upstream.url }],
			config: { tenant_rps: 0 },
		});
		const fields = `host: test\r\nauthorization: Bearer ${(await testPki()).token()}\r\n`;
		const clients = await Promise.all(Array.from({ length: CONNECTIONS }, () => h1Raw(proxy)));
		for (const client of clients) {
			client.send(
				`GET /slow HTTP/1.1\r\n${fields}\r\nPOST /late HTTP/1.1\r\n${fields}transfer-encoding: chunked\r\n\r\n`,
			);
		}
		await upstream.until(({ requests }) => requests.length === CONNECTIONS, 'the requests in front');
		const before = { memory: residentBytes(proxy.pid), held: heldBytes(proxy.pid) };
		for (const client of clients) client.send(`${'1\r\nx\r\n'.repeat(PIECES)}0\r\n\r\n`);
		await until(
			() => heldBytes(proxy.pid) - before.held >= CONNECTIONS * KEPT_ON_THE_WIRE,
			'the proxy to have read what it keeps',
		);
		const grown = (residentBytes(proxy.pid) - before.memory) / 2 ** 20;
		release.resolve();
		for (const client of clients) {
			assert.equal(String((await client.readResponse()).body), '0');
			assert.equal(String((await client.readResponse()).body), `${PIECES}`);
			client.close();
		}
		assert.ok(grown < 80, `${grown.toFixed(0)} MiB for ${CONNECTIONS} connections`);
	});
});
