import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Logger } from '../../../../packages/gate/src/shared/log.ts';
import { readCertificates } from '../../../../packages/gate/src/tls/certificates.ts';
import { mintToken } from '../../../../packages/proxy/src/cli/demo/tokens.ts';
import { explain } from '../../../../packages/proxy/src/cli/explain/explain.ts';
import { type ExplainResult, toJson } from '../../../../packages/proxy/src/cli/explain/json.ts';
import { redactHead, redactTarget, redactText } from '../../../../packages/proxy/src/cli/explain/redact.ts';
import { toText } from '../../../../packages/proxy/src/cli/explain/text.ts';
import { inspect } from '../../../../packages/proxy/src/control/files/inspection.ts';
import { createKeyStore } from '../../../../packages/proxy/src/control/jwks/key-store.ts';
import { type ExplainCase, explainConfig, explained, ordinary } from '../../../fixtures/explain-cases.ts';
import { startIssuer } from '../../../fixtures/issuer.ts';
import { jwkOf, jwks, keyFor, sign } from '../../../fixtures/issuer-keys.ts';
import { AUDIENCE, ISSUER, temporaryFolder, testPki } from '../../../fixtures/pki.ts';
import { BODY_MODE } from '../../../fixtures/proxy.ts';

const pki = await testPki();
const files = await filesOf('parts.toml', explainConfig('http://127.0.0.1:9'));

async function filesOf(name: string, text: string) {
	const { files, problems } = await inspect(pki.writeFile(name, text), new Date());
	assert.deepEqual(problems, []);
	return files!;
}

const ask = (one: Partial<ExplainCase>) => explained(files, { name: '', reason: undefined, ...one });
const gate = ({ gates }: ExplainResult, name: string) => gates.find((one) => one.gate === name);
const exp = Math.floor(Date.now() / 1000) + 3600;
const good = { iss: ISSUER, aud: AUDIENCE, sub: 'acme', exp };

test('gates after a refusal are checked, and marked as not reached', async () => {
	const token = mintToken(pki.tokenKey, { ...good, aud: 'other', scope: 'a' });
	const said = await ask({ token, path: '/scopes/x', method: 'PUT', bodyBytes: 1001 });
	const refused = said.gates.filter(({ verdict }) => verdict === 'refused');
	assert.deepEqual(refused.map((one) => [one.gate, one.reached]).sort(), [
		['body length', false],
		['scopes', false],
		['token', true],
	]);
	assert.equal(said.ended_by, 'token');
	assert.equal(said.upstream_head, null);
	const text = toText(said, false);
	assert.match(text, /REFUSED {4}token: aud[\s\S]+Not reached, but checked anyway:[\s\S]+REFUSED {4}scopes: scope/);
});

test('body length: the limit of the route, and if it is set', async () => {
	const details = async (path: string) =>
		gate(await ask({ path, method: 'PUT', bodyBytes: 1500 }), 'body length')!.details.join();
	assert.match(await details('/plain'), /^1500 bytes; at most 1000 bytes, limits\.max_request_body_bytes \(.+:\d+\)$/);
	assert.match(
		await details('/plain/deep'),
		/^1500 bytes; at most 2000 bytes, routes\[1\]\.max_body_bytes \(.+:\d+\)$/,
	);
});

const HANDSHAKE = [
	...['Connection: Upgrade', 'Upgrade: websocket', 'Sec-WebSocket-Version: 13'],
	'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==',
];

test('a WebSocket asks an upstream that speaks HTTP/2 by CONNECT, without a key', async () => {
	const [h2, h1] = [await ask({ path: '/h2', headers: HANDSHAKE }), await ask({ path: '/chat', headers: HANDSHAKE })];
	assert.deepEqual(h2.upstream_head!.slice(0, 4), [
		':protocol: websocket',
		':scheme: http',
		':method: CONNECT',
		':path: /h2',
	]);
	assert.equal(h1.upstream_head![0], 'GET /chat HTTP/1.1');
	const fieldsOf = ({ upstream_head }: ExplainResult) =>
		upstream_head!
			.map((line) => line.split(': ', 1)[0])
			.filter((name) => /^(upgrade|connection|sec-websocket-.*)$/.test(name!));
	assert.deepEqual(fieldsOf(h2), ['sec-websocket-version']);
	assert.deepEqual(fieldsOf(h1), ['sec-websocket-version', 'sec-websocket-key', 'connection', 'upgrade']);
	assert.match(h2.notes.join(), /extended CONNECT with :protocol websocket/);
	assert.doesNotMatch(h1.notes.join(), /extended CONNECT/);
});

