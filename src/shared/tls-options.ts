import { constants } from 'node:crypto';
import type { SecureContextOptions, Server, TlsOptions } from 'node:tls';
import { authoritiesOf } from './certificates.ts';
import type { TlsMaterial } from './messages.ts';

/** The settings of every mTLS listener of ours, the proxy's and the embedded one (specification 5, decisions "TLS"). */

/** What a reload exchanges. */
export function secureContextOptions(material: TlsMaterial): SecureContextOptions {
	return {
		cert: material.cert,
		key: material.key,
		// Never empty (see `tls-material.ts`): without a CA of ours Node would trust all public ones.
		ca: authoritiesOf(material.ca),
		minVersion: `TLSv${material.minVersion ?? '1.2'}`,
		maxVersion: 'TLSv1.3',
		// A resumed session skips the check of the client's certificate, which may have expired or lost its CA since.
		// Without tickets a session could only be found in a cache, and there is none. A renegotiation would let a
		// client change its identity under a connection that has been judged.
		secureOptions: constants.SSL_OP_NO_TICKET | constants.SSL_OP_NO_RENEGOTIATION,
		honorCipherOrder: true,
	};
}

/**
 * Gives a listener its identity and its CAs, at the start and at each reload; live connections keep what they have. A chain
 * may end at any CA of the bundle, also at one that another CA has issued (specification 2.1): of its sisters, which
 * trusting the root would let in, nobody has spoken.
 */
export function useSecureContext(server: Server, material: TlsMaterial): void {
	server.setSecureContext(secureContextOptions(material));
	// The option `allowPartialTrustChain` is not among those that `tls.Server` hands on to its own context (Node 26.10).
	(server as unknown as OwnContext)._sharedCreds.context.setAllowPartialTrustChain();
}

interface OwnContext {
	readonly _sharedCreds: { readonly context: { setAllowPartialTrustChain(): void } };
}

/** What stays for the listener's life. */
export const listenerOptions = {
	requestCert: true,
	rejectUnauthorized: true,
	// With a list and no common entry the handshake fails (RFC 7301 section 3.2); no ALPN at all means HTTP/1.1.
	ALPNProtocols: ['h2', 'http/1.1'],
} as const satisfies TlsOptions;
