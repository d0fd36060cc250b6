import type { X509Certificate } from 'node:crypto';
import type { TLSSocket } from 'node:tls';
import { PeerCertificate } from '@mtls-edge-proxy/gate/identity/peer-certificate.ts';
import type { Arrival, Forwarding } from '../../gates/forwarding.ts';
import type { RequestHead } from '../../gates/headers.ts';
import { Caller } from '../../identity/caller.ts';
import type { ClientProtocol } from '../../memory/route-stats.ts';
import type { ConnectionShare } from '../loop/read-share.ts';
import { OutgoingBlock } from '../memo/outgoing-block.ts';
import { RewrittenHead } from '../memo/rewritten-head.ts';
import { jsonString } from '../records/json-string.ts';
import type { Tunnel, TunnelClose } from '../tunnel/tunnel.ts';
import { OutgoingHead } from './outgoing-head.ts';

/** Data shared by all requests of one connection. Created after the handshake. */
export class ClientConnection implements Arrival {
	readonly ip: string;
	/** They tell upstreams the request's origin. */
	readonly forwardedLines: string;
	readonly outgoing: OutgoingHead;
	readonly #socket: TlsFacts;
	readonly protocol: ClientProtocol;
	readonly #share: Pick<ConnectionShare, 'spend'> | undefined;
	#outgoingBlock: OutgoingBlock | undefined;
	#rewritten: RewrittenHead | undefined;
	#logMembers: string | undefined;
	#tunnels: Set<Tunnel> | undefined;
	/** Why no tunnel may begin any more. */
	#tunnelsEnd: TunnelClose | undefined;
	#isProbed = false;
	#certificate: PeerCertificate | undefined;
	#caller: Caller | undefined;

	/** @param share what the connection may use of the worker; `undefined`: it is not read. */
	constructor(socket: TlsFacts, ip: string, protocol: ClientProtocol, share?: Pick<ConnectionShare, 'spend'>) {
		this.ip = ip;
		this.forwardedLines = `x-forwarded-for: ${ip}\r\nx-forwarded-proto: https\r\n`;
		this.outgoing = new OutgoingHead(this.forwardedLines);
		this.#socket = socket;
		this.protocol = protocol;
		this.#share = share;
	}

	spend(tokens: number): void {
		this.#share?.spend(tokens);
	}

	/** @returns why the tunnel must end at once; `undefined`: it may stay. */
	addTunnel(tunnel: Tunnel): TunnelClose | undefined {
		this.#tunnels ??= new Set();
		this.#tunnels.add(tunnel);
		return this.#tunnelsEnd;
	}

	deleteTunnel(tunnel: Tunnel): void {
		this.#tunnels?.delete(tunnel);
	}

	/** Ends all tunnels: the connection is about to end without waiting for them. */
	endTunnels(why: TunnelClose): void {
		this.#tunnelsEnd ??= why;
		if (this.#tunnels !== undefined) for (const tunnel of this.#tunnels) tunnel.close(why);
	}

	/** Has the kernel look for a client that vanishes, for requests without a time limit. HTTP/2 has its own pings. */
	probe(): void {
		if (this.#isProbed || this.protocol === 'h2') return;
		this.#isProbed = true;
		this.#socket.setKeepAlive?.(true, PROBED_AFTER_MS);
	}

	/** For upstreams that speak HTTP/2. */
	get outgoingBlock(): OutgoingBlock {
		this.#outgoingBlock ??= new OutgoingBlock(this.forwardedLines);
		return this.#outgoingBlock;
	}

	get port(): number | string | undefined {
		return this.#socket.localPort;
	}

	/**
	 * Applies a route's rules to the beginning of a request's head and to the client's lines.
	 *
	 * @param upstream its `versionAndHost`.
	 * @param authority the one that the client asked for.
	 */
	rewrite(
		forwarding: Forwarding,
		upstream: string,
		authority: string | undefined,
		head: RequestHead,
	): Pick<RewrittenHead, 'versionAndHost' | 'lines'> {
		this.#rewritten ??= new RewrittenHead();
		this.#rewritten.update(forwarding, upstream, authority, head, this);
		return this.#rewritten;
	}

	/** The client's certificate; `undefined` if it was not read before the socket closed. */
	get certificate(): PeerCertificate | undefined {
		if (this.#certificate === undefined) {
			const x509 = this.#socket.getPeerX509Certificate();
			if (x509 !== undefined) this.#certificate = new PeerCertificate(x509);
		}
		return this.#certificate;
	}

	/** The client's certificate for the checks of routes; `undefined` like `certificate`. */
	get caller(): Caller | undefined {
		if (this.#caller === undefined && this.certificate !== undefined) {
			this.#caller = new Caller(this.certificate.x509, () => this.#socket.getX509Certificate());
		}
		return this.#caller;
	}

	/** Reads the certificate without keeping it: for scans of many connections that rarely need it again. */
	readCertificate(): X509Certificate | undefined {
		return this.#certificate?.x509 ?? this.#socket.getPeerX509Certificate();
	}

	/**
	 * The connection's part of an access line: members of a JSON object, each with a comma before it. Built with the
	 * first logged request, since reading a certificate costs as much as several requests.
	 */
	get logMembers(): string {
		this.#logMembers ??= this.#describe();
		return this.#logMembers;
	}

	#describe(): string {
		const members = [
			member('protocol', this.protocol),
			member('tls', this.#socket.getProtocol()),
			member('client', this.ip),
		];
		// Not kept: each line has these members as text, and a certificate held for every connection costs memory.
		const certificate = this.readCertificate();
		if (certificate !== undefined) {
			// Node puts each attribute on a line.
			members.push(member('client_subject', certificate.subject?.replaceAll('\n', ', ')));
			members.push(member('client_sha256', new PeerCertificate(certificate).thumbprint.toString('hex')));
		}
		return members.join('');
	}
}

/** The part of a socket that is needed. A closed socket no longer answers. */
export type TlsFacts = Pick<TLSSocket, 'getProtocol' | 'getPeerX509Certificate' | 'getX509Certificate'> & {
	/** A text if the port is unknown. */
	readonly localPort?: number | string | undefined;
	setKeepAlive?(enable: boolean, initialDelayMs: number): unknown;
};

/** Silence after which TCP probes the client; ten unanswered probes, one each second, end its connection. */
const PROBED_AFTER_MS = 60_000;

function member(name: string, value: string | null | undefined): string {
	return value === null || value === undefined ? '' : `,"${name}":${jsonString(value)}`;
}
