import assert from 'node:assert/strict';
import { it } from 'node:test';
import type { Exchange } from '../../../../packages/proxy/src/data/request/exchange.ts';
import type { WebSocketRoute } from '../../../../packages/proxy/src/data/routes/route.ts';
import { Tunnel } from '../../../../packages/proxy/src/data/tunnel/tunnel.ts';
import { frame } from './fixtures/frames.ts';

it('each frame of a client costs its connection a part of a token, however many come in one read', () => {
	let spent = 0;
	let passed = 0;
	const spend = (tokens: number) => {
		spent += tokens;
	};
	const write = (bytes: Buffer) => {
		passed += bytes.length;
		return true;
	};
	const client = { connection: { spend }, hasEnded: false, pauseBody() {} };
	const context = { client, plane: {}, principal: { leewaySeconds: 0, claims: { exp: 0 } } };
	const idle = { add() {} };
	const tunnel = new Tunnel(
		{ context, attempt: { connection: { write } } } as unknown as Exchange,
		{ idle } as unknown as WebSocketRoute,
		false,
	);
	const empty = frame({ first: 0x82, payload: '' });
	tunnel.onRequestBody(Buffer.concat(Array<Buffer>(10_000).fill(empty)));
	assert.deepEqual([passed, spent], [10_000 * empty.length, 312.5]);
	tunnel.onRequestBody(frame({ first: 0x82, payload: 'x'.repeat(60_000) }));
	assert.ok(spent < 313, 'a large message is one frame');
});
