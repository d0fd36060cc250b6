import { isToken } from '@mtls-edge-proxy/gate/gates/grammar.ts';
import type { Rejection } from '@mtls-edge-proxy/gate/gates/rejection.ts';
import { foldedName, withoutFields } from './field-kinds.ts';
import { BAD_HOST, type RequestHead } from './headers.ts';
import type { CleanTarget } from './path.ts';
import { stripPrefix, withoutSlash } from './strip-prefix.ts';

/** How a route changes its requests on their way to the upstream. */
export interface ForwardingSeed {
	/** The value of `Host`: the upstream's authority, the client's, or this text. */
	readonly host: 'upstream' | 'client' | { readonly name: string };
	/** Whether the route's prefix is cut from the path. */
	readonly stripsPrefix: boolean;
	/** `x-forwarded-host`. */
	readonly forwardedHost: boolean;
	/** `x-forwarded-port`: `true` for the port that accepted the connection, or this number; `false`: no such field. */
	readonly forwardedPort: boolean | number;
	/** `Forwarded` (RFC 7239). */
	readonly forwarded: boolean;
}

/** The facts of the client's connection. */
export interface Arrival {
	/** Its IP. */
	readonly ip: string;
	/** The local port; `undefined` once the socket is closed. */
	readonly port: number | string | undefined;
}

/**
 * Rewrites a request for the upstream of one route: its target, its `Host`, the fields that repeat what the client asked for, and
 * the client's own lines without those that could be taken for these. Routes that change nothing have no such object.
 *
 * An authority is the one that the client asked for (`RequestHead.authority`, or that of an absolute target): it may be any name.
 */
export class Forwarding {
	readonly #seed: ForwardingSeed;
	readonly #prefix: string;
	readonly #usesAuthority: boolean;
	/** Names of fields that the route writes itself: a client's fields with these names are dropped. */
	readonly #own: ReadonlySet<string>;

	/** @param prefix of the route. */
	constructor(seed: ForwardingSeed, prefix: string) {
		this.#seed = seed;
		this.#prefix = prefix;
		this.#usesAuthority = seed.host === 'client' || seed.forwardedHost || seed.forwarded;
		this.#own = new Set([
			...(seed.forwardedHost ? ['x-forwarded-host'] : []),
			...(seed.forwardedPort === false ? [] : ['x-forwarded-port']),
			...(seed.stripsPrefix ? ['x-forwarded-prefix'] : []),
		]);
	}

	/**
	 * The target that the upstream gets.
	 *
	 * @param target has been matched by the route.
	 * @param authority `null`: it is malformed, and refused if the upstream would get it.
	 */
	target(target: CleanTarget, authority: string | null | undefined): CleanTarget | Rejection {
		if (authority === null && this.#usesAuthority) return BAD_HOST;
		return this.#seed.stripsPrefix ? stripPrefix(target, this.#prefix) : target;
	}

	/** @returns the value of `Host`; `undefined`: the authority of the upstream, also if the client named no host (HTTP/1.0). */
	host(authority: string | undefined): string | undefined {
		const { host } = this.#seed;
		if (host === 'upstream') return undefined;
		return host === 'client' ? authority : host.name;
	}

	/** The route's own lines, each ended by CRLF. */
	lines(authority: string | undefined, { ip, port }: Arrival): string {
		const { forwardedHost, forwardedPort, stripsPrefix } = this.#seed;
		const prefix = stripsPrefix ? withoutSlash(this.#prefix) : '';
		const told = forwardedPort === true ? port : forwardedPort;
		let lines = '';
		if (forwardedHost && authority !== undefined) lines += `x-forwarded-host: ${authority}\r\n`;
		if (told !== false && told !== undefined) lines += `x-forwarded-port: ${told}\r\n`;
		if (prefix !== '') lines += `x-forwarded-prefix: ${prefix}\r\n`;
		if (this.#seed.forwarded) lines += `forwarded: ${forwarded(ip, authority)}\r\n`;
		return lines;
	}

	/** The client's lines, without those that the route writes itself. */
	linesOf({ lines, claimsOrigin }: Pick<RequestHead, 'lines' | 'claimsOrigin'>): string {
		return claimsOrigin && this.#own.size > 0 ? withoutFields(lines, this.#own) : lines;
	}

	/** Whether the route writes the field itself, in any spelling of its name. For explanations. */
	writes(name: string): boolean {
		return this.#own.has(foldedName(name));
	}
}

/**
 * The value of `Forwarded` (RFC 7239 section 4): one element, since earlier hops are not trusted.
 *
 * @param ip of the client, IPv6 without brackets.
 * @param authority that the client asked for; `undefined`: none (HTTP/1.0).
 */
export function forwarded(ip: string, authority: string | undefined): string {
	const host = authority === undefined ? '' : `;host=${tokenOrQuoted(authority)}`;
	return `for=${tokenOrQuoted(nodeOf(ip))}${host};proto=https`;
}

/** Section 6: IPv6 addresses are in brackets. The zone of a link-local address has a meaning only on this machine. */
function nodeOf(ip: string): string {
	return ip.includes(':') ? `[${ip.replace(/%.*/s, '')}]` : ip;
}

/** Section 4: a value is a token or a quoted string. A token contains neither colons nor brackets. */
function tokenOrQuoted(value: string): string {
	return isToken(value) ? value : `"${value.replaceAll(/["\\]/g, '\\$&')}"`;
}
