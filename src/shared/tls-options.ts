import { constants } from 'node:crypto';
import type { SecureContextOptions, TlsOptions } from 'node:tls';
import type { TlsMaterial } from './messages.ts';

/** The settings of every mTLS listener of ours, the proxy's and the embedded one (specification 5, decisions "TLS"). */

/** What a reload exchanges. */
export function secureContextOptions(material: TlsMaterial): SecureContextOptions {
	return {
		cert: material.cert,
		key: material.key,
		// Never empty (see `tls-material.ts`): without a CA of ours Node would trust all public ones.
		ca: material.ca,
		minVersion: 'TLSv1.2',
		maxVersion: 'TLSv1.3',
		// A resumed session skips the check of the client's certificate, which may have expired or lost its CA since.
		// Without tickets a session could only be found in a cache, and there is none. A renegotiation would let a
		// client change its identity under a connection that has been judged.
		secureOptions: constants.SSL_OP_NO_TICKET | constants.SSL_OP_NO_RENEGOTIATION,
		honorCipherOrder: true,
	};
}

/** What stays for the listener's life. */
export const listenerOptions = {
	requestCert: true,
	rejectUnauthorized: true,
	// With a list and no common entry the handshake fails (RFC 7301 section 3.2); no ALPN at all means HTTP/1.1.
	ALPNProtocols: ['h2', 'http/1.1'],
} as const satisfies TlsOptions;