test('the head of a request over HTTP/2 is that of its block: pseudo-header fields, lower case, te: trailers; no secret in it', async () => {
	const headers = ['X-API-Key: k', 'X-Mine: 1', 'TE: deflate', 'content-type: application/grpc'];
	const said = await ask({ path: '/h2/x?access_token=abc', method: 'POST', headers, bodyBytes: 7 });
	assert.deepEqual(
		said.upstream_head!.map((line) => line.replace(/^(client-cert|traceparent|x-request-id): .*/, '$1')),
		[
			':scheme: http',
			':method: POST',
			':path: /h2/x?access_token=[redacted]',
			':authority: 127.0.0.1:2',
			'traceparent',
			'x-request-id',
			'x-forwarded-for: 127.0.0.1',
			'x-forwarded-proto: https',
			'x-proxy-tenant: main:acme',
			'client-cert',
			'authorization: Bearer [redacted]',
			'x-api-key: [redacted]',
			'x-mine: 1',
			'content-type: application/grpc',
			'content-length: 7',
			'te: trailers',
		],
	);
	assert.match(gate(said, 'upstream')!.details.join(), /^h2c:\/\/127\.0\.0\.1:2; /);
});

describe('the keys of a route for streams', () => {
	const route = (prefix: string, keys: string) =>
		`[[routes]]\nprefix = "${prefix}"\nupstream = "h2c://127.0.0.1:3"\n${keys}\n`;
	const stream = 'trailers = false\nidle_timeout_secs = "2m"\nend_streams_at_expiry = true';
	const chat = 'websocket = true\nwebsocket_messages_per_sec = 50\nwebsocket_end_at_expiry = false';
	const text = `${explainConfig('http://127.0.0.1:9')}${route('/stream', stream)}${route('/talk', chat)}`;
	const details = async (path: string, name: string, headers: readonly string[] = []) => {
		const own = await filesOf('streams.toml', text);
		const said = await explained(own, { name: '', reason: undefined, path, headers });
		return gate(said, name)!.details.map((line) =>
			line.replace(/ \(\S+:(\d+)\):/, ' (line):').replace(/\d{4}-\S+Z/, 'TIME'),
		);
	};

	test('are shown with the place of each key, and without effect in the other build', async () => {
		const only = (what: string) =>
			BODY_MODE === 'streaming'
				? what
				: 'no effect in this build, which reads responses whole; streams need proxy-streaming';
		const lines = [
			`idle_timeout_secs (line): ${only('the response ends after 120 s without a byte')}`,
			`end_streams_at_expiry (line): ${only('the response ends when the token expires, TIME with its leeway')}`,
		];
		assert.deepEqual(
			(await details('/stream', 'upstream')).slice(1).map((line) => line.replace(/^routes\[\d+\]\./, '')),
			['trailers (line): no trailers pass', ...lines],
		);
		assert.deepEqual((await details('/talk', 'upstream')).length, 1);
	});

	test('a gRPC call on a route without trailers has a note that it gets no status', async () => {
		const own = await filesOf('streams.toml', text);
		const headers = ['content-type: application/grpc'];
		const said = await explained(own, { name: '', reason: undefined, path: '/stream', method: 'POST', headers });
		assert.match(
			gate(said, 'upstream')!.details.join(),
			/no trailers pass, and a gRPC call without them has no status/,
		);
	});

	test('includes when a WebSocket ends, by a key or the default, and how much it may send', async () => {
		const own = (lines: string[]) => lines.slice(1).map((line) => line.replace(/^routes\[\d+\]\./, ''));
		assert.deepEqual(own(await details('/talk', 'protocol change', HANDSHAKE)), [
			'idle_timeout_secs (the default): it ends after 300 s without a byte',
			'websocket_end_at_expiry (line): it may outlive its token',
			'websocket_messages_per_sec (line): 50 messages per second from the client; the proxy reads further ones later',
		]);
		assert.deepEqual(own(await details('/chat', 'protocol change', HANDSHAKE)), [
			'idle_timeout_secs (the default): it ends after 300 s without a byte',
			'websocket_end_at_expiry (the default): it ends when the token expires, TIME with its leeway',
		]);
	});
});

