import { deepEqual, equal, match, notEqual, ok } from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, createServer as createTcpServer, type Server, type Socket } from 'node:net';
import { after, describe, test } from 'node:test';
import { createServer, type TLSSocket, type TlsOptions } from 'node:tls';
import { systemClock } from '../../../../packages/gate/src/shared/clock.ts';
import { type Transport, transportsOf } from '../../../../packages/proxy/src/data/upstream/transport.ts';
import { DEFAULT_BALANCING } from '../../../../packages/proxy/src/gates/balancing/settings.ts';
import type {
	EndpointSeed,
	UpstreamProtocol,
	UpstreamTlsSeed,
} from '../../../../packages/proxy/src/shared/messages.ts';
import { testPki } from '../../../fixtures/pki.ts';

const pki = await testPki();
const clock = systemClock(process.hrtime.bigint());
const TLS: UpstreamTlsSeed = {
	ca: pki.ca.certPem,
	cert: undefined,
	key: undefined,
	serverName: undefined,
	minVersion: undefined,
	verify: true,
};
const servers: Server[] = [];
after(() => {
	for (const server of servers) server.close();
});

interface TestServer {
	readonly port: number;
	readonly sockets: TLSSocket[];
	/** Whether each has resumed a session. */
	readonly resumed: boolean[];
}

/** Echoes what it gets, in upper case. */
async function serve(options: TlsOptions = {}): Promise<TestServer> {
	const sockets: TLSSocket[] = [];
	const resumed: boolean[] = [];
	const server = createServer({ cert: pki.server.certPem, key: pki.server.keyPem, ...options }, (socket) => {
		sockets.push(socket);
		resumed.push(socket.isSessionReused());
		socket.on('error', () => {});
		socket.on('data', (bytes: Buffer) => socket.write(String(bytes).toUpperCase()));
	});
	servers.push(server);
	return { port: await listening(server), sockets, resumed };
}

async function listening(server: Server): Promise<number> {
	await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
	return (server.address() as AddressInfo).port;
}

function routing(port: number, tls: UpstreamTlsSeed | undefined, host = '127.0.0.1', protocol?: UpstreamProtocol) {
	const upstream = { host, port, protocol, breakerId: 1 } as EndpointSeed;
	return {
		endpoints: [upstream],
		upstreams: [{ name: 'a', tls, endpoints: [0], weights: [1], balancing: DEFAULT_BALANCING }],
	};
}

function transportTo(port: number, tls?: UpstreamTlsSeed, host?: string, protocol?: UpstreamProtocol): Transport {
	return transportsOf(routing(port, tls, host, protocol), () => undefined, clock)[0]!;
}

interface Opened {
	readonly socket: Socket;
	read: string;
	/** Codes of errors, and events. */
	readonly events: string[];
	readonly closed: Promise<unknown>;
}

function open(transport: Transport, protocol?: UpstreamProtocol): Opened {
	const buffer = Buffer.alloc(1_000);
	const opened = { read: '', events: [] as string[] };
	const callback = (bytes: number) => {
		opened.read += buffer.toString('latin1', 0, bytes);
		return true;
	};
	const socket = transport.open({ buffer: () => buffer, callback }, protocol);
	socket.on('error', ({ code }: NodeJS.ErrnoException) => opened.events.push(String(code)));
	for (const event of [transport.connected, 'end']) socket.on(event, () => opened.events.push(event));
	const closed = new Promise((resolve) => socket.once('close', resolve));
	return Object.assign(opened, { socket, closed });
}

/** One exchange on a new connection, which is closed like an idle one. */
async function exchange(transport: Transport, protocol?: UpstreamProtocol): Promise<Opened> {
	const opened = open(transport, protocol);
	opened.socket.write('hello');
	while (opened.read !== 'HELLO' && !opened.socket.destroyed) await new Promise(setImmediate);
	transport.close(opened.socket);
	await opened.closed;
	return opened;
}

