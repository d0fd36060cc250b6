import assert from 'node:assert/strict';
import { test } from 'node:test';
import { changedBootSettings } from '../../../../src/control/reload/boot-settings.ts';
import { configWith, route } from '../fixtures/routes.ts';

const booted = configWith([route('/a', 'x:1')]);

test('what a reload takes over is no reason to restart', () => {
	const tls = { ...booted.tls, certPath: 'other.crt', keyPath: 'other.key', clientCaPath: 'other-ca.crt' };
	assert.deepEqual(changedBootSettings(booted, { ...booted, path: 'other.toml', tls, routes: [] }), []);
});

test('every boot-only setting is named as the file spells it', () => {
	const limits = Object.fromEntries(Object.keys(booted.limits).map((limit) => [limit, 12345])) as unknown;
	const changed = changedBootSettings(booted, {
		...booted,
		healthIntervalMs: 1,
		tenantRps: 1,
		reloadOnChange: true,
		jwt: {
			publicKeyPath: 'other.pub',
			issuer: 'other',
			audience: 'other',
			certificateBound: 'required',
			rateClaim: { name: 'rps', maxRps: 5 },
			reload: false,
		},
		stateDir: 'elsewhere',
		limits: limits as typeof booted.limits,
		log: { access: 'all', requestId: true },
		trace: {
			endpoint: 'http://c/',
			ratio: 1,
			caPath: 'ca.pem',
			headersPath: 'headers',
			serviceName: 'x',
			tenants: true,
			maxSpans: 64,
		},
		listener: { proxyProtocolFrom: ['192.0.2.7'], proxyProtocolTimeoutMs: 1 },
		limiter: {
			store: [{ host: 'store', port: 6379, tls: false, database: 0 }],
			sentinelName: 'main',
			cluster: false,
			onStoreFailure: 'local',
			replicas: 4,
			username: 'edge',
			passwordPath: 'password',
			sentinelUsername: 'edge',
			sentinelPasswordPath: 'sentinel-password',
			caPath: 'ca.pem',
			certPath: 'edge.pem',
			keyPath: 'edge.key',
			serverName: 'store.internal',
			secretPath: 'secret',
			prefix: 'edge',
			timeoutMs: 100,
			revocations: true,
		},
		status: { tenants: true, hosts: ['edge.example.com'] },
	});
	assert.deepEqual(changed, [
		'health_interval_secs',
		'tenant_rps',
		'reload_on_change',
		'state_dir',
		'jwt.jwks_path',
		'jwt.issuer',
		'jwt.audience',
		'jwt.certificate_bound',
		'jwt.rate_claim',
		'jwt.max_rps',
		'log.access',
		'log.request_id',
		'trace.endpoint',
		'trace.ratio',
		'trace.ca_path',
		'trace.headers_path',
		'trace.service_name',
		'trace.tenants',
		'trace.max_queue_spans',
		'listener.proxy_protocol_from',
		'listener.proxy_protocol_timeout_secs',
		'limiter.store',
		'limiter.sentinel_name',
		'limiter.cluster',
		'limiter.on_store_failure',
		'limiter.replicas',
		'limiter.username',
		'limiter.password_path',
		'limiter.sentinel_username',
		'limiter.sentinel_password_path',
		'limiter.ca_path',
		'limiter.cert_path',
		'limiter.key_path',
		'limiter.server_name',
		'limiter.secret_path',
		'limiter.prefix',
		'limiter.timeout_secs',
		'limiter.revocations',
		'status.tenants',
		'status.hosts',
		'limits.max_request_body_bytes',
		'limits.request_body_timeout_secs',
		'limits.upstream_timeout_secs',
		'limits.tls_handshake_timeout_secs',
		'limits.first_request_timeout_secs',
		'limits.h2_max_concurrent_streams',
		'limits.shutdown_drain_secs',
		'limits.shutdown_delay_secs',
		'limits.max_header_bytes',
		'limits.max_buffered_bytes',
		'limits.max_buffered_bytes_per_tenant',
		'limits.min_answer_bytes_per_sec',
		'limits.max_connections',
		'limits.max_connection_age_secs',
		'limits.rate_limit_headers',
	]);
});

test('a setting that has been taken out of the file counts as changed', () => {
	const withIssuer = { ...booted, jwt: { ...booted.jwt!, issuer: 'https://issuer' } };
	assert.deepEqual(changedBootSettings(withIssuer, booted), ['jwt.issuer']);
});
