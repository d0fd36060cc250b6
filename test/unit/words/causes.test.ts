import { equal } from 'node:assert/strict';
import { test } from 'node:test';
import { connectionCause, refusesOurCertificate, silenceCause } from '../../../packages/gate/src/words/causes.ts';

const failed = (code: string) => Object.assign(new Error('quotes the certificate'), { code });

test('failed connections have names that operators know', () => {
	for (const [code, cause] of [
		['ECONNREFUSED', 'connection refused'],
		['ECONNRESET', 'connection reset'],
		['ENOTFOUND', 'no such host'],
		['EHOSTUNREACH', 'no route to host'],
		['EMFILE', 'no file descriptor left'],
		['ESOMETHING', 'connection failed (ESOMETHING)'],
	] as const) {
		equal(connectionCause(failed(code)), cause);
	}
	equal(connectionCause(new Error('never shown: it may hold anything')), 'connection failed (without a code)');
});

test('silence is stated in seconds', () => {
	equal(silenceCause('response', 30_000), 'no response within 30 s');
	equal(silenceCause('connection', 250), 'no connection within 0.25 s');
});

test('a failed handshake has a cause in words, and never the text of the error', () => {
	for (const [code, words] of [
		['UNABLE_TO_VERIFY_LEAF_SIGNATURE', 'its certificate chains to no CA that is trusted here'],
		['ERR_TLS_CERT_ALTNAME_INVALID', 'its certificate is for another name'],
		['CERT_HAS_EXPIRED', 'its certificate, or one of its issuers, has expired'],
		['ERR_SSL_TLSV13_ALERT_CERTIFICATE_REQUIRED', 'refused in the TLS handshake: certificate required'],
		['ERR_SSL_SSL/TLS_ALERT_HANDSHAKE_FAILURE', 'refused in the TLS handshake: handshake failure'],
		['ERR_SSL_WRONG_VERSION_NUMBER', 'it does not speak TLS on this port'],
		['ERR_SSL_NO_PROTOCOLS_AVAILABLE', 'TLS failed: no protocols available'],
	] as const) {
		equal(connectionCause(failed(code)), words);
	}
});

test('a write that waited for the handshake fails with the rule in its message', () => {
	const write = (rule: string) =>
		Object.assign(new Error(`write EPROTO 40E3:error:0A00010B:SSL routines:ssl3_read_bytes:${rule}:../a.c:78:`), {
			code: 'EPROTO',
		});
	equal(connectionCause(write('wrong version number')), 'it does not speak TLS on this port');
	equal(connectionCause(write('ssl/tls alert handshake failure')), 'refused in the TLS handshake: handshake failure');
	equal(refusesOurCertificate(write('ssl/tls alert bad certificate')), true);
	equal(connectionCause(failed('EPROTO')), 'connection failed (EPROTO)');
});

test('an upstream refuses our certificate by an alert about it', () => {
	for (const alert of [
		'TLSV13_ALERT_CERTIFICATE_REQUIRED',
		'SSL/TLS_ALERT_BAD_CERTIFICATE',
		'TLSV1_ALERT_UNKNOWN_CA',
	]) {
		equal(refusesOurCertificate(failed(`ERR_SSL_${alert}`)), true, alert);
	}
	for (const code of ['ERR_SSL_TLSV1_ALERT_INTERNAL_ERROR', 'ERR_SSL_SSL/TLS_ALERT_HANDSHAKE_FAILURE', 'ECONNRESET']) {
		equal(refusesOurCertificate(failed(code)), false, code);
	}
});
