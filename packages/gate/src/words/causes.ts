/** Failures in words for operators: in logs and in the reasons of refusals. They never quote what a peer has sent. */

/**
 * What a failed connection is called. Codes of the system, of OpenSSL and of Node name calls, rules and alerts; the messages of TLS may
 * quote the peer's certificate, and are never shown.
 */
export function connectionCause(error: NodeJS.ErrnoException): string {
	const rule = ruleOf(error);
	const known = WORDS.get(rule);
	if (known !== undefined) return known;
	const alert = /^ERR_SSL_(?:SSL\/TLS|SSLV3|TLSV1|TLSV13)_ALERT_([A-Z0-9_]+)$/.exec(rule)?.[1];
	if (alert !== undefined) return `refused in the TLS handshake: ${inWords(alert)}`;
	const fault = /^ERR_SSL_([A-Z0-9_]+)$/.exec(rule)?.[1];
	return fault === undefined
		? `connection failed (${error.code ?? 'without a code'})`
		: `TLS failed: ${inWords(fault)}`;
}

/** @param limitMs of the time that was to be kept. */
export function silenceCause(what: string, limitMs: number): string {
	return `no ${what} within ${limitMs / 1000} s`;
}

/** @param limitMs of the response as a whole. */
export function notOverCause(limitMs: number): string {
	return `response not over within ${limitMs / 1000} s`;
}

/** What an `http://` upstream that speaks TLS is called. */
export const SPEAKS_TLS = 'it speaks TLS on this port';

/** Whether the peer has refused our certificate, or the lack of one. In TLS 1.3 it says so when for us the handshake is over. */
export function refusesOurCertificate(error: NodeJS.ErrnoException): boolean {
	return CERTIFICATE_ALERT.test(ruleOf(error));
}

/**
 * A write that has waited for the handshake fails with `EPROTO`. OpenSSL's name of the rule or alert is in its message then:
 * `error:0A00010B:SSL routines:tls_validate_record_header:wrong version number:`.
 */
function ruleOf({ code = '', message }: NodeJS.ErrnoException): string {
	if (code !== 'EPROTO') return code;
	const rule = /:SSL routines:[^:]*:([\w/ ]+):/.exec(message)?.[1];
	return rule === undefined ? code : `ERR_SSL_${rule.toUpperCase().replaceAll(' ', '_')}`;
}

/** RFC 8446 section 6.2: those that a server answers a client's certificate with. */
const CERTIFICATE_ALERT =
	/_ALERT_(?:(?:BAD|UNSUPPORTED)_CERTIFICATE|CERTIFICATE_(?:REVOKED|EXPIRED|UNKNOWN|REQUIRED)|UNKNOWN_CA|ACCESS_DENIED|DECRYPT_ERROR)$/;

function inWords(symbol: string): string {
	return symbol.toLowerCase().replaceAll('_', ' ');
}

/** What an `https://` upstream that speaks plain HTTP is called. */
export const SPEAKS_NO_TLS = 'it does not speak TLS on this port';
export const UNTRUSTED = 'its certificate chains to no CA that is trusted here';

const WORDS = new Map([
	['ECONNREFUSED', 'connection refused'],
	['ECONNRESET', 'connection reset'],
	['EPIPE', 'connection reset'],
	['ETIMEDOUT', 'connection timed out'],
	['EHOSTUNREACH', 'no route to host'],
	['ENETUNREACH', 'network unreachable'],
	['EHOSTDOWN', 'host down'],
	['EACCES', 'connection forbidden'],
	['EPERM', 'connection forbidden'],
	['ENOTFOUND', 'no such host'],
	['EAI_NONAME', 'no such host'],
	['EAI_NODATA', 'host without an address'],
	['EAI_AGAIN', 'name server does not answer'],
	['EMFILE', 'no file descriptor left'],
	['ENFILE', 'no file descriptor left'],
	['EADDRNOTAVAIL', 'no local port left'],
	['ENOBUFS', 'no memory left'],
	['ENOMEM', 'no memory left'],
	['UNABLE_TO_GET_ISSUER_CERT', UNTRUSTED],
	['UNABLE_TO_GET_ISSUER_CERT_LOCALLY', UNTRUSTED],
	['UNABLE_TO_VERIFY_LEAF_SIGNATURE', UNTRUSTED],
	['DEPTH_ZERO_SELF_SIGNED_CERT', UNTRUSTED],
	['SELF_SIGNED_CERT_IN_CHAIN', UNTRUSTED],
	['CERT_SIGNATURE_FAILURE', UNTRUSTED],
	['CERT_UNTRUSTED', UNTRUSTED],
	['CERT_CHAIN_TOO_LONG', UNTRUSTED],
	['INVALID_CA', UNTRUSTED],
	['PATH_LENGTH_EXCEEDED', UNTRUSTED],
	['CERT_HAS_EXPIRED', 'its certificate, or one of its issuers, has expired'],
	['CERT_NOT_YET_VALID', 'its certificate, or one of its issuers, is not valid yet'],
	['CERT_REVOKED', 'its certificate is revoked'],
	['INVALID_PURPOSE', 'its certificate is not for servers'],
	['CERT_REJECTED', 'its certificate is not for servers'],
	['EE_KEY_TOO_SMALL', 'the key of its certificate is too small'],
	['CA_KEY_TOO_SMALL', 'the key of an issuer of its certificate is too small'],
	['CA_MD_TOO_WEAK', 'a signature of its certificates is too weak'],
	['ERR_TLS_CERT_ALTNAME_INVALID', 'its certificate is for another name'],
	['ERR_TLS_CERT_ALTNAME_FORMAT', 'its certificate is for another name'],
	['ERR_TLS_CERT_SHORT_WILDCARD', 'its certificate has a wildcard followed by only one label, which matches no name'],
	['ERR_TLS_ALPN', 'it chose a protocol other than HTTP/1.1'],
	['ERR_TLS_ALPN_NO_H2', 'it did not choose HTTP/2 (ALPN)'],
	['ERR_TLS_CLOSED', 'closed within the TLS handshake'],
	['ERR_SSL_WRONG_VERSION_NUMBER', SPEAKS_NO_TLS],
	['ERR_SSL_PACKET_LENGTH_TOO_LONG', SPEAKS_NO_TLS],
	['ERR_SSL_HTTP_REQUEST', SPEAKS_NO_TLS],
	['ERR_SSL_UNSUPPORTED_PROTOCOL', 'it speaks no version of TLS that is allowed here'],
	['ERR_SSL_TLSV1_ALERT_PROTOCOL_VERSION', 'it speaks no version of TLS that is allowed here'],
]);