describe('a transport over TLS', () => {
	test('has one context for all addresses with the same settings, also for new ones', () => {
		const first = transportTo(1, TLS);
		const { upstreams } = routing(1, { ...TLS });
		const endpoints = [1, 2, 3].map((breakerId) => ({ host: '127.0.0.1', port: 1, breakerId }) as EndpointSeed);
		const all = [{ ...upstreams[0]!, endpoints: [2, 0, 1] }];
		const known = (id: number) => (id === 1 ? first : undefined);
		const transports = transportsOf({ endpoints, upstreams: all }, known, clock);
		equal(transports[0], first);
		for (const { context } of transports) equal(context, first.context);
		const others = transportsOf(
			{ endpoints, upstreams: [{ ...all[0]!, tls: { ...TLS, minVersion: '1.3' } }] },
			known,
			clock,
		);
		notEqual(others[0]!.context, first.context);
	});

	for (const maxVersion of ['TLSv1.2', 'TLSv1.3'] as const) {
		test(`resumes the last session with the upstream, ${maxVersion}`, async () => {
			const server = await serve({ maxVersion });
			const transport = transportTo(server.port, TLS);
			for (let i = 0; i < 3; i++) equal((await exchange(transport)).read, 'HELLO');
			deepEqual(server.resumed, [false, true, true]);
		});

		test(`does not resume what was verified by other settings, ${maxVersion}`, async () => {
			const server = await serve({ maxVersion });
			const first = transportTo(server.port, TLS);
			await exchange(first);
			const known = (tls: UpstreamTlsSeed) => transportsOf(routing(server.port, tls), () => first, clock)[0]!;
			equal(known({ ...TLS }), first, 'the same settings are the same transport');
			for (const change of [
				{ ca: pki.ca.certPem + pki.otherCa.certPem },
				{ minVersion: '1.2' },
				{ serverName: 'localhost' },
			] as const) {
				const other = known({ ...TLS, ...change });
				notEqual(other, first);
				await exchange(other);
				equal(server.resumed.at(-1), false, Object.keys(change).join());
			}
		});

		test(`sends and takes nothing before the upstream is verified, ${maxVersion}`, async () => {
			const seen: string[] = [];
			const server = createServer({ cert: pki.server.certPem, key: pki.server.keyPem, maxVersion }, (socket) => {
				socket.on('error', () => {});
				socket.on('data', (bytes) => seen.push(String(bytes)));
				socket.write('early');
			});
			servers.push(server);
			const transport = transportTo(await listening(server), { ...TLS, ca: pki.otherCa.certPem });
			const opened = open(transport);
			opened.socket.write('secret');
			await opened.closed;
			deepEqual(opened.events, ['UNABLE_TO_GET_ISSUER_CERT_LOCALLY']);
			equal(opened.read, '');
			deepEqual(seen, []);
		});
	}

	test('ends a connection with close_notify', async () => {
		const server = await serve();
		const transport = transportTo(server.port, TLS);
		await exchange(transport);
		const [socket] = server.sockets;
		if (!socket!.readableEnded) await once(socket!, 'end');
		ok(socket!.readableEnded);
	});

	test('does not wait long for an upstream that does not read', async () => {
		const server = await serve();
		const transport = transportTo(server.port, TLS);
		const opened = open(transport);
		await once(opened.socket, 'secureConnect');
		opened.socket.write(Buffer.alloc(1_000_000));
		transport.close(opened.socket);
		ok(opened.socket.destroyed, 'at once, where bytes wait');
		await opened.closed;
	});

	test('finds the address of a name that accepts connections', async () => {
		const server = await serve();
		equal((await exchange(transportTo(server.port, TLS, 'localhost'))).read, 'HELLO');
	});

	test('requires the name of the address in the certificate, or the configured name', async () => {
		const server = await serve();
		for (const [serverName, host, fits] of [
			[undefined, '127.0.0.1', true],
			['localhost', '127.0.0.1', true],
			['::1', '127.0.0.1', true],
			['localhost.', '127.0.0.1', true],
			['127.0.0.2', '127.0.0.1', false],
			['other.internal', '127.0.0.1', false],
			['localhost.localdomain', 'localhost', false],
		] as const) {
			const { read, events } = await exchange(transportTo(server.port, { ...TLS, serverName }, host));
			equal(read, fits ? 'HELLO' : '', `${serverName}`);
			if (!fits) deepEqual(events, ['ERR_TLS_CERT_ALTNAME_INVALID']);
		}
	});

	test('accepts any certificate if nothing is verified', async () => {
		const server = await serve({ cert: pki.clients.expired.certPem, key: pki.clients.expired.keyPem });
		const tls = { ...TLS, ca: undefined, verify: false };
		equal((await exchange(transportTo(server.port, tls))).read, 'HELLO');
		deepEqual((await exchange(transportTo(server.port, { ...tls, verify: true }))).read, '');
	});

	test('speaks HTTP/1.1 and nothing else', async () => {
		const protocols = await serve({ ALPNProtocols: ['h2', 'http/1.1'] });
		equal((await exchange(transportTo(protocols.port, TLS))).read, 'HELLO');
		equal(protocols.sockets[0]!.alpnProtocol, 'http/1.1');
		const other = await serve({ ALPNProtocols: ['h2'] });
		match((await exchange(transportTo(other.port, TLS))).events.join(), /NO_APPLICATION_PROTOCOL/);
	});

	test('an HTTP/2 transport has one error code for all upstreams that do not choose h2', async () => {
		for (const options of [{ ALPNProtocols: ['http/1.1'] }, {}]) {
			const { port } = await serve(options);
			const { read, events } = await exchange(transportTo(port, TLS, undefined, 'h2'));
			deepEqual([read, events.at(-1)], ['', 'ERR_TLS_ALPN_NO_H2']);
		}
	});

	test('an auto transport that offers only HTTP/1.1 requires that the upstream chooses it', async () => {
		const both = await serve({ ALPNProtocols: ['h2', 'http/1.1'] });
		equal((await exchange(transportTo(both.port, TLS, undefined, 'auto'), 'http/1.1')).read, 'HELLO');
		for (const options of [{ ALPNProtocols: ['h2'] }, {}]) {
			const { port } = await serve(options);
			const { read, events } = await exchange(transportTo(port, TLS, undefined, 'auto'), 'http/1.1');
			deepEqual([read, events.at(-1)], ['', 'ERR_TLS_ALPN_NO_H1']);
		}
	});

	test('refuses to renegotiate', async () => {
		const server = await serve({ maxVersion: 'TLSv1.2' });
		const opened = open(transportTo(server.port, TLS));
		await once(opened.socket, 'secureConnect');
		const [socket] = server.sockets;
		const refused = new Promise((resolve) => socket!.once('error', resolve));
		socket!.renegotiate({}, () => {});
		await Promise.race([refused, opened.closed]);
		ok(opened.events.includes('secureConnect'));
		opened.socket.destroy();
	});
});

test('a transport over TCP is shared, and stays the same until TLS is configured', async () => {
	const server = createTcpServer((socket) => socket.pipe(socket));
	servers.push(server);
	const port = await listening(server);
	const transport = transportTo(port);
	const opened = open(transport);
	opened.socket.write('hello');
	while (opened.read !== 'hello') await new Promise(setImmediate);
	transport.close(opened.socket);
	ok(opened.socket.destroyed);
	equal(transportsOf(routing(port, undefined), () => transport, clock)[0], transport);
	notEqual(transportsOf(routing(port, TLS), () => transport, clock)[0], transport);
});
