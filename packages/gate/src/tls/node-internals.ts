import { Socket } from 'node:net';
import { duplexPair } from 'node:stream';
import { type SecureContext, type Server, TLSSocket } from 'node:tls';

/**
 * All of Node's internals that the proxy relies on: members that the types do not have (Node 24 to 26), used here and nowhere else.
 * `assertNodeInternals` checks those of sockets when a worker starts, and `allowPartialChains` that of servers.
 */

/** OpenSSL's verdict on the chain that the client has presented: a code such as `CERT_HAS_EXPIRED`; `undefined`: it is good. */
export function chainFault(socket: TLSSocket): string | undefined {
	return (socket as ServerSocket)._handle.verifyError()?.code;
}

/**
 * Gives the socket the CAs of another context than its own when the ClientHello has arrived. Node does this for a name with
 * its own context (SNI); here it happens for every client, because the socket's own context has no CA and would refuse all.
 */
export function judgeBy(socket: TLSSocket, trust: SecureContext): void {
	const { _handle: handle } = socket as ServerSocket;
	handle.oncertcb = () => {
		handle.sni_context = trust.context;
		handle.certCbDone();
	};
	handle.enableCertCb();
}

/** Admits the client. From then on, errors arrive as `error` events, like those of any other socket. */
export function letIn(socket: TLSSocket): void {
	const own = socket as ServerSocket;
	own.authorized = true;
	own.secureConnecting = false;
	own._releaseControl();
}

/**
 * The option `allowPartialTrustChain` is not among those that `tls.Server` hands on to its own context (Node 26.10).
 *
 * @throws Error of one line if this version of Node has no such context.
 */
export function allowPartialChains(server: Server): void {
	const context = (server as unknown as Partial<OwnContext>)._sharedCreds?.context;
	if (typeof context?.setAllowPartialTrustChain !== 'function') {
		throw lacking('_sharedCreds.context.setAllowPartialTrustChain on TLS servers', 'the mTLS server');
	}
	context.setAllowPartialTrustChain();
}

/**
 * The context by which a server has verified the socket's client; `undefined`: it was another one (SNI), or no server has accepted the socket.
 * Nothing checks these members: without them no chain is known, and the gate refuses clients that it cannot judge.
 */
export function acceptedBy(socket: TLSSocket): object | undefined {
	const { _tlsOptions: options, _handle: handle } = socket as unknown as AcceptedSocket;
	return handle?.sni_context === undefined && options?.server !== undefined ? options.secureContext : undefined;
}

/** The server's context and its option `ca`, with which the context was made; `ca` is `undefined` if a `pfx` may hold more CAs. */
export function trustOf(socket: TLSSocket): Trust {
	return trustOfServer((socket as unknown as AcceptedSocket)._tlsOptions!.server!);
}

export function trustOfServer(server: object): Trust {
	const { _sharedCreds: context, ca, pfx } = server as AcceptingServer;
	return { context, ca: pfx === undefined ? ca : undefined };
}

/**
 * Has everything that the socket reads from now on copied to the beginning of a buffer, as the option `onread` of `net.connect` has it.
 * A server's socket does not take that option. Without it each read makes a new `Buffer`, and each TLS record is a read.
 *
 * @param onRead called with the number of bytes for each read. `false`: the socket reads no more until `readOn`, except for the rest of
 *   what TLS has already received.
 */
export function readInto(socket: Socket, buffer: Uint8Array, onRead: (bytes: number) => boolean): void {
	const own = socket as unknown as ReadingSocket;
	own[ON_READ.buffer!] = buffer;
	own[ON_READ.callback!] = onRead;
	// A socket that is already destroyed has none.
	own._handle?.useUserBuffer(buffer);
}

/** Resumes reading on a socket that has stopped. */
export function readOn(socket: Socket): void {
	socket._read(0);
}

/**
 * @param sample a server's socket before its handshake, as this version makes it.
 * @throws Error of one line if this version of Node lacks one of them.
 */
export function assertNodeInternals(sample = new TLSSocket(duplexPair()[0] as Socket, { isServer: true })): void {
	const handle: Partial<ServerSocket['_handle']> = (sample as ServerSocket)._handle ?? {};
	const missing = [
		...(['enableCertCb', 'certCbDone', 'verifyError', 'useUserBuffer'] as const).filter(
			(name) => typeof handle[name] !== 'function',
		),
		...(['_releaseControl', 'push', '_read'] as const).filter(
			(name) => typeof (sample as ServerSocket)[name] !== 'function',
		),
		...('secureConnecting' in sample ? [] : ['secureConnecting']),
		...(ON_READ.buffer === undefined || ON_READ.callback === undefined ? ['onread'] : []),
	];
	if (missing.length === 0) return;
	throw lacking(`${missing.join(', ')} on TLS sockets`, 'this proxy');
}

function lacking(members: string, user: string): Error {
	return new Error(`Node ${process.version} has no ${members}, which ${user} needs: run it with Node 24 or 26`);
}

/** The parts of a server's socket that `tls.Server` uses. */
interface ServerSocket extends Omit<TLSSocket, 'authorized'> {
	authorized: boolean;
	secureConnecting: boolean;
	readonly _handle: {
		enableCertCb(): void;
		oncertcb: () => void;
		certCbDone(): void;
		/** What `certCbDone` takes certificate, key and CAs from. */
		sni_context: unknown;
		/** OpenSSL's verdict on the client's chain: nothing if it is good. */
		verifyError(): (Error & { readonly code: string }) | null | undefined;
		/** Has reads copied to the buffer, in place of a new one each time. */
		useUserBuffer(buffer: Uint8Array): void;
	};
	_releaseControl(): boolean;
}

/** Keeps the buffer and the callback of `onread` as members whose names are the symbols of `ON_READ`. */
interface ReadingSocket {
	readonly _handle: Pick<ServerSocket['_handle'], 'useUserBuffer'> | null;
	[symbol: symbol]: unknown;
}

const ON_READ = onReadSymbols();

/** Finds them by their values in a socket that takes the option. */
function onReadSymbols(): { readonly buffer: symbol | undefined; readonly callback: symbol | undefined } {
	const buffer = new Uint8Array(1);
	const callback = () => true;
	const sample = new Socket({ onread: { buffer, callback } }) as unknown as ReadingSocket;
	const symbolOf = (value: unknown) => Object.getOwnPropertySymbols(sample).find((symbol) => sample[symbol] === value);
	return { buffer: symbolOf(buffer), callback: symbolOf(callback) };
}

interface Trust {
	readonly context: object;
	readonly ca: unknown;
}

interface AcceptingServer {
	readonly _sharedCreds: object;
	readonly ca?: unknown;
	readonly pfx?: unknown;
}

interface AcceptedSocket {
	readonly _tlsOptions?: { readonly server?: AcceptingServer; readonly secureContext?: object };
	readonly _handle: { readonly sni_context?: unknown } | null;
}

interface OwnContext {
	readonly _sharedCreds: { readonly context: { setAllowPartialTrustChain?(): void } };
}
