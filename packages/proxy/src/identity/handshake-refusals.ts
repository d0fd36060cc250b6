/**
 * Reasons of failed TLS handshakes, as in the log and in `proxy_tls_handshake_refusals_total{reason}`, with their meanings. The
 * list is fixed: a client cannot create another series.
 */
export const HANDSHAKE_REFUSAL_MEANINGS = {
	'no certificate': 'the client sent none',
	'unknown CA': "the client's chain does not end at a CA of the bundle, or the client does not send its intermediates",
	expired: "the client's certificate, or one in its chain, has expired",
	'not yet valid': "the client's certificate, or one in its chain, is not valid yet",
	'wrong purpose': "the client's certificate is not for clients: it has an extended key usage without `clientAuth`",
	revoked: 'a CRL or `revoked_path` names the certificate, or a CA above it',
	'no fresh CRL': 'with `crl_required`: an issuer in the chain of the client certificate has no fresh CRL',
	'bad certificate':
		"another fault in the client's certificate or chain, or the client does not have the key of its certificate",
	'plain HTTP': 'an HTTP request without TLS',
	'not TLS': 'other bytes that are not a TLS record',
	'protocol version': 'TLS below `min_version`',
	'no shared cipher': 'no cipher suite, group or signature algorithm in common',
	'no shared protocol': 'ALPN with neither `h2` nor `http/1.1` (RFC 7301 section 3.2)',
	'refused by client': "the client sent a fatal alert, usually because it does not trust the server's certificate",
	timeout: 'not complete within `tls_handshake_timeout_secs`',
	'no PROXY header':
		'a peer in `proxy_protocol_from` did not begin with a PROXY header; it must send one on each connection',
	'bad PROXY header': 'a PROXY header that is malformed or too long, or that has a wrong checksum (CRC32c)',
	'PROXY header timeout': 'the header was not complete within `proxy_protocol_timeout_secs`',
	'nothing sent': 'closed or reset before any byte was sent, as load balancers do to check a port',
	aborted: 'closed or reset during the handshake',
	other: "the line's `error` field has the details",
} as const satisfies Readonly<Record<string, string>>;

export type HandshakeRefusal = keyof typeof HANDSHAKE_REFUSAL_MEANINGS;

export const HANDSHAKE_REFUSALS = Object.keys(HANDSHAKE_REFUSAL_MEANINGS) as readonly HandshakeRefusal[];

/**
 * @param code of the error from OpenSSL or the kernel that ended the handshake: `ERR_SSL_…`, `ECONNRESET`.
 * @param bytesRead bytes that the client has sent.
 */
export function refusalOfError(code: string | undefined, bytesRead: number): HandshakeRefusal {
	if (code === undefined) return 'other';
	// `ERR_SSL_TLSV1_ALERT_UNKNOWN_CA`, `ERR_SSL_SSL/TLS_ALERT_HANDSHAKE_FAILURE`: only for received alerts, never for sent ones.
	if (code.includes('_ALERT_')) return 'refused by client';
	const reason = BY_ERROR.get(code) ?? 'other';
	return reason === 'aborted' ? refusalOfClose(bytesRead) : reason;
}

/** @param code of OpenSSL's verdict on a certificate chain, from `authorizationError`: `CERT_HAS_EXPIRED`. */
export function refusalOfCertificate(code: string | undefined): HandshakeRefusal {
	return BY_VERDICT.get(code ?? '') ?? 'bad certificate';
}

/** @param bytesRead bytes that the client sent before its connection ended, in the middle of the handshake. */
export function refusalOfClose(bytesRead: number): HandshakeRefusal {
	return bytesRead === 0 ? 'nothing sent' : 'aborted';
}

const BY_ERROR = new Map<string, HandshakeRefusal>([
	['ERR_SSL_PEER_DID_NOT_RETURN_A_CERTIFICATE', 'no certificate'],
	// The signature is by another key than the certificate's. Each algorithm reports that in its own way.
	['ERR_SSL_BAD_SIGNATURE', 'bad certificate'],
	['ERR_SSL_WRONG_SIGNATURE_TYPE', 'bad certificate'],
	['ERR_SSL_PROVIDER_SIGNATURE_FAILURE', 'bad certificate'],
	['ERR_SSL_WRONG_SIGNATURE_LENGTH', 'bad certificate'],
	['ERR_SSL_DATA_GREATER_THAN_MOD_LEN', 'bad certificate'],
	['ERR_SSL_DATA_TOO_LARGE_FOR_MODULUS', 'bad certificate'],
	['ERR_SSL_FIRST_OCTET_INVALID', 'bad certificate'],
	['ERR_SSL_LAST_OCTET_INVALID', 'bad certificate'],
	['ERR_SSL_SLEN_CHECK_FAILED', 'bad certificate'],
	['ERR_SSL_SLEN_RECOVERY_FAILED', 'bad certificate'],
	['ERR_SSL_INVALID_PADDING', 'bad certificate'],
	['ERR_SSL_BLOCK_TYPE_IS_NOT_01', 'bad certificate'],
	['ERR_SSL_HTTP_REQUEST', 'plain HTTP'],
	['ERR_SSL_HTTPS_PROXY_REQUEST', 'plain HTTP'],
	['ERR_SSL_WRONG_VERSION_NUMBER', 'not TLS'],
	['ERR_SSL_UNSUPPORTED_PROTOCOL', 'protocol version'],
	['ERR_SSL_NO_PROTOCOLS_AVAILABLE', 'protocol version'],
	['ERR_SSL_NO_SHARED_CIPHER', 'no shared cipher'],
	['ERR_SSL_NO_SUITABLE_KEY_SHARE', 'no shared cipher'],
	['ERR_SSL_NO_SUITABLE_GROUPS', 'no shared cipher'],
	['ERR_SSL_NO_SHARED_GROUPS', 'no shared cipher'],
	['ERR_SSL_NO_SUITABLE_SIGNATURE_ALGORITHM', 'no shared cipher'],
	['ERR_SSL_NO_SHARED_SIGNATURE_ALGORITHMS', 'no shared cipher'],
	['ERR_SSL_NO_APPLICATION_PROTOCOL', 'no shared protocol'],
	['ERR_SSL_UNEXPECTED_EOF_WHILE_READING', 'aborted'],
	['ECONNRESET', 'aborted'],
	['EPIPE', 'aborted'],
	['ETIMEDOUT', 'aborted'],
]);

const BY_VERDICT = new Map<string, HandshakeRefusal>([
	['UNABLE_TO_GET_ISSUER_CERT', 'unknown CA'],
	['UNABLE_TO_GET_ISSUER_CERT_LOCALLY', 'unknown CA'],
	['UNABLE_TO_VERIFY_LEAF_SIGNATURE', 'unknown CA'],
	['DEPTH_ZERO_SELF_SIGNED_CERT', 'unknown CA'],
	['SELF_SIGNED_CERT_IN_CHAIN', 'unknown CA'],
	['CERT_UNTRUSTED', 'unknown CA'],
	// The CA of that name has another key: it has been replaced, or it is another CA.
	['CERT_SIGNATURE_FAILURE', 'unknown CA'],
	['CERT_HAS_EXPIRED', 'expired'],
	['CERT_NOT_YET_VALID', 'not yet valid'],
	['INVALID_PURPOSE', 'wrong purpose'],
	['CERT_REVOKED', 'revoked'],
]);
