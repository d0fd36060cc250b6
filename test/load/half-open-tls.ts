/** TLS servers that stop before HTTP/2 starts. */
import { createServer, type Socket } from 'node:net';
import { createSecureContext, TLSSocket } from 'node:tls';
import { FRAME, frame, settingsFrame } from '../fixtures/h2-frames.ts';
import { type Listening, listening } from '../fixtures/listening.ts';
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

export interface HalfOpen extends Listening {
	readonly kind: HalfOpenKind;
}

export async function startHalfOpen(kind: HalfOpenKind): Promise<HalfOpen> {
	const { server: credentials } = await testPki();
	const secureContext = createSecureContext({ cert: credentials.certPem, key: credentials.keyPem });
	const server = createServer({ allowHalfOpen: true }, (socket) => {
		if (kind.onAccept?.(socket) === false) return;
		const secure = new TLSSocket(socket, { isServer: true, secureContext, ALPNProtocols: ['h2'] });
		secure.on('error', () => {}).on('secure', () => kind.onSecure?.(secure, socket));
		secure.resume();
	});
	return { kind, ...(await listening(server)) };
}
