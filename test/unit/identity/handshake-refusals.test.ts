import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
	refusalOfCertificate,
	refusalOfClose,
	refusalOfError,
} from '../../../packages/proxy/src/identity/handshake-refusals.ts';

test('each kind of error from OpenSSL or the kernel has its reason', () => {
	for (const [code, bytesRead, reason] of [
		['ERR_SSL_PEER_DID_NOT_RETURN_A_CERTIFICATE', 100, 'no certificate'],
		['ERR_SSL_BAD_SIGNATURE', 100, 'bad certificate'],
		['ERR_SSL_HTTP_REQUEST', 100, 'plain HTTP'],
		// OpenSSL 3.5 spells some alerts with a slash.
		['ERR_SSL_SSL/TLS_ALERT_CERTIFICATE_UNKNOWN', 100, 'refused by client'],
		['ECONNRESET', 1, 'aborted'],
		['ECONNRESET', 0, 'nothing sent'],
		['ERR_SSL_UNEXPECTED_MESSAGE', 100, 'other'],
		['', 100, 'other'],
		[undefined, 100, 'other'],
	] as const) {
		assert.equal(refusalOfError(code, bytesRead), reason, String(code));
	}
});

test('a verdict on a certificate has its reason; an unknown verdict means a bad certificate', () => {
	for (const [code, reason] of [
		['DEPTH_ZERO_SELF_SIGNED_CERT', 'unknown CA'],
		['CERT_HAS_EXPIRED', 'expired'],
		['CERT_CHAIN_TOO_LONG', 'bad certificate'],
		[undefined, 'bad certificate'],
	] as const) {
		assert.equal(refusalOfCertificate(code), reason, String(code));
	}
});

test('a connection that ends without an error is aborted, or has sent nothing', () => {
	assert.equal(refusalOfClose(0), 'nothing sent');
	assert.equal(refusalOfClose(1), 'aborted');
});