test('explain says that an upstream with protocol = "auto" chooses in the handshake', async () => {
	const upstream = '[[upstreams]]\nname = "auto"\naddresses = ["127.0.0.1:8"]\nprotocol = "auto"\n[upstreams.tls]\n';
	const text = `${explainConfig('http://127.0.0.1:9')}${upstream}[[routes]]\nprefix = "/auto"\nupstream = "auto"\n`;
	const { notes } = await explained(await filesOf('auto.toml', text), { name: '', reason: undefined, path: '/auto' });
	assert.match(notes.join(), /the upstream chooses HTTP\/2 or HTTP\/1\.1 in the handshake/);
});

test('prints each claim with its value and the expected one, also after the first refused claim', async () => {
	const token = mintToken(pki.tokenKey, { ...good, exp: 1000, nbf: exp, aud: ['x', 'y'], sub: 7, cnf: {} });
	const checks = gate(await ask({ token }), 'token')!.checks;
	assert.deepEqual(
		checks.filter(({ verdict }) => verdict === 'refused').map(({ name, reason }) => [name, reason]),
		[
			['exp', 'expired over a year ago'],
			['nbf', `not valid for another ${exp - Math.floor(Date.now() / 1000)} s`],
			['aud', 'aud'],
			['tenant', 'bad sub'],
			['cnf', 'cnf of another kind'],
		].map(([name, reason], i) => (i === 1 ? [name, checks.find((one) => one.name === 'nbf')!.reason] : [name, reason])),
	);
	const words = (name: string) => checks.find((one) => one.name === name)!.detail;
	assert.match(words('exp'), /^1970-01-01T00:16:40Z, \d+ days ago; now .+, leeway 60 s$/);
	assert.match(words('aud'), /^\["x", "y"\]; issuers\[0\]\.audience \(.+:\d+\) wants "edge"$/);
	assert.match(words('tenant'), /^sub is 7; must be/);
});

test('prints a key that does not fit next to the existing ones', async () => {
	const strange = await sign(keyFor('ES256'), { ...good, iss: 'https://other.test' }, { alg: 'ES256', kid: 'gone' });
	const key = gate(await ask({ token: strange }), 'token')!.checks.find(({ name }) => name === 'key')!;
	assert.deepEqual([key.reason, key.detail], ['unknown kid', 'kid is "gone", alg "ES256"; the set has kid "es"']);
	const issuer = mintToken(pki.tokenKey, { ...good, iss: 'https://nobody.test' });
	const chosen = gate(await ask({ token: issuer }), 'token')!.checks.at(-1)!;
	assert.match(chosen.detail, /^iss is "https:\/\/nobody\.test"; \[\[issuers\]\] has "https:\/\/issuer\.test", /);
});

test("the changes of a route are shown: the cut prefix, and the client's fields that are not forwarded", async () => {
	const cut = await ask({
		path: '/strip/a?token=s3cr3t',
		headers: ['x-forwarded-prefix: /evil', 'x-forwarded-port: 1'],
	});
	const { verdict, details } = gate(cut, 'forwarding')!;
	assert.equal(verdict, 'ok');
	assert.deepEqual(
		details.map((one) => one.replace(/ \([^)]*:\d+\)/, '')),
		[
			'routes[7].strip_prefix: "/strip" is cut off, the upstream gets "/a"',
			'x-forwarded-prefix: not forwarded: the proxy sets it on this route',
		],
	);
	assert.deepEqual(cut.upstream_head!.slice(0, 3), [
		'GET /a?token=[redacted] HTTP/1.1',
		'host: billing.internal',
		'x-forwarded-prefix: /strip',
	]);
	assert.ok(cut.upstream_head!.includes('x-forwarded-port: 1'));
	const words = async (path: string) => gate(await ask({ path }), 'forwarding')?.details[0];
	assert.match(String(await words('/strip//x')), /with two slashes at the start/);
	assert.match(String(await words('http://a:b/told')), /the host in the target is not a host/);
	assert.equal(await words('/plain'), undefined);
});

