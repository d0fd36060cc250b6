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
import { type Caller, x509Of } from './caller.ts';
import { GateError } from './error.ts';
import { checkOptions, type Kinds, NARROWING, refuseUnknownKeys } from './options.ts';

/** Revoked certificates, tokens and tenants, with the members of the proxy's `revoked_path`. */
export interface RevokedOptions {
	/** SHA-256 of certificates, hexadecimal, with or without colons. The entry of a CA revokes every certificate whose chain contains it. */
	readonly certificates?: readonly string[];
	/** Certificates by issuer name (`CN=Clients`, in the form of Node or openssl) and serial number (hexadecimal). */
	readonly serials?: readonly { readonly issuer: string; readonly serial: string }[];
	/** `jti`s. */
	readonly tokens?: readonly string[];
	/** Tenants, with their issuer's prefix. */
	readonly tenants?: readonly string[];
}

const KINDS: Kinds<RevokedOptions> = {
	certificates: NARROWING,
	serials: NARROWING,
	tokens: NARROWING,
	tenants: NARROWING,
};

/**
 * @throws {GateError} `ERR_GATE_REVOKED`.
 *
 * @internal
 */
export function readRevoked(options: RevokedOptions): RevocationList {
	const { certificates, serials, tokens, tenants } = checkOptions<RevokedOptions>(
		'ERR_GATE_REVOKED',
		'revoked',
		options,
		KINDS,
	);
	return {
		certificates: listOf('certificates', certificates, (one, place) =>
			canonicalThumbprint(
				textOf(one, place, THUMBPRINT, 'must be the SHA-256 of a certificate, 64 hexadecimal digits'),
			),
		),
		serials: listOf('serials', serials, (one, place) => {
			refuseUnknownKeys('ERR_GATE_REVOKED', place, one, ['issuer', 'serial']);
			const { issuer, serial } = one as { readonly issuer: unknown; readonly serial: unknown };
			return {
				issuer: keyOf(issuer, `${place}.issuer`),
				serial: canonicalSerial(textOf(serial, `${place}.serial`, SERIAL, 'must be a serial number in hexadecimal')),
			};
		}),
		tokens: listOf('tokens', tokens, (one, place) => textOf(one, place, /./s, 'must be the "jti" of a token')),
		tenants: listOf('tenants', tenants, (one, place) => textOf(one, place, /./s, 'must be the name of a tenant')),
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
 * The revoked certificates of a list. The verdict about a certificate is cached by its object, and adapters pass the same object for all
 * requests of a connection.
 *
 * @internal
 */
export class RevokedCallers {
	readonly #revoked: RevokedCertificates;
	readonly #verdicts = new WeakMap<X509Certificate, boolean>();

	constructor(list: RevocationList) {
		this.#revoked = new RevokedCertificates(list);
	}

	get isEmpty(): boolean {
		return this.#revoked.isEmpty;
	}

	/** @throws Error if the value is not a certificate. */
	refuse(caller: Caller): Rejection | undefined {
		// Without this, a program that never passes a certificate would revoke nobody and not notice.
		if (caller.certificate === undefined) return UNKNOWN_CALLER;
		const certificate = x509Of(caller);
		// The client has no certificate, so it has no revoked one.
		if (certificate === undefined) return undefined;
		let isRevoked = this.#verdicts.get(certificate);
		if (isRevoked === undefined) {
			isRevoked = this.#isRevoked(certificate);
			this.#verdicts.set(certificate, isRevoked);
		}
		return isRevoked ? REVOKED_CERTIFICATE : undefined;
	}

	/** The leaf, or any certificate that came with it: Node does not say which of them are in the verified chain. */
	#isRevoked(leaf: X509Certificate): boolean {
		for (let one: X509Certificate | undefined = leaf; one !== undefined; one = one.issuerCertificate) {
			if (this.#revoked.has(one)) return true;
		}
		return false;
	}
}

const REVOKED_CERTIFICATE = TOKEN_INVALID.because('revoked certificate');
const UNKNOWN_CALLER = TOKEN_INVALID.because('no certificate was given to check for revocation');
