import { connect, type OnReadOpts, type Socket } from 'node:net';
import { connect as connectTls, type SecureContext, type TLSSocket } from 'node:tls';
import type { Clock } from '@mtls-edge-proxy/gate/shared/clock.ts';
import type { EndpointSeed, RoutingSeed, UpstreamProtocol, UpstreamTlsSeed } from '../../shared/messages.ts';
import { createUpstreamContext, isAlpnAlert, NO_HTTP1, NO_HTTP2, upstreamTlsOptions } from '../../tls/upstream-tls.ts';
import { KeptSessions, type Session } from './kept-sessions.ts';

/** Opens and closes connections to one endpoint, over TCP or TLS. */
export interface Transport {
	/** The event for an established connection; over TLS, the endpoint's identity is verified by then. */
	readonly connected: 'connect' | 'secureConnect';
	/**
	 * Whether the end of a connection can be told from one that was cut off on the way. Otherwise it cannot end a
	 * response.
	 */
	readonly endIsKnown: boolean;
	/** Whether Node reports the end of a write only in the next turn of the loop, although the kernel has taken all of it. */
	readonly writesEndLater: boolean;
	/**
	 * Nothing that is written to the socket is sent before `connected`, and its end does not end our side.
	 *
	 * @param onread for all that is read. @param protocol the only one for TLS to offer; default: that of the address.
	 */
	open(onread: OnReadOpts, protocol?: UpstreamProtocol): Socket;
	/** The protocol of an established connection. */
	protocolOf(socket: Socket): 'http/1.1' | 'h2';
	/** Ends a connection that carries nothing that is still wanted. @param hasLast what was written last should still go out. */
	close(socket: Socket, hasLast?: boolean): void;
	/** Shared by all addresses with the same settings; `undefined`: no TLS. */
	readonly context: SecureContext | undefined;
	/** Whether these settings, as JSON, would make the same kind of connections. */
	isMadeOf(tls: string | undefined): boolean;
}

/** Time for a close_notify to go out, ms. */
const CLOSE_LIMIT_MS = 1_000;

type Address = Pick<EndpointSeed, 'host' | 'port' | 'protocol'>;

/**
 * Transports for the endpoints of a routing table. If an endpoint's settings have not changed, its known transport is used, so that its
 * connections stay.
 *
 * @param known the current transport of the endpoint with that breaker.
 * @throws OpenSSL's error if it refuses certificates or keys.
 */
export function transportsOf(
	{ endpoints, upstreams }: Pick<RoutingSeed, 'endpoints' | 'upstreams'>,
	known: (breakerId: number) => Transport | undefined,
	clock: Clock,
): Transport[] {
	const transports: Transport[] = [];
	for (const { tls, endpoints: members } of upstreams) {
		const text = tls && JSON.stringify(tls);
		const before = members.map((member) => known(endpoints[member]!.breakerId));
		// Most changes concern addresses, and reading certificates and keys is expensive.
		let context = before.find((one) => one?.isMadeOf(text) && one.context !== undefined)?.context;
		for (const [i, member] of members.entries()) {
			const same = before[i];
			if (same?.isMadeOf(text)) {
				transports[member] = same;
			} else if (tls === undefined) {
				transports[member] = new TcpTransport(endpoints[member]!);
			} else {
				context ??= createUpstreamContext(tls);
				transports[member] = new TlsTransport(endpoints[member]!, { tls, text: text!, context }, clock);
			}
		}
	}
	return transports;
}

class TcpTransport implements Transport {
	readonly connected = 'connect';
	readonly endIsKnown = true;
	readonly writesEndLater = false;
	readonly context = undefined;
	readonly #address: Address;

	constructor(address: Address) {
		this.#address = address;
	}

	open(onread: OnReadOpts): Socket {
		const { host, port } = this.#address;
		return connect({ host, port, noDelay: true, allowHalfOpen: true, onread });
	}

	protocolOf(): 'http/1.1' | 'h2' {
		return this.#address.protocol === 'h2' ? 'h2' : 'http/1.1';
	}

	close(socket: Socket): void {
		socket.destroy();
	}

