/** A listener over real sockets, with a clock that only tests move. */
import { equal, ok } from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Listener } from '../../../../packages/proxy/src/data/listener/listener.ts';
import { Budget } from '../../../../packages/proxy/src/memory/budget.ts';
import type { WorkerSeed } from '../../../../packages/proxy/src/shared/messages.ts';
import { testPki } from '../../../fixtures/pki.ts';
import { connectTls } from '../../../fixtures/tls-client.ts';
import { until } from '../../../fixtures/wait.ts';
import { FakePlane } from '../fixtures/fake-plane.ts';

/** Requests without a token, more than a connection and its certificate have tokens for. */
const FLOOD = 'GET / HTTP/1.1\r\nHost: a\r\n\r\n'.repeat(200);

describe("a certificate's share of a worker", () => {
	it('has the debt of a connection that has ended, and is whole again once that is paid', async () => {
		const pki = await testPki();
		const plane = new FakePlane();
		const seed = {
			index: 0,
			connections: Budget.allocate(10, 1, 1),
			tls: { cert: pki.server.certPem, key: pki.server.keyPem, ca: pki.ca.certPem },
		};
		const listener = new Listener(plane, seed as unknown as WorkerSeed);
		const port = await listener.listen({ host: '127.0.0.1', port: 0 }, false);
		const refused = () => plane.stats.read().responses.get(401) ?? 0;
		const delays = () => plane.stats.read().readsDelayed.get('http/1.1') ?? 0;
		/** How many requests of a new connection are answered before its reads are delayed. */
		const flood = async () => {
			const before = { refused: refused(), delays: delays() };
			const socket = await connectTls({ port });
			socket.on('error', () => {}).resume();
			socket.write(FLOOD);
			await until(() => delays() > before.delays, 'the connection to be delayed');
			const answered = refused() - before.refused;
			socket.destroy();
			await until(() => plane.connections === 0, 'the connection to end');
			return answered;
		};
		try {
			const first = await flood();
			const second = await flood();
			ok(second < first / 2, `${second} after ${first}: only the allowance of the connection is new`);
			await plane.pass(60_000);
			equal(await flood(), first);
		} finally {
			listener.abandon();
		}
	});
});
