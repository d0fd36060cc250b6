import type { TLSSocket } from 'node:tls';
import { jsonString } from '../shared/json-string.ts';
import { forwardedLines } from './answers.ts';
import { OutgoingHead } from './outgoing-head.ts';

/** What all requests of one connection have in common. Whoever makes one has a socket whose handshake is done. */
export class ClientConnection {
	/** The client's IP. */
	readonly ip: string;
	/** `x-forwarded-for` and `x-forwarded-proto` lines. */
	readonly forwardedLines: string;
	readonly outgoing: OutgoingHead;
	readonly #socket: TlsFacts;
	readonly #protocol: 'http/1.1' | 'h2';
	#logMembers: string | undefined;

	constructor(socket: TlsFacts, ip: string, protocol: 'http/1.1' | 'h2') {
		this.ip = ip;
		this.forwardedLines = forwardedLines(ip);
		this.outgoing = new OutgoingHead(this.forwardedLines);
		this.#socket = socket;
		this.#protocol = protocol;
	}

	/**
	 * The connection's part of an access line: members of a JSON object, each with a comma before it. Worked out with the
	 * first request that is logged, since reading a certificate costs as much as several requests.
	 */
	get logMembers(): string {
		this.#logMembers ??= this.#describe();
		return this.#logMembers;
	}

	#describe(): string {
		const members = [
			member('protocol', this.#protocol),
			member('tls', this.#socket.getProtocol()),
			member('client', this.ip),
		];
		const certificate = this.#socket.getPeerX509Certificate();
		if (certificate !== undefined) {
			// One attribute a line, as Node has it.
			members.push(member('client_subject', certificate.subject?.replaceAll('\n', ', ')));
			members.push(member('client_sha256', certificate.fingerprint256.replaceAll(':', '').toLowerCase()));
		}
		return members.join('');
	}
}

/** As much of a socket as is needed. It tells nothing any more once it is closed. */
export type TlsFacts = Pick<TLSSocket, 'getProtocol' | 'getPeerX509Certificate'>;

function member(name: string, value: string | null | undefined): string {
	return value === null || value === undefined ? '' : `,"${name}":${jsonString(value)}`;
}
