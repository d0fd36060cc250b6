import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer as createHttpServer } from 'node:http';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { describe, test } from 'node:test';
import { CommandError } from '../../../../packages/proxy/src/cli/command.ts';
import { askMetrics, readResponse } from '../../../../packages/proxy/src/cli/running/metrics-client.ts';

async function listening(server: Server): Promise<{ address: { host: string; port: number } } & AsyncDisposable> {
	const sockets = new Set<Socket>();
	server.on('connection', (socket: Socket) => sockets.add(socket.on('error', () => {})));
	await once(server.listen(0, '127.0.0.1'), 'listening');
	return {
		address: { host: '127.0.0.1', port: (server.address() as AddressInfo).port },
		[Symbol.asyncDispose]: async () => {
			for (const socket of sockets) socket.destroy();
			server.close();
			await once(server, 'close');
		},
	};
}

const raw = (answer: string) => createServer((socket) => socket.once('data', () => socket.end(answer)));

describe('asking the metrics listener', () => {
	test('gets status and body of a server of Node', async () => {
		const server = createHttpServer((request, response) => {
			response.writeHead(503).end(`${request.url} ${request.headers.host}`);
		});
		await using listener = await listening(server);
		const answer = await askMetrics(listener.address, '/readyz', 5_000);
		assert.deepEqual(answer, { status: 503, body: `/readyz 127.0.0.1:${listener.address.port}` });
	});

	test('says in one line why there is no answer', async () => {
		const cases: [server: Server, limitMs: number, message: RegExp][] = [
			[createServer(() => {}), 20, /: no response within 20 ms$/],
			[raw(''), 5_000, /: closed the connection without a response$/],
			[raw('SSH-2.0-OpenSSH\r\n'), 5_000, /: does not speak HTTP; is that its --metrics-bind\?$/],
			[raw(`HTTP/1.0 200 OK\r\n\r\n${'x'.repeat(70_000)}`), 5_000, /: sent more than a proxy would/],
		];
		for (const [server, limitMs, message] of cases) {
			await using listener = await listening(server);
			await assert.rejects(
				askMetrics(listener.address, '/readyz', limitMs),
				(error) => error instanceof CommandError && message.test(error.message),
				String(message),
			);
		}
		await assert.rejects(
			askMetrics({ host: '127.0.0.1', port: 1 }, '/', 5_000),
			/^CommandError: 127\.0\.0\.1:1: nothing listens there/,
		);
	});

	test('reads an answer with and without fields', () => {
		assert.deepEqual(readResponse('HTTP/1.1 200 OK\r\na: b\r\n\r\nx\r\n\r\ny'), { status: 200, body: 'x\r\n\r\ny' });
		assert.deepEqual(readResponse('HTTP/1.0 204 \r\n\r\n'), { status: 204, body: '' });
	});
});
