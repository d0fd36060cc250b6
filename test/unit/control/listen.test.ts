import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, createServer, type Server } from 'node:net';
import { describe, test } from 'node:test';
import { assertFree, formatAddress, listenProblem } from '../../../packages/proxy/src/control/listen.ts';

async function listen(options: { port: number; reusePort?: boolean }): Promise<Server> {
	const server = createServer().listen({ host: '127.0.0.1', ...options });
	await once(server, 'listening');
	return server;
}

async function close(server: Server): Promise<void> {
	server.close();
	await once(server, 'close');
}

function portOf(server: Server): number {
	return (server.address() as AddressInfo).port;
}

describe('trying an address', () => {
	test('a free one is still free afterwards', async () => {
		const server = await listen({ port: 0 });
		const port = portOf(server);
		await close(server);
		await assertFree({ host: '127.0.0.1', port }, '--bind');
		await close(await listen({ port }));
	});

	test('an address that another process would share counts as taken', {
		skip: process.platform !== 'linux',
	}, async () => {
		const server = await listen({ port: 0, reusePort: true });
		const port = portOf(server);
		await assert.rejects(assertFree({ host: '127.0.0.1', port }, '--bind'), {
			name: 'StartError',
			message: `cannot listen on 127.0.0.1:${port} (--bind): the address is in use (EADDRINUSE); stop the other process or name another port`,
		});
		await close(server);
	});

	test('an address of another machine is refused', async () => {
		await assert.rejects(assertFree({ host: '192.0.2.1', port: 8443 }, '--bind'), {
			name: 'StartError',
			message: /^cannot listen on 192\.0\.2\.1:8443 \(--bind\): no interface of this machine has this address/,
		});
	});

	test('port 0 is always free', async () => {
		await assertFree({ host: '127.0.0.1', port: 0 }, '--bind');
	});
});

describe('addresses in messages', () => {
	test('IPv6 literals are in brackets', () => {
		assert.equal(formatAddress({ host: '::1', port: 8443 }), '[::1]:8443');
		assert.equal(formatAddress({ host: '0.0.0.0', port: 8443 }), '0.0.0.0:8443');
	});

	test('an unknown error has the text of the system', () => {
		const problem = listenProblem({ host: 'h', port: 1 }, '--bind', { code: 'EWHATEVER', message: 'strange things' });
		assert.equal(problem, 'cannot listen on h:1 (--bind): strange things');
	});
});
