import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
	HANDSHAKE_REFUSALS,
	type HandshakeRefusal,
	refusalOfCertificate,
	refusalOfClose,
	refusalOfError,
} from '../../../packages/proxy/src/identity/handshake-refusals.ts';

const BY_ERROR: Record<string, HandshakeRefusal> = {
	ERR_SSL_PEER_DID_NOT_RETURN_A_CERTIFICATE: 'no certificate',
	// By a client without its key: RSA, RSA-PSS, ECDSA and Ed25519, random bytes or the signature of another key.
	ERR_SSL_BAD_SIGNATURE: 'bad certificate',
	ERR_SSL_PROVIDER_SIGNATURE_FAILURE: 'bad certificate',
	ERR_SSL_DATA_GREATER_THAN_MOD_LEN: 'bad certificate',
	ERR_SSL_DATA_TOO_LARGE_FOR_MODULUS: 'bad certificate',
	ERR_SSL_FIRST_OCTET_INVALID: 'bad certificate',
	ERR_SSL_LAST_OCTET_INVALID: 'bad certificate',
	ERR_SSL_HTTP_REQUEST: 'plain HTTP',
	ERR_SSL_HTTPS_PROXY_REQUEST: 'plain HTTP',
	ERR_SSL_WRONG_VERSION_NUMBER: 'not TLS',
	ERR_SSL_UNSUPPORTED_PROTOCOL: 'protocol version',
	ERR_SSL_NO_SHARED_CIPHER: 'no shared cipher',
	ERR_SSL_NO_SUITABLE_KEY_SHARE: 'no shared cipher',
	ERR_SSL_NO_SUITABLE_SIGNATURE_ALGORITHM: 'no shared cipher',
	ERR_SSL_NO_APPLICATION_PROTOCOL: 'no shared protocol',
	ERR_SSL_TLSV1_ALERT_UNKNOWN_CA: 'refused by client',
	ERR_SSL_SSLV3_ALERT_BAD_CERTIFICATE: 'refused by client',
	// As OpenSSL 3.5 spells it.
	'ERR_SSL_SSL/TLS_ALERT_CERTIFICATE_UNKNOWN': 'refused by client',
	ERR_SSL_TLSV1_ALERT_PROTOCOL_VERSION: 'refused by client',
	ECONNRESET: 'aborted',
	EPIPE: 'aborted',
	ERR_SSL_UNEXPECTED_MESSAGE: 'other',
	ERR_SSL_DATA_LENGTH_TOO_LONG: 'other',
	'': 'other',
};

const BY_VERDICT: Record<string, HandshakeRefusal> = {
	UNABLE_TO_GET_ISSUER_CERT: 'unknown CA',
	UNABLE_TO_GET_ISSUER_CERT_LOCALLY: 'unknown CA',
	UNABLE_TO_VERIFY_LEAF_SIGNATURE: 'unknown CA',
	DEPTH_ZERO_SELF_SIGNED_CERT: 'unknown CA',
	SELF_SIGNED_CERT_IN_CHAIN: 'unknown CA',
	CERT_UNTRUSTED: 'unknown CA',
	CERT_SIGNATURE_FAILURE: 'unknown CA',
	CERT_HAS_EXPIRED: 'expired',
	CERT_NOT_YET_VALID: 'not yet valid',
	INVALID_PURPOSE: 'wrong purpose',
	CERT_REVOKED: 'revoked',
	CERT_CHAIN_TOO_LONG: 'bad certificate',
	INVALID_CA: 'bad certificate',
	UNSPECIFIED: 'bad certificate',
};

test('an error of OpenSSL or the kernel has its reason', () => {
	for (const [code, reason] of Object.entries(BY_ERROR)) assert.equal(refusalOfError(code, 100), reason, code);
	assert.equal(refusalOfError(undefined, 100), 'other');
	assert.equal(refusalOfError('ECONNRESET', 0), 'nothing sent');
});

test('a verdict on a certificate has its reason', () => {
	for (const [code, reason] of Object.entries(BY_VERDICT)) assert.equal(refusalOfCertificate(code), reason, code);
	assert.equal(refusalOfCertificate(undefined), 'bad certificate');
});

test('a connection that ends without an error gets its reason from the events before', () => {
	assert.equal(refusalOfClose(0), 'nothing sent');
	assert.equal(refusalOfClose(1), 'aborted');
});

test('every reason can occur, and there are no others', () => {
	const reasons = new Set<string>([...Object.values(BY_ERROR), ...Object.values(BY_VERDICT)]);
	for (const other of ['nothing sent', 'timeout', 'no fresh CRL']) reasons.add(other);
	// Ahead of TLS (packages/proxy/src/data/proxy-protocol/).
	for (const other of ['no PROXY header', 'bad PROXY header', 'PROXY header timeout']) reasons.add(other);
	assert.deepEqual([...reasons].sort(), [...HANDSHAKE_REFUSALS].sort());
});