test('prints limits with their source', async () => {
	const rate = async (one: Partial<ExplainCase>) => {
		const { verdict, details } = gate(await ask(one), 'tenant rate')!;
		return [verdict, details[0]!.replace(/ \([^)]*:\d+\)/, '')];
	};
	const needs = '; needs the running proxy';
	assert.deepEqual(await rate({}), [
		'not asked',
		`500 requests/s, burst 500, for the tenant "main:acme", from tenants[0].name${needs}`,
	]);
	const other = mintToken(pki.tokenKey, { ...good, sub: 'b' });
	assert.deepEqual(await rate({ token: other }), [
		'not asked',
		`1000 requests/s, burst 1000, for the tenant "main:b", from tenant_rps (the default)${needs}`,
	]);
	assert.equal(gate(await ask({}), 'tenant concurrency')!.details[0]!.slice(0, 10), '50 at once');
	assert.match(gate(await ask({ path: '/plain/deep' }), 'route rate')!.details[0]!, /^500 requests\/s/);
});

test('routes: the chosen one, the shorter ones, and why the nearest others do not match', async () => {
	const words = async (path: string) => {
		const { details } = gate(await ask({ path }), 'route')!;
		return details.map((one) => one.replace(/, routes.*\)/, ''));
	};
	assert.deepEqual((await words('/plain/deep/x')).slice(0, 2), [
		'"/plain/deep": chosen, the longest match',
		'"/plain": matches, but a longer prefix wins, and there is no fallback',
	]);
	const plainer = await words('/plainer');
	assert.ok(
		plainer.includes('"/plain": no; it ends within a segment: "/plain" is followed by "e", not by "/" or the end'),
		`${plainer}`,
	);
	assert.ok(
		plainer.includes('"/plain/deep": no; the path differs from it at character 7: "e" instead of "/"'),
		`${plainer}`,
	);
	assert.ok((await words('/PLAIN')).some((one) => one === '"/plain": no; it differs in letter case'));
	assert.match(plainer.at(-1)!, /^and \d+ more that do not match$/);
});

test('a refused path is shown with the offending part', async () => {
	const words = async (path: string) => gate(await ask({ path }), 'path')!.details[0];
	assert.equal(await words('/plain/a%2f%2E%2e;x/b'), '"%2E%2e;x" at character 12: dot segment');
	assert.equal(await words('/plain/../x?a=/../'), '".." at character 8: dot segment');
	assert.equal(await words('/plain/%252e'), '"%252e" at character 8: double-encoded');
	assert.equal(await words('/plain\\x'), '"\\\\" at character 7: backslash');
	assert.equal(await words('/plain#x'), '"#" at character 7: fragment, space or byte outside ASCII');
});

test('fields that are not forwarded are shown with the reason', async () => {
	const headers = ['Connection: X-Mine', 'X-Mine: 1', 'X_Proxy_Tenant: a', 'Forwarded: for=x', 'Accept: */*'];
	assert.deepEqual(gate(await ask({ headers }), 'header fields')!.details, [
		'connection: not forwarded: it is only for this connection',
		'x-mine: not forwarded: the Connection field names it',
		'x_proxy_tenant: not forwarded: some servers read its name as a field that only the proxy sets',
		'forwarded: not forwarded: only the proxy says who is calling',
	]);
});

