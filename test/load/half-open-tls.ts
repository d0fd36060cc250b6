/** TLS servers that stop before HTTP/2 starts. */
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { createSecureContext, TLSSocket } from 'node:tls';
import { FRAME, frame, settingsFrame } from '../fixtures/h2-frames.ts';
import { testPki } from '../fixtures/pki.ts';

interface HalfOpenKind {
	readonly name: string;
	/** Before TLS: whether the connection continues. */
	onAccept?(socket: Socket): boolean;
	/** After the handshake. */
	onSecure?(secure: TLSSocket, socket: Socket): void;
}

export const HALF_OPEN: readonly HalfOpenKind[] = [
	{ name: 'half-open TLS: never says a word', onAccept: () => false },
	{
		name: 'half-open TLS: reads the ClientHello and says nothing',
		onAccept: (socket) => {
			socket.resume();
			return false;
		},
	},
	{
		name: 'half-open TLS: half of a record, and nothing more',
		onAccept: (socket) => {
			socket.once('data', () => socket.write(Buffer.from('160303007a02000076', 'hex')));
			return false;
		},
	},
	{
		name: 'half-open TLS: ends its side behind the ClientHello',
		onAccept: (socket) => {
			socket.once('data', () => socket.end());
			return false;
		},
	},
	{ name: 'half-open TLS: a handshake, and no SETTINGS', onSecure: () => {} },
	{ name: 'half-open TLS: SETTINGS, and no answer', onSecure: (secure) => void secure.write(settingsFrame()) },
	{
		name: 'half-open TLS: SETTINGS, and its side of TLS ends',
		onSecure: (secure) => void secure.end(settingsFrame()),
	},
	{
		name: 'half-open TLS: SETTINGS, and its side of TCP ends without an alert',
		onSecure: (secure, socket) => {
			secure.write(settingsFrame(), () => socket.end());
		},
	},
	{
		name: 'half-open TLS: half of a frame, and nothing more',
		onSecure: (secure) => {
			secure.write(Buffer.concat([settingsFrame(), frame(FRAME.HEADERS, 4, 1, 'half', 4000)]));
		},
	},
];

export interface HalfOpen {
	readonly kind: HalfOpenKind;
	readonly authority: string;
	stop(): Promise<void>;
}

export async function startHalfOpen(kind: HalfOpenKind): Promise<HalfOpen> {
	const { server: credentials } = await testPki();
	const secureContext = createSecureContext({ cert: credentials.certPem, key: credentials.keyPem });
	const sockets = new Set<Socket>();
	const server = createServer({ allowHalfOpen: true }, (socket) => {
		sockets.add(socket);
		socket.on('error', () => {}).on('close', () => sockets.delete(socket));
		if (kind.onAccept?.(socket) === false) return;
		const secure = new TLSSocket(socket, { isServer: true, secureContext, ALPNProtocols: ['h2'] });
		secure.on('error', () => {}).on('secure', () => kind.onSecure?.(secure, socket));
		secure.resume();
	});
	await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
	return {
		kind,
		authority: `127.0.0.1:${(server.address() as AddressInfo).port}`,
		stop: async () => {
			for (const socket of sockets) socket.destroy();
			await new Promise((resolve) => server.close(resolve));
		},
	};
}