	isMadeOf(tls: string | undefined): boolean {
		return tls === undefined;
	}
}

/** The same for all addresses of an upstream. */
interface TlsSettings {
	readonly tls: UpstreamTlsSeed;
	/** As JSON. */
	readonly text: string;
	readonly context: SecureContext;
}

class TlsTransport implements Transport {
	readonly connected = 'secureConnect';
	/** Node says `end` with and without a close_notify (RFC 8446 section 6.1), and anybody on the way can end a TCP connection. */
	readonly endIsKnown = false;
	readonly writesEndLater = true;
	readonly #address: Address;
	readonly #settings: TlsSettings;
	readonly #sessions: KeptSessions;

	constructor(address: Address, settings: TlsSettings, clock: Clock) {
		this.#address = address;
		this.#settings = settings;
		this.#sessions = new KeptSessions(clock);
	}

	get context(): SecureContext {
		return this.#settings.context;
	}

	open(onread: OnReadOpts, protocol = this.#address.protocol): Socket {
		const { host, port } = this.#address;
		const session = this.#sessions.take();
		const options = {
			...upstreamTlsOptions(this.#settings.tls, host, this.context, protocol),
			...(session && { session: session.ticket }),
			host,
			port,
			noDelay: true,
			allowHalfOpen: true,
			// Node passes it to the socket, as `net.connect` would; the types omit it.
			onread,
		};
		const socket = connectTls(options);
		// OpenSSL would send written data with the end of its handshake. Node checks the verdict on the certificate only
		// after that.
		socket.cork();
		const refusal = refusalOf(protocol, this.#address.protocol);
		if (refusal !== undefined) socket.once('error', (error) => nameRefusal(error, refusal));
		let verified: Omit<Session, 'ticket'> | undefined;
		socket.once('secureConnect', () => {
			const code = alpnProblem(protocol, socket.alpnProtocol, refusal);
			if (code !== undefined) return void socket.destroy(Object.assign(new Error('another protocol'), { code }));
			verified = this.#sessions.verified(session, socket);
			socket.uncork();
		});
		// Register now: OpenSSL reports sessions from now on, or not at all.
		socket.on('session', (ticket: Buffer) => {
			if (verified !== undefined) this.#sessions.keep({ ticket, ...verified });
		});
		return socket;
	}

	protocolOf(socket: TLSSocket): 'http/1.1' | 'h2' {
		return socket.alpnProtocol === 'h2' ? 'h2' : 'http/1.1';
	}

	/** Sends a close_notify, without which the endpoint would treat the end as truncation (RFC 8446 section 6.1). */
	close(socket: Socket, hasLast = false): void {
		if (hasLast ? socket.writableNeedDrain : socket.writableLength > 0) return void socket.destroy();
		// An endpoint that does not read may keep the kernel from taking it.
		socket.setTimeout(CLOSE_LIMIT_MS, () => socket.destroy());
		socket.destroySoon();
	}

	isMadeOf(tls: string | undefined): boolean {
		return tls === this.#settings.text;
	}
}

/**
 * @param protocol the offered one.
 * @param usual that of the address.
 * @returns the code of an error if the endpoint does not choose it; `undefined`: it need not choose any.
 */
function refusalOf(protocol?: UpstreamProtocol, usual?: UpstreamProtocol): string | undefined {
	if (protocol === 'h2') return NO_HTTP2;
	return usual === 'auto' && protocol !== 'auto' ? NO_HTTP1 : undefined;
}

/** @param chosen `false`: the endpoint knows nothing of ALPN, which means HTTP/1.1. @returns the code of an error. */
function alpnProblem(
	protocol: UpstreamProtocol = 'http/1.1',
	chosen: string | false | null,
	refusal: string | undefined,
): string | undefined {
	if (protocol === 'auto' || chosen === protocol) return undefined;
	if (refusal !== undefined) return refusal;
	return chosen ? 'ERR_TLS_ALPN' : undefined;
}

/** The first listener of a connection's error: the others read the code. */
function nameRefusal(error: NodeJS.ErrnoException, refusal: string): void {
	if (isAlpnAlert(error)) error.code = refusal;
}
