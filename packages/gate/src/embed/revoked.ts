import type { X509Certificate } from 'node:crypto';
import { type Rejection, TOKEN_INVALID } from '../gates/rejection.ts';
import {
	canonicalSerial,
	canonicalThumbprint,
	issuerKey,
	type RevocationList,
	RevokedCertificates,
	SERIAL,
	THUMBPRINT,
} from '../identity/revocations.ts';
import { type Caller, chainOf, x509Of } from './caller.ts';
import { GateError } from './error.ts';
import { ANY, BOOLEAN, checkOptions, type Kinds, NARROWING } from './options.ts';

/**
 * Revoked certificates, tokens and tenants, with the members of the proxy's `revoked_path`. With revoked certificates every client needs
 * a certificate, and its whole chain must be known; see `leafOnly`.
 */
export interface RevokedOptions {
	/** SHA-256 of certificates, hexadecimal, with or without colons. The entry of a CA revokes every certificate whose chain contains it. */
	readonly certificates?: readonly string[];
	/** Certificates by issuer name (`CN=Clients`, in the form of Node or openssl) and serial number (hexadecimal). */
	readonly serials?: readonly { readonly issuer: string; readonly serial: string }[];
	/** `jti`s. */
	readonly tokens?: readonly string[];
	/** Tenants, with their issuer's prefix. */
	readonly tenants?: readonly string[];
	/**
	 * `true`: only the client's own certificate is compared, and entries of CAs have no effect. It is weaker, for connections whose chain is
	 * unknown: resumed sessions, gRPC, certificates that are not from `certificateOf`. Default `false`.
	 */
	readonly leafOnly?: boolean;
}

const KINDS: Kinds<RevokedOptions> = {
	certificates: NARROWING,
	serials: NARROWING,
	tokens: NARROWING,
	tenants: NARROWING,
	leafOnly: { ...BOOLEAN, refusesUndefined: true },
};

const SERIAL_KINDS: Kinds<{ issuer: unknown; serial: unknown }> = { issuer: ANY, serial: ANY };

/**
 * @throws {GateError} `ERR_GATE_REVOKED`.
 *
 * @internal
 */
export function readRevoked(options: RevokedOptions): RevocationList & { readonly leafOnly: boolean } {
	const {
		certificates,
		serials,
		tokens,
		tenants,
		leafOnly = false,
	} = checkOptions<RevokedOptions>('ERR_GATE_REVOKED', 'revoked', options, KINDS);
	return {
		certificates: listOf('certificates', certificates, (one, place) =>
			canonicalThumbprint(
				textOf(one, place, THUMBPRINT, 'must be the SHA-256 of a certificate, 64 hexadecimal digits'),
			),
		),
		serials: listOf('serials', serials, (one, place) => {
			const { issuer, serial } = checkOptions('ERR_GATE_REVOKED', place, one, SERIAL_KINDS);
			return {
				issuer: keyOf(issuer, `${place}.issuer`),
				serial: canonicalSerial(textOf(serial, `${place}.serial`, SERIAL, 'must be a serial number in hexadecimal')),
			};
		}),
		tokens: listOf('tokens', tokens, (one, place) => textOf(one, place, /./s, 'must be the "jti" of a token')),
		tenants: listOf('tenants', tenants, (one, place) => textOf(one, place, /./s, 'must be the name of a tenant')),
		leafOnly,
	};
}

function listOf<Element>(key: string, list: unknown, read: (one: unknown, place: string) => Element): Element[] {
	if (list === undefined) return [];
	if (!Array.isArray(list)) throw new GateError('ERR_GATE_REVOKED', `revoked.${key} must be a list`);
	return list.map((one, i) => read(one, `revoked.${key}[${i}]`));
}

function keyOf(issuer: unknown, place: string): string {
	const key = typeof issuer === 'string' ? issuerKey(issuer) : undefined;
	if (key !== undefined) return key;
	throw new GateError('ERR_GATE_REVOKED', `${place} must be a name, such as "C=DE, CN=Clients"`);
}

function textOf(text: unknown, place: string, pattern: RegExp, wanted: string): string {
	if (typeof text === 'string' && pattern.test(text)) return text;
	throw new GateError('ERR_GATE_REVOKED', `${place} ${wanted}`);
}

/**
 * The revoked certificates of a list. The verdict about a client is cached by its certificate's object, and adapters pass the same object
 * for all requests of a connection.
 *
 * @internal
 */
export class RevokedCallers {
	readonly #revoked: RevokedCertificates;
	readonly #leafOnly: boolean;
	readonly #verdicts = new WeakMap<X509Certificate, Rejection | null>();

	constructor(list: ReturnType<typeof readRevoked>) {
		this.#revoked = new RevokedCertificates(list);
		this.#leafOnly = list.leafOnly;
	}

	get isEmpty(): boolean {
		return this.#revoked.isEmpty;
	}

	/** @throws Error if the value is not a certificate. */
	refuse(caller: Caller): Rejection | undefined {
		const certificate = x509Of(caller);
		// Otherwise a program that never passes a certificate would revoke nobody and not notice.
		if (certificate === undefined) return NO_CERTIFICATE;
		let verdict = this.#verdicts.get(certificate);
		if (verdict === undefined) {
			verdict = this.#judge(certificate);
			this.#verdicts.set(certificate, verdict);
		}
		return verdict ?? undefined;
	}

	#judge(leaf: X509Certificate): Rejection | null {
		const chain = this.#leafOnly ? [leaf] : chainOf(leaf);
		if ((chain ?? [leaf]).some((one) => this.#revoked.has(one))) return REVOKED_CERTIFICATE;
		return chain === undefined ? UNKNOWN_CHAIN : null;
	}
}

const REVOKED_CERTIFICATE = TOKEN_INVALID.because('revoked certificate');
const NO_CERTIFICATE = TOKEN_INVALID.because('no client certificate to check for revocation');
const UNKNOWN_CHAIN = TOKEN_INVALID.because("chain of the client's certificate unknown; see revoked.leafOnly");
