import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { connectionCause, SPEAKS_TLS, silenceCause } from '../../../../packages/gate/src/words/causes.ts';
import { inWords, outcomeOf } from '../../../../packages/proxy/src/control/health/outcome.ts';

const said = (cause: string, status?: number, path = '/health') =>
	inWords(outcomeOf({ healthy: false, cause, ...(status !== undefined && { status }) }, { path }, 0));
const byCode = (code: string) => said(connectionCause({ code } as NodeJS.ErrnoException));

describe('what a health probe found', () => {
	test('names path, status and remedy, and never the query', () => {
		assert.equal(said('', 404), 'GET /health answered 404: set health_path, or health = false');
		assert.match(said('', 401, '/ready?key=secret'), /^GET \/ready answered 401: let probes in without credentials/);
		assert.match(said('', 301), /redirects are not followed/);
		assert.match(said('', 503), /its own log says why/);
	});

	test('has a remedy for each failure of DNS, connection and TLS, and for silence', () => {
		const dns = ['ENOTFOUND', 'EAI_AGAIN', 'EAI_NODATA'];
		const tcp = ['ECONNREFUSED', 'ECONNRESET', 'ETIMEDOUT', 'EHOSTUNREACH', 'ENETUNREACH', 'EACCES', 'EMFILE'];
		const tls = [
			'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
			'DEPTH_ZERO_SELF_SIGNED_CERT',
			'ERR_TLS_CERT_ALTNAME_INVALID',
			'CERT_HAS_EXPIRED',
			'ERR_SSL_WRONG_VERSION_NUMBER',
			'ERR_SSL_UNSUPPORTED_PROTOCOL',
			'ERR_SSL_TLSV13_ALERT_CERTIFICATE_REQUIRED',
			'ERR_SSL_SSL/TLS_ALERT_BAD_CERTIFICATE',
		];
		for (const code of [...dns, ...tcp, ...tls]) assert.match(byCode(code), /: \w/, code);
		assert.match(byCode('ENOTFOUND'), /^no such host: correct the host name/);
		assert.match(byCode('ERR_SSL_TLSV13_ALERT_CERTIFICATE_REQUIRED'), /set cert_path and key_path/);
		assert.match(said(silenceCause('response', 2000)), /^no response within 2 s: .*health_timeout_secs$/);
		assert.match(said(SPEAKS_TLS), /^it speaks TLS on this port: write https:/);
		assert.match(byCode('ERR_SSL_WRONG_VERSION_NUMBER'), /^it does not speak TLS on this port: write http:/);
	});

	test('has no remedy after a pass', () => {
		assert.equal(
			inWords(outcomeOf({ healthy: true, cause: 'status 200', status: 200 }, { path: '/' }, 0)),
			'GET / answered 200',
		);
	});
});
