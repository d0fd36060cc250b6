import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { test } from 'node:test';
import { failureOf } from '../../../../packages/proxy/src/control/store/failure.ts';
import { tellPlain } from '../../../../packages/proxy/src/control/store/redis.ts';

const never = () => new Promise<never>(() => {});

/** Speaks only if it is sent a whole line, as a plain Redis does. */
async function opened(answer: string, limitMs = 10_000) {
	const heard: string[] = [];
	const server = createServer((socket) => {
		socket.on('error', () => {});
		socket.on('data', (bytes) => {
			heard.push(bytes.toString());
			socket.write(answer);
		});
	});
	server.listen(0, '127.0.0.1');
	await once(server, 'listening');
	const { port } = server.address() as AddressInfo;
	const address = { host: '127.0.0.1', port, tls: true, database: 0 };
	const abandoned = AbortSignal.timeout(limitMs);
	const given = new Promise<never>((_, reject) =>
		abandoned.addEventListener('abort', () => reject(new Error('abandoned'))),
	);
	const failure = await Promise.race([tellPlain(never, address, 300)(abandoned, () => {}), given]).catch(
		(error) => error,
	);
	server.close();
	return { failure, heard };
}

test('a handshake that hangs at a plain Redis, with a password or without, has that as its reason', async () => {
	for (const answer of ['+PONG\r\n', '-NOAUTH Authentication required.\r\n']) {
		const { failure, heard } = await opened(answer);
		assert.match(failureOf(failure).message, /^it does not speak TLS on that port; write redis:\/\/ in limiter\.store/);
		assert.equal(failureOf(failure).reason, 'tls');
		assert.deepEqual(heard, ['PING\r\n']);
	}
});

test('a handshake that hangs elsewhere stays a timeout', async () => {
	assert.equal((await opened('\x15\x03\x03', 900)).failure.message, 'abandoned');
});
