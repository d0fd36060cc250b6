import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { parseConfig } from '../../../packages/proxy/src/config/load.ts';
import { parseStoreAddress } from '../../../packages/proxy/src/config/tables/limiter.ts';
import { configWarnings } from '../../../packages/proxy/src/config/warnings.ts';
import { MINIMAL } from './minimal.ts';
import { tableOf } from './table.ts';

const STORE = 'store = "redis://store:6379/0"';
const TLS_STORE = 'store = "rediss://store:6380"';
const SENTINELS = 'store = ["redis://a:26379", "redis://b:26379/0"]';
const { parse, problemOf } = tableOf('limiter');

describe('[limiter]', () => {
	it('is undefined if it is absent', () => {
		assert.equal(parseConfig(MINIMAL, 'config.toml').limiter, undefined);
	});

	it('needs only a store', () => {
		assert.deepEqual(parse(STORE).limiter, {
			store: [{ host: 'store', port: 6379, tls: false, database: 0 }],
			cluster: false,
			onStoreFailure: 'share',
			replicas: 1,
			prefix: 'proxy',
			timeoutMs: 500,
			revocations: false,
		});
	});

	it('accepts several addresses of Sentinels or Cluster nodes', () => {
		assert.equal(parse(`${SENTINELS}\nsentinel_name = "main"`).limiter?.store.length, 2);
		assert.equal(parse(`${SENTINELS}\ncluster = true`).limiter?.cluster, true);
	});

	it('accepts TLS material only with rediss://', () => {
		const lines = `${TLS_STORE}\nca_path = "ca"\ncert_path = "c"\nkey_path = "k"\nserver_name = "store.internal"`;
		assert.equal(parse(lines).limiter?.serverName, 'store.internal');
	});

	it('warns of a password in clear text, except to this machine', () => {
		const warned = (lines: string) => configWarnings(parse(lines)).map(({ key }) => key);
		assert.ok(warned(`${STORE}\npassword_path = "p"`).includes('limiter.password_path'));
		for (const store of [TLS_STORE, 'store = "redis://127.0.0.1"', 'store = "redis://[::1]:6379"']) {
			assert.ok(!warned(`${store}\npassword_path = "p"`).includes('limiter.password_path'), store);
		}
	});

	for (const [lines, message] of [
		['', /limiter\.store.* is missing; write it as "redis:/s],
		['store = 6379', /limiter\.store.*must be the address of a Redis or Valkey/s],
		['store = []', /limiter\.store.*must be the address of a Redis or Valkey, or a list/s],
		['store = "store:6379"', /limiter\.store.*write it as "redis:\/\/host:6379\/0"/s],
		['store = "http://store"', /write it as "redis:/],
		['store = "redis://:hunter2@store:6379"', /\/\/\*\*\*@store.*name the file in password_path/s],
		['store = ["redis://a", "redis://u:hunter2@b"]', /store\[1\].*name the file in password_path/s],
		['store = "redis://store?password=hunter2"', /it may not have parameters/],
		['store = "redis://store:0"', /its port must be from 1 to 65535/],
		['store = "redis://store/cache"', /write it as "redis:/],
		[SENTINELS, /has several addresses: give sentinel_name .*cluster = true/s],
		['store = ["redis://a", "rediss://b"]\ncluster = true', /with TLS and without/],
		['store = ["redis://a/1", "redis://b/2"]\nsentinel_name = "m"', /different databases/],
		['store = "redis://a/1"\ncluster = true', /a Cluster has only number 0/],
		[`${STORE}\ncluster = true\nsentinel_name = "m"`, /cluster.*conflicts with sentinel_name/s],
		[`${STORE}\nca_path = "ca"`, /ca_path.*is only for a rediss:\/\/ store/s],
		[`${TLS_STORE}\ncert_path = "c"`, /cert_path.*name its file in key_path/s],
		[`${TLS_STORE}\nkey_path = "k"`, /key_path.*name its file in cert_path/s],
		[`${STORE}\nusername = "edge"`, /username.*password_path/s],
		[`${STORE}\nsentinel_password_path = "p"`, /sentinel_password_path.*is only for Sentinels/s],
		[`${STORE}\non_store_failure = "open"`, /on_store_failure.*"share", "local" or "refuse"/s],
		[`${STORE}\nreplicas = 0`, /replicas.*at least 1/s],
		[`${STORE}\nprefix = "{a}"`, /prefix.*1 to 64 letters/s],
		[`${STORE}\ntimeout_secs = 11`, /timeout_secs.*at most 10/s],
		[`${STORE}\ntimeout_secs = 0`, /timeout_secs.*above 0/s],
		[`${STORE}\nrevocations = "yes"`, /revocations.*true or false/s],
		['store = "edge:hunter2@store:6379"', /store.*got "\*\*\*@store:6379".*a password does not belong/s],
		['store = "redis:/edge:hunter2@store:6379"', /store.*got "\*\*\*@store:6379".*a password does not belong/s],
		[`${STORE}\npassword = "hunter2"`, /password.*unknown key; .*password_path/s],
	] as const) {
		it(`says what is wrong with ${lines.slice(0, 70)}`, () => {
			const problem = problemOf(lines);
			assert.match(problem, message);
			assert.doesNotMatch(problem, /hunter2/);
		});
	}
});

describe('the address of a store', () => {
	for (const [text, address] of [
		['redis://store', { host: 'store', port: 6379, tls: false, database: 0 }],
		['REDISS://Store.internal:6380/12', { host: 'Store.internal', port: 6380, tls: true, database: 12 }],
		['redis://[fd00::1]:7000/', { host: 'fd00::1', port: 7000, tls: false, database: 0 }],
		['redis://10.0.0.1', { host: '10.0.0.1', port: 6379, tls: false, database: 0 }],
	] as const) {
		it(`is read from ${text}`, () => assert.deepEqual(parseStoreAddress(text), address));
	}
});
