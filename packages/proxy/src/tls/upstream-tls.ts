import { constants, X509Certificate } from 'node:crypto';
import { isIP } from 'node:net';
import {
	type ConnectionOptions,
	createSecureContext,
	type PeerCertificate,
	type SecureContext,
	type SecureContextOptions,
} from 'node:tls';
import { authoritiesOf } from '@mtls-edge-proxy/gate/tls/certificates.ts';
import type { TlsRole } from '@mtls-edge-proxy/gate/tls/tls-material.ts';
import { CIPHERS } from '@mtls-edge-proxy/gate/tls/tls-options.ts';
import type { UpstreamProtocol, UpstreamTlsSeed } from '../shared/messages.ts';

/** How connections to upstreams are made over TLS: those of requests and those of health probes alike. */

/** @throws the error of OpenSSL if it refuses the material. */
export function createUpstreamContext(seed: UpstreamTlsSeed): SecureContext {
	return createSecureContext(contextOptions(seed));
}

function contextOptions({ ca, cert, key, minVersion = '1.2' }: Partial<UpstreamTlsSeed>): SecureContextOptions {
	return {
		...(ca !== undefined && { ca: authoritiesOf(ca), allowPartialTrustChain: true }),
		cert,
		key,
		minVersion: `TLSv${minVersion}`,
		maxVersion: 'TLSv1.3',
		ciphers: CIPHERS,
		// In a renegotiation the upstream could show another certificate than the one that has been verified.
		secureOptions: constants.SSL_OP_NO_RENEGOTIATION,
	};
}

/** For judging the files of an upstream: here the proxy is the client. */
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
 * @param host of the address, as it is connected to.
 */
export function upstreamTlsOptions(
	{ serverName, verify }: UpstreamTlsSeed,
	host: string,
	secureContext: SecureContext,
	protocol: UpstreamProtocol = 'http/1.1',
): ConnectionOptions {
	// A name that ends with a dot is the same one, and is in no certificate and in no SNI with it (RFC 6066 section 3).
	const name = (serverName ?? host).replace(/\.$/, '');
	return {
		secureContext,
		// RFC 6066 section 3: no literal addresses. Node would put the host in place of a name that is missing.
		servername: isIP(name) === 0 ? name : '',
		ALPNProtocols: protocol === 'auto' ? ['h2', 'http/1.1'] : [protocol],
		rejectUnauthorized: verify,
		checkServerIdentity: (_, certificate) => (verify ? nameProblem(name, certificate) : undefined),
	};
}

/**
 * Whether a certificate that chains to a CA is that of the upstream. Only subjectAltName counts, no common name (RFC 9525
 * section 2), which Node's own check falls back to.
 *
 * @returns an error whose message holds nothing of the certificate.
 */
function nameProblem(name: string, { raw }: PeerCertificate): Error | undefined {
	const certificate = new X509Certificate(raw);
	const found =
		isIP(name) === 0
			? certificate.checkHost(name, { subject: 'never', partialWildcards: false })
			: certificate.checkIP(name);
	if (found !== undefined) return undefined;
	// RFC 9525 section 6.3 leaves it to the client, and OpenSSL takes no wildcard in front of a single label: `*.com` would be anybody's.
	const [, parent = ''] = /^[^.]+\.([^.]+)$/.exec(name) ?? [];
	if (parent !== '' && certificate.subjectAltName?.split(', ').includes(`DNS:*.${parent}`)) {
		return Object.assign(new Error('wildcard of one label'), { code: 'ERR_TLS_CERT_SHORT_WILDCARD' });
	}
	return Object.assign(new Error('certificate of another name'), { code: 'ERR_TLS_CERT_ALTNAME_INVALID' });
}
