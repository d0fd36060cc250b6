import type { Socket } from 'node:net';
import { duplexPair } from 'node:stream';
import { type SecureContext, type Server, TLSSocket } from 'node:tls';

/**
 * All of Node's internals that the proxy relies on: members that the types do not have (Node 24 to 26), used here and nowhere else.
 * `assertNodeInternals` checks them when a worker starts.
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

/** The option `allowPartialTrustChain` is not among those that `tls.Server` hands on to its own context (Node 26.10). */
export function allowPartialChains(server: Server): void {
	(server as unknown as OwnContext)._sharedCreds.context.setAllowPartialTrustChain();
}

/** Resumes reading on a socket that stopped because its `push` returned false. */
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
		...(['enableCertCb', 'certCbDone', 'verifyError'] as const).filter((name) => typeof handle[name] !== 'function'),
		...(['_releaseControl', 'push', '_read'] as const).filter(
			(name) => typeof (sample as ServerSocket)[name] !== 'function',
		),
		...('secureConnecting' in sample ? [] : ['secureConnecting']),
	];
	if (missing.length === 0) return;
	const list = missing.join(', ');
	throw new Error(
		`Node ${process.version} has no ${list} on TLS sockets, which this proxy needs: run it with Node 24 or 26`,
	);
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
	};
	_releaseControl(): boolean;
}

interface OwnContext {
	readonly _sharedCreds: { readonly context: { setAllowPartialTrustChain(): void } };
}
