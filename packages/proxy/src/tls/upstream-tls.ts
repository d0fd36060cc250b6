import { constants, X509Certificate } from 'node:crypto';
import { isIP } from 'node:net';
import {
	type ConnectionOptions,
	createSecureContext,
	type PeerCertificate,
	type SecureContext,
	type SecureContextOptions,
} from 'node:tls';
import { casOf } from '@mtls-edge-proxy/gate/tls/certificates.ts';
import type { TlsRole } from '@mtls-edge-proxy/gate/tls/tls-material.ts';
import { CIPHERS } from '@mtls-edge-proxy/gate/tls/tls-options.ts';
import type { UpstreamProtocol, UpstreamTlsSeed } from '../shared/messages.ts';

/** TLS to upstreams, for requests and health probes alike. */

/** @throws OpenSSL's error if it refuses the material. */
export function createUpstreamContext(seed: UpstreamTlsSeed): SecureContext {
	return createSecureContext(contextOptions(seed));
}

function contextOptions({ ca, cert, key, minVersion = '1.2' }: Partial<UpstreamTlsSeed>): SecureContextOptions {
	return {
		...(ca !== undefined && { ca: casOf(ca), allowPartialTrustChain: true }),
		cert,
		key,
		minVersion: `TLSv${minVersion}`,
		maxVersion: 'TLSv1.3',
		ciphers: CIPHERS,
		// In a renegotiation the upstream could present another certificate than the verified one.
		secureOptions: constants.SSL_OP_NO_RENEGOTIATION,
	};
}

/** For checking the TLS files of an upstream, to which the proxy is a client. */
export const UPSTREAM_ROLE: TlsRole = {
	usage: '1.3.6.1.5.5.7.3.2',
	usageName: 'clientAuth',
	refusers: 'upstreams',
	purpose: 'clients',
	peers: 'the upstream',
	needsName: false,
	needsAll: false,
	contextOptions,
};

/**
 * Options for `tls.connect` and `https.request`, in addition to host and port.
 *
 * @param host of the address to connect to.
 */
export function upstreamTlsOptions(
	{ serverName, verify }: UpstreamTlsSeed,
	host: string,
	secureContext: SecureContext,
	protocol: UpstreamProtocol = 'http/1.1',
): ConnectionOptions {
	// A dot at the end does not change a name, and neither certificates nor SNI have it (RFC 6066 section 3).
	const name = (serverName ?? host).replace(/\.$/, '');
	return {
		secureContext,
		// RFC 6066 section 3: no literal addresses. Empty, since Node would use the host if the name were missing.
		servername: isIP(name) === 0 ? name : '',
		ALPNProtocols: protocol === 'auto' ? ['h2', 'http/1.1'] : [protocol],
		rejectUnauthorized: verify,
		checkServerIdentity: (_, certificate) => (verify ? nameProblem(name, certificate) : undefined),
	};
}

/** Code of an error: the upstream was offered only HTTP/2, and did not choose it (ALPN). */
export const NO_HTTP2 = 'ERR_TLS_ALPN_NO_H2';

/** Code of an error: an upstream that chooses its protocol was offered only HTTP/1.1, and did not choose it. */
export const NO_HTTP1 = 'ERR_TLS_ALPN_NO_H1';

/** Whether the upstream has refused all offered protocols by an alert (RFC 7301 section 3.2). Others choose none, or their own. */
export function isAlpnAlert({ code }: NodeJS.ErrnoException): boolean {
	return code === 'ERR_SSL_TLSV1_ALERT_NO_APPLICATION_PROTOCOL';
}

/**
 * Whether a certificate that chains to a CA belongs to the upstream. Only subjectAltName counts (RFC 9525 section 2): Node's own
 * check falls back to the common name.
 *
 * @returns an error whose message contains nothing from the certificate.
 */
function nameProblem(name: string, { raw }: PeerCertificate): Error | undefined {
	const certificate = new X509Certificate(raw);
	const found =
		isIP(name) === 0
			? certificate.checkHost(name, { subject: 'never', partialWildcards: false })
			: certificate.checkIP(name);
	if (found !== undefined) return undefined;
	// RFC 9525 section 6.3 leaves it to the client. OpenSSL accepts no wildcard before a single label: anybody could have `*.com`.
	const [, parent = ''] = /^[^.]+\.([^.]+)$/.exec(name) ?? [];
	if (parent !== '' && certificate.subjectAltName?.split(', ').includes(`DNS:*.${parent}`)) {
		return Object.assign(new Error('wildcard of one label'), { code: 'ERR_TLS_CERT_SHORT_WILDCARD' });
	}
	return Object.assign(new Error('certificate of another name'), { code: 'ERR_TLS_CERT_ALTNAME_INVALID' });
}
