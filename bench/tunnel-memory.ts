/**
 * Resident memory of an idle WebSocket, and of an idle connection after one request, in one worker. Linux only, for /proc.
 *
 *   node bench/tunnel-memory.ts [--connections 1000] [--rounds 3]
 *   PROXY_TEST_MAIN=packages/proxy/dist/main.js node bench/tunnel-memory.ts    the built command
 *
 * Each round starts a proxy for each kind. The upstream speaks HTTP/1.1, so a WebSocket has two sockets in the proxy: the
 * client's, over TLS, and the upstream's.
 */
import { parseArgs } from 'node:util';
import { connect } from '../test/fixtures/clients.ts';
import { residentBytes } from '../test/fixtures/proc.ts';
import { startProxy } from '../test/fixtures/proxy.ts';
import { openWebSocket } from '../test/fixtures/web-socket-client.ts';
import { startWebSocketUpstream } from '../test/fixtures/web-socket-upstream.ts';

const { values } = parseArgs({
	options: { connections: { type: 'string', default: '1000' }, rounds: { type: 'string', default: '3' } },
});
const connections = Number(values.connections);
const WARM_UP = 300;
const AT_ONCE = 20;

type Target = Awaited<ReturnType<typeof startProxy>>;

const KINDS = {
	'an idle connection after one request': async (proxy: Target) => {
		const connection = await connect('h1', proxy);
		await connection.request({ path: '/' });
		return () => connection.close();
	},
	'an idle WebSocket after one message each way': async (proxy: Target) => {
		const { ws } = await openWebSocket('h1', proxy);
		const answered = new Promise((resolve) => ws.once('message', resolve));
		ws.send('x'.repeat(100));
		await answered;
		return () => ws.terminate();
	},
};

await using upstream = await startWebSocketUpstream();
console.log(`${connections} of each, one worker, ${values.rounds} rounds; KiB each`);
for (let round = 0; round < Number(values.rounds); round++) {
	for (const [name, open] of Object.entries(KINDS))
		console.log(`${name.padEnd(46)}${(await measure(open)).toFixed(1).padStart(8)}`);
}

async function measure(open: (proxy: Target) => Promise<() => unknown>): Promise<number> {
	await using proxy = await startProxy({
		workers: 1,
		poisonsReads: false,
		routes: [{ prefix: '/', upstream: `http://127.0.0.1:${upstream.port}`, websocket: true }],
		config: { tenant_rps: 0 },
	});
	const closers: (() => unknown)[] = [];
	const openAll = async (count: number) => {
		for (let opened = 0; opened < count; opened += AT_ONCE) {
			closers.push(...(await Promise.all(Array.from({ length: AT_ONCE }, () => open(proxy)))));
		}
	};
	await openAll(WARM_UP);
	const before = residentBytes(proxy.pid);
	await openAll(connections);
	const after = residentBytes(proxy.pid);
	for (const close of closers) await close();
	return (after - before) / connections / 1024;
}
