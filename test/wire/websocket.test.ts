import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { PROTOCOLS } from '../fixtures/clients.ts';
import { ASKED_ONCE, firstVerdicts, type ProxyProcess, startProxy } from '../fixtures/proxy.ts';
import { openWebSocket } from '../fixtures/web-socket-client.ts';
import { startWebSocketUpstream, type WebSocketUpstream } from '../fixtures/web-socket-upstream.ts';

let upstream: WebSocketUpstream;
let proxy: ProxyProcess;

before(async () => {
	upstream = await startWebSocketUpstream();
	proxy = await startProxy({
		routes: [{ prefix: '/', upstream: upstream.url, websocket: true }],
		config: { ...ASKED_ONCE, tenant_rps: 0 },
	});
	await firstVerdicts(proxy);
});

after(async () => {
	await proxy.stop();
	await upstream[Symbol.asyncDispose]();
});

for (const protocol of PROTOCOLS) {
	describe(`a WebSocket over ${protocol}`, () => {
		it('echoes messages', async () => {
			await using client = await openWebSocket(protocol, proxy);
			client.ws.send('hello');
			assert.equal(await client.text(), 'hello');
			client.ws.close(1000);
			assert.equal(await client.closed, 1000);
		});
	});
}