test('explains a request without a certificate: gates that need one are undecided, the others pass', async () => {
	const spec = { method: 'GET', authority: 'x', protocol: 'http/1.1' as const, headers: [], bodyBytes: undefined };
	const settings = { clientChain: undefined, peer: '192.0.2.1', offline: true, nowSeconds: Date.now() / 1000 };
	const of = async (target: string, token = ordinary) =>
		toJson(await explain(files, { ...spec, target, token }, settings), []);
	const plain = await of('/plain');
	assert.deepEqual([plain.outcome, gate(plain, 'client certificate')!.verdict], ['passes', 'not asked']);
	for (const path of ['/pay', '/deny', '/chain', '/xfcc']) {
		const said = await of(path);
		assert.deepEqual([said.outcome, said.answer, said.upstream_head], ['undecided', null, null], path);
		assert.match(toText(said, false), /Undecided: the gate "certificate (names|headers)"/);
	}
	const bound = await of('/plain', mintToken(pki.tokenKey, { ...good, cnf: { 'x5t#S256': 'A'.repeat(43) } }));
	assert.deepEqual([bound.outcome, bound.ended_by], ['undecided', 'bound token']);
	// What comes before what cannot be told decides.
	assert.equal((await of('/pay', 'a.b')).outcome, 'refused');
});

test('keys over the network: fetched once, else from state_dir, else undecided', async () => {
	const pair = keyFor('RS256');
	const set = jwks(jwkOf(pair, { kid: 'k' }));
	await using issuer = await startIssuer('http', set);
	const stateDir = temporaryFolder('explain-state');
	const remote = await filesOf(
		'remote.toml',
		`state_dir = ${JSON.stringify(stateDir)}
[tls]
cert_path = "${pki.server.certPath}"
key_path = "${pki.server.keyPath}"
client_ca_path = "${pki.caPath}"
[[issuers]]
issuer = "${issuer.url}"
audience = "edge"
jwks_url = "${issuer.jwksUrl}?api=s3cr3t"
[[routes]]
prefix = "/plain"
upstream = "http://127.0.0.1:9"
`,
	);
	const token = await sign(pair, { ...good, iss: issuer.url }, { alg: 'RS256', kid: 'k' });
	const spec = { method: 'GET', target: '/plain', authority: 'x', protocol: 'http/1.1' as const, headers: [], token };
	const clientChain = readCertificates(pki.clients.valid.certPem);
	const of = async (offline: boolean) => {
		const settings = { clientChain, peer: '192.0.2.1', offline, nowSeconds: Date.now() / 1000 };
		return toJson(await explain(remote, { ...spec, bodyBytes: undefined }, settings), [token]);
	};
	const online = await of(false);
	assert.deepEqual([online.outcome, online.notes], ['passes', [`fetched 1 key from ${issuer.jwksUrl}`]]);
	assert.deepEqual(issuer.asked, ['/jwks.json?api=s3cr3t']);

	const offline = await of(true);
	assert.deepEqual([offline.outcome, offline.ended_by], ['undecided', 'token']);
	assert.match(offline.notes[0]!, /were not fetched \(--offline\)$/);
	issuer.publish = (_, response) => response.writeHead(503).end();
	assert.match((await of(false)).notes[0]!, /could not be fetched from .+: status 503$/);

	const silent: Logger = { ...({} as Logger), warn: () => assert.fail('not kept') };
	await createKeyStore(stateDir, silent).save(remote.remotes[0]!, set, Date.now() / 1000 - 120);
	const kept = await of(true);
	assert.equal(kept.outcome, 'passes');
	assert.match(kept.notes[0]!, /used 1 key from state_dir, 2 min old$/);
});

test('HTTP/2: what is malformed there resets the stream', async () => {
	const said = await ask({ protocol: 'h2', headers: ['transfer-encoding: chunked'] });
	assert.deepEqual(
		[said.answer?.ending, said.answer?.status, said.reason],
		['reset', null, 'transfer-encoding in HTTP/2'],
	);
	assert.match(toText(said, false), /the stream is reset without a response/);
});

test('a token cannot move the cursor, and colours are only for terminals', async () => {
	const token = mintToken(pki.tokenKey, { ...good, aud: '\u001b[2J\u202eedge\u0007' });
	const said = await ask({ token });
	assert.doesNotMatch(toText(said, false), /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u202e]/);
	assert.match(toText(said, true), /\u001b\[31mREFUSED/);
});

