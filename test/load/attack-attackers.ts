/** The attackers and their upstream, in a separate process: its CPU time does not count as the victims' latency. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { WebSocketServer } from 'ws';
import type { Credentials } from './attack-credentials.ts';
import { FLOODS, RATED } from './attack-list.ts';
import { Attacker } from './attacks.ts';
import { serveCalls } from './grpc-floods.ts';
import { serveHostile, takeFlooded } from './hostile-upstream.ts';

/** The parent's orders. The response to `serve` is `Served`; the response to `stop` is what the attackers saw. */
export type AttackOrder =
	| { readonly serve: true }
	| { readonly attack: string; readonly credentials: Credentials }
	| { readonly stop: true };

/** Ports. */
export interface Served {
	/** HTTP/1.1, with WebSockets. */
	readonly upstream: number;
	/** HTTP/2, with gRPC calls. */
	readonly calls: number;
	readonly hostile: number;
	readonly hostileHttp1: number;
}

/** Size of the response to `/big`, bytes. */
const BIG = Buffer.alloc(2 ** 18, 'big ');

/** How long `/slow` takes, ms. */
const SLOW_MS = 100;

let attacker: Attacker | undefined;
let stop: (() => void) | undefined;

process.on('message', (order: AttackOrder) => {
	if ('serve' in order) {
		const upstream = createServer((request, response) => {
			request.resume();
			if (request.url === '/slow') setTimeout(() => response.end('ok'), SLOW_MS);
			else response.end(request.url === '/big' ? BIG : 'ok');
		});
		const webSockets = new WebSocketServer({ noServer: true });
		upstream.on('upgrade', (request, socket, head) => {
			webSockets.handleUpgrade(request, socket, head, (ws) => ws.on('error', () => {}));
		});
		upstream.listen(0, '127.0.0.1', () => {
			const { port } = upstream.address() as AddressInfo;
			serveHostile('h2', (hostile) => {
				serveHostile('h1', (hostileHttp1) => {
					serveCalls((calls) => {
						process.send!({ upstream: port, calls, hostile, hostileHttp1 } satisfies Served);
					});
				});
			});
		});
		return;
	}
	if ('attack' in order) {
		attacker = new Attacker(order.credentials);
		stop = [...RATED, ...FLOODS].find(({ name }) => name === order.attack)!.start(attacker);
		return;
	}
	stop?.();
	attacker?.leave();
	process.send!({
		...Object.fromEntries(attacker?.seen ?? []),
		'KiB sent': Math.round((attacker?.sentBytes ?? 0) / 1024) + takeFlooded(),
	});
});
process.on('disconnect', () => process.exit());
