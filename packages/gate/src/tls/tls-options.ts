import { constants, X509Certificate } from 'node:crypto';
import {
	createSecureContext,
	type SecureContext,
	type SecureContextOptions,
	type Server,
	type TlsOptions,
} from 'node:tls';
import type { ClientBundle } from '../identity/possible-chains.ts';
import type { PemMaterial } from '../shared/pem-material.ts';
import { casOf } from './certificates.ts';
import { allowPartialChains } from './node-internals.ts';

/** The settings of all our mTLS listeners, the proxy's and the embedded one. */

/** The settings that a reload replaces. */
export function secureContextOptions(material: PemMaterial): SecureContextOptions {
	return {
		cert: material.cert,
		key: material.key,
		// Never empty (see `tls-material.ts`): without a CA of ours Node would trust all public ones.
		ca: casOf(material.ca),
		minVersion: `TLSv${material.minVersion ?? '1.2'}`,
		maxVersion: 'TLSv1.3',
		// A resumed session skips the check of the client's certificate, which may have expired or lost its CA since.
		// Without tickets a session could only be found in a cache, and there is none. A renegotiation would let a
		// client change its identity under a connection that has been judged.
		secureOptions: constants.SSL_OP_NO_TICKET | constants.SSL_OP_NO_RENEGOTIATION,
		ciphers: CIPHERS,
		honorCipherOrder: true,
	};
}

/**
 * The three suites of TLS 1.3, and of TLS 1.2 those with forward secrecy and authenticated encryption. RFC 9113 appendix A
 * prohibits nearly all others for HTTP/2, and RFC 9325 section 4.2 advises against them for anything else.
 */
export const CIPHERS = [
	'TLS_AES_256_GCM_SHA384',
	'TLS_CHACHA20_POLY1305_SHA256',
	'TLS_AES_128_GCM_SHA256',
	'ECDHE-ECDSA-AES128-GCM-SHA256',
	'ECDHE-RSA-AES128-GCM-SHA256',
	'ECDHE-ECDSA-AES256-GCM-SHA384',
	'ECDHE-RSA-AES256-GCM-SHA384',
	'ECDHE-ECDSA-CHACHA20-POLY1305',
	'ECDHE-RSA-CHACHA20-POLY1305',
].join(':');

/** The proxy's listener between two reloads; see `data/listener/handshake.ts` for how the contexts are combined. */
export interface ListenerContexts {
	/** Has no CA, because OpenSSL would complete the server's chain from the CAs for clients. */
	readonly identity: SecureContext;
	/** Has the CAs for clients. */
	readonly trust: SecureContext;
	/** The same CAs, for checks of a chain beyond OpenSSL's verdict. */
	readonly bundle: TrustedBundle;
}

/** The CAs of a listener, parsed on first use. */
class TrustedBundle implements ClientBundle {
	readonly #pem: string;
	#cas: readonly X509Certificate[] | undefined;

	constructor(pem: string) {
		this.#pem = pem;
	}

	get cas(): readonly X509Certificate[] {
		this.#cas ??= casOf(this.#pem).map((pem) => new X509Certificate(pem));
		return this.#cas;
	}

	isOf(pem: string): boolean {
		return this.#pem === pem;
	}
}

/**
 * The identity and the CAs of a listener. A chain may end at any CA of the bundle, even at an intermediate one. Trusting its root
 * instead would also admit the clients of its sibling CAs.
 *
 * @param before the contexts that they replace. An unchanged bundle stays the same object, because connections keep it.
 * @throws the error of OpenSSL if it refuses the material.
 */
export function createListenerContexts(material: PemMaterial, before?: ListenerContexts): ListenerContexts {
	const options = secureContextOptions(material);
	return {
		bundle: before?.bundle.isOf(material.ca) ? before.bundle : new TrustedBundle(material.ca),
		identity: createSecureContext({ ...options, ca: [] }),
		trust: createSecureContext({ ...options, allowPartialTrustChain: true }),
	};
}

/**
 * The same for a `tls.Server`, at the start and at each reload; live connections keep what they have. It has one context for
 * both, so a chain of only the leaf is completed from the bundle.
 */
export function useSecureContext(server: Server, material: PemMaterial): void {
	server.setSecureContext(secureContextOptions(material));
	allowPartialChains(server);
}

/** The settings that stay for the life of the listener. */
export const listenerOptions = {
	requestCert: true,
	rejectUnauthorized: true,
	// With a list and no common entry the handshake fails (RFC 7301 section 3.2); no ALPN at all means HTTP/1.1.
	ALPNProtocols: ['h2', 'http/1.1'],
} as const satisfies TlsOptions;