test('text is at most 80 columns wide', async () => {
	const token = mintToken(pki.tokenKey, { ...good, aud: 'x'.repeat(70), scope: 'y '.repeat(60) });
	for (const one of [{ token }, { path: `/plain/${'z'.repeat(200)}` }, { path: '/chain' }]) {
		for (const line of toText(await ask(one), false).split('\n')) assert.ok(line.length <= 80, line);
	}
});

test('secrets are redacted by the name of their field or parameter, and by their form', () => {
	const jwt = `ey${'J'}hbGciOiJub25lIn0.e30.abc-_`;
	const fields = ['Authorization: bearer abc', 'X-Api-Key: k', `x: 1 ${jwt}`];
	const clean = ['Authorization: bearer [redacted]', 'X-Api-Key: [redacted]', 'x: 1 [redacted]'];
	const [target, shown] = ['/x?sig=1&a=2&access%5Ftoken=3#t', '/x?sig=[redacted]&a=2&access%5Ftoken=[redacted]#t'];
	assert.deepEqual(redactHead([`GET ${target} HTTP/1.1`, ...fields]), [`GET ${shown} HTTP/1.1`, ...clean]);
	const pseudo = [':scheme: https', ':method: GET', ':authority: a'];
	assert.deepEqual(redactHead([...pseudo, `:path: ${target}`, ...fields]), [...pseudo, `:path: ${shown}`, ...clean]);
	assert.equal(redactTarget(`/x/${jwt}?%zz=1&author=me`), '/x/[redacted]?%zz=1&author=[redacted]');
	assert.equal(redactText('the secret1 is secret1', ['secret1', 'is']), 'the [redacted] is [redacted]');
});

describe('the circuit breaker and the health of the upstream, by the metrics of a running proxy', () => {
	type Status = NonNullable<Parameters<typeof explained>[3]>;
	const at = '2026-11-22T10:00:00.000Z';
	const HEALTH = 'http://127.0.0.1:9; its last health probe: ';
	const state = async (page: string, status?: Status, own = files, path = '/plain') => {
		const said = await explained(own, { name: '', reason: undefined, path }, page, status);
		const [circuit, ...more] = gate(said, 'circuit breaker')!.details;
		return { ended: said.reason ?? said.outcome, circuit, more, health: gate(said, 'upstream')?.details[0] };
	};
	const metrics = (circuit: number, alive?: number) =>
		[
			`proxy_circuit_state{upstream="127.0.0.1:9"} ${circuit}`,
			...(alive === undefined ? [] : [`proxy_upstream_alive{upstream="127.0.0.1:9"} ${alive}`]),
		].join('\n');

	test('closed, open and half-open', async () => {
		const closed = { ended: 'passes', circuit: 'of 127.0.0.1:9: closed', more: [] };
		assert.deepEqual(await state(metrics(0)), { ...closed, health: `${HEALTH}not probed` });
		assert.deepEqual(await state(metrics(0, 1)), { ...closed, health: `${HEALTH}passed` });
		assert.deepEqual(await state(metrics(1, 0)), {
			...{ ended: 'circuit open', circuit: 'of 127.0.0.1:9: open', more: [] },
			health: `${HEALTH}failed, or not made yet`,
		});
		assert.equal((await state(metrics(2, 0))).ended, 'circuit open');
		const overTls = await filesOf('parts-tls.toml', explainConfig('https://127.0.0.1:9'));
		assert.match((await state(metrics(0), undefined, overTls)).health!, /^https:\/\/127\.0\.0\.1:9; .* not probed$/);
	});

	test('the time and cause of an open breaker, and the remedy for a failed probe', async () => {
		const remedy = 'set health_path, or health = false';
		const last_probe = { at, passed: false, found: 'GET /health answered 404', remedy };
		const breaker = { state: 'open', since: at, reason: 'health', cause: 'health: 404', opened_total: 1 } as const;
		const upstreams = [{ upstream: '127.0.0.1:9', group: null, breaker, last_probe }];
		const { circuit, health } = await state(metrics(1, 0), { dns: [], upstreams });
		assert.equal(circuit, `of 127.0.0.1:9: open since ${at}, because: health: 404`);
		assert.equal(health, `${HEALTH}failed: GET /health answered 404: ${remedy}`);
	});

	test('an upstream that the running proxy does not know', async () => {
		const { circuit } = await state('proxy_circuit_state{upstream="x:1"} 1');
		assert.match(circuit!, /the running proxy does not know this upstream$/);
	});

	test('a name without addresses, with the failed look-ups', async () => {
		const tables =
			'[[upstreams]]\nname = "pods"\ndns = "pods.test:80"\n\n[[routes]]\nprefix = "/pods"\nupstream = "pods"\n';
		const pods = await filesOf('parts-dns.toml', `${explainConfig('http://127.0.0.1:9')}\n${tables}`);
		const failing = { name: 'pods.test:80', routes: ['/pods'], addresses: 0, age_seconds: null, failures: 7 };
		const dns = [
			{ ...failing, group: 'others', failing_since: null, cause: null },
			{ ...failing, group: 'pods', failing_since: at, cause: 'the name has no addresses' },
		];
		for (const [status, more] of [
			[undefined, []],
			[{ dns, upstreams: [] }, [`the name has no addresses; 7 lookups have failed since ${at}`]],
		] as const) {
			const found = await state('proxy_dns_addresses{group="pods"} 0', status, pods, '/pods');
			assert.deepEqual(
				[found.ended, found.circuit],
				['circuit open', 'DNS has returned no address for pods.test:80 yet'],
			);
			assert.deepEqual(found.more, more);
		}
	});
});

