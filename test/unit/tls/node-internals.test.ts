import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import {
	type AddressInfo,
	connect as connectTcp,
	createServer as createTcpServer,
	type Server,
	type Socket,
} from 'node:net';
import { describe, it } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { connect, createServer, type TLSSocket, type Server as TlsServer } from 'node:tls';
import {
	allowPartialChains,
	assertNodeInternals,
	readInto,
	readOn,
} from '../../../packages/gate/src/tls/node-internals.ts';
import { testPki } from '../../fixtures/pki.ts';
import { until } from '../../fixtures/wait.ts';

describe("Node's internals", () => {
	it('are what the proxy relies on in this version of Node', () => {
		assertNodeInternals();
	});

	it('that are missing are named in one line', () => {
		const socket = { _handle: { enableCertCb() {}, verifyError() {} }, push() {}, _read() {}, secureConnecting: true };
		assert.throws(() => assertNodeInternals(socket as unknown as TLSSocket), {
			message: `Node ${process.version} has no certCbDone, useUserBuffer, _releaseControl on TLS sockets, which this proxy needs: run it with Node 24 or 26`,
		});
	});

	it('that a TLS server lacks are named in one line', () => {
		for (const server of [{}, { _sharedCreds: {} }, { _sharedCreds: { context: {} } }]) {
			assert.throws(() => allowPartialChains(server as unknown as TlsServer), {
				message: `Node ${process.version} has no _sharedCreds.context.setAllowPartialTrustChain on TLS servers, which the mTLS server needs: run it with Node 24 or 26`,
			});
		}
	});
});

/** Both ends of connections over one protocol. */
interface Pairs extends AsyncDisposable {
	connected(): Promise<{ client: Socket; served: Socket }>;
}

async function pairsOver(protocol: 'TCP' | 'TLS'): Promise<Pairs> {
	const { certPath, keyPath } = (await testPki()).server;
	const identity = { cert: readFileSync(certPath), key: readFileSync(keyPath) };
	const server: Server = protocol === 'TCP' ? createTcpServer() : createServer(identity);
	server.listen(0, '127.0.0.1');
	await once(server, 'listening');
	const { port } = server.address() as AddressInfo;
	return {
		async connected() {
			const client =
				protocol === 'TCP'
					? connectTcp(port, '127.0.0.1')
					: connect({ port, host: '127.0.0.1', rejectUnauthorized: false });
			const [served] = await once(server, protocol === 'TCP' ? 'connection' : 'secureConnection');
			return { client, served };
		},
		async [Symbol.asyncDispose]() {
			server.close();
			await once(server, 'close');
		},
	};
}

for (const protocol of ['TCP', 'TLS'] as const) {
	describe(`a socket over ${protocol} that is read into a buffer`, () => {
		it('copies each read there, before the next read of any socket, and ends as ever', async () => {
			await using pairs = await pairsOver(protocol);
			const shared = Buffer.alloc(65_536);
			const read = async (letter: string) => {
				const { client, served } = await pairs.connected();
				const seen = { text: '', events: 0 };
				served.on('data', () => seen.events++);
				readInto(served, shared, (bytes) => {
					seen.text += shared.toString('latin1', 0, bytes);
					return true;
				});
				return { client, served, seen, sent: letter.repeat(200_000) };
			};
			const all = [await read('a'), await read('b'), await read('c')];
			for (const { client, sent } of all) client.end(sent);
			for (const { served, seen, sent } of all) {
				if (!served.readableEnded) await once(served, 'end');
				assert.equal(seen.events, 0);
				assert.ok(seen.text === sent);
				served.end();
			}
		});

		it('stops where the callback says so, and continues when it is asked to', async () => {
			await using pairs = await pairsOver(protocol);
			const { client, served } = await pairs.connected();
			const shared = Buffer.alloc(65_536);
			let text = '';
			served.on('data', assert.fail);
			readInto(served, shared, (bytes) => {
				text += shared.toString('latin1', 0, bytes);
				return false;
			});
			client.write('a');
			await until(() => text === 'a', 'the first read');
			client.write('b');
			for (let turns = 0; turns < 20; turns++) await turn();
			assert.equal(text, 'a');
			readOn(served);
			await until(() => text === 'ab', 'the second read');
			client.destroy();
			served.destroy();
		});
	});
}
