/**
 * The attackers, and the upstream that they ask for, in a process of their own: neither their work nor its is taken for the
 * victims' waiting.
 */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Identity } from './attack-identity.ts';
import { ATTACKS, Attacker } from './attacks.ts';
import { UNCAPPED } from './floods.ts';

/** What the parent asks for. `serve` is answered with the upstream's port, `stop` with what the attackers have got. */
export type AttackOrder =
	| { readonly serve: true }
	| { readonly attack: string; readonly identity: Identity }
	| { readonly stop: true };

/** Bytes of the answer to `/big`. */
const BIG = Buffer.alloc(2 ** 18, 'big ');

/** How long `/slow` takes. */
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
		upstream.listen(0, '127.0.0.1', () => process.send!((upstream.address() as AddressInfo).port));
		return;
	}
	if ('attack' in order) {
		attacker = new Attacker(order.identity);
		stop = [...ATTACKS, ...UNCAPPED].find(({ name }) => name === order.attack)!.start(attacker);
		return;
	}
	stop?.();
	attacker?.leave();
	process.send!({
		...Object.fromEntries(attacker?.seen ?? []),
		'KiB sent': Math.round((attacker?.sentBytes ?? 0) / 1024),
	});
});
process.on('disconnect', () => process.exit());