test('Host of several addresses is that of the first, with a note', async () => {
	const [head] = explainConfig('two').split('[[routes]]');
	const group = (name: string, from: string) => `[[upstreams]]\nname = "${name}"\n${from}\n`;
	const to = (name: string, path = name, keys = '') =>
		`[[routes]]\nprefix = "/${path}"\nupstream = "${name}"\n${keys}\n`;
	const tables = [
		group('two', 'addresses = ["10.0.0.1:80", "10.0.0.2:80"]'),
		group('one', 'addresses = ["10.0.0.1:80"]'),
		group('pods', 'dns = "pods.test.:80"'),
		...[to('two'), to('two', 'named', 'host = "billing.internal"'), to('two', 'cut', 'strip_prefix = true')],
		...[to('one'), to('pods')],
	];
	const hosts = await filesOf('parts-hosts.toml', head + tables.join(''));
	const said = await Promise.all(
		['/two', '/named', '/cut/x', '/one', '/pods'].map(async (path) => {
			const { notes, upstream_head: lines } = await explained(hosts, { name: '', reason: undefined, path });
			return [lines!.find((line) => line.startsWith('host: ')), ...notes];
		}),
	);
	const note = 'Host is the address that the request goes to; this is the first of 2, 10.0.0.1:80';
	assert.deepEqual(said, [
		['host: 10.0.0.1:80', note],
		['host: billing.internal'],
		['host: 10.0.0.1:80', note],
		['host: 10.0.0.1:80'],
		['host: pods.test:80'],
	]);
});

test('a few of many addresses are shown, those with problems first', async () => {
	const addresses = Array.from({ length: 20 }, (_, i) => `10.0.0.${i + 1}:80`);
	const [head] = explainConfig('many').split('[[routes]]');
	const tables = `[[routes]]\nprefix = "/"\nupstream = "many"\n[[upstreams]]\nname = "many"\naddresses = ${JSON.stringify(addresses)}\n`;
	const many = await filesOf('parts-many.toml', head + tables);
	const unasked = await explained(many, { name: '', reason: undefined });
	assert.match(gate(unasked, 'upstream')!.details[0]!, /^http:\/\/10.0.0.1:80, .*10.0.0.8:80, and 12 more; needs/);
	const samples = addresses.map((one, i) => `proxy_circuit_state{upstream="${one}",group="many"} ${i === 18 ? 1 : 0}`);
	const said = await explained(many, { name: '', reason: undefined }, samples.join('\n'));
	assert.equal(said.outcome, 'passes');
	const circuits = gate(said, 'circuit breaker')!.details;
	assert.deepEqual([circuits.length, circuits[0], circuits.at(-1)], [9, 'of 10.0.0.19:80: open', 'and 12 more']);
});
