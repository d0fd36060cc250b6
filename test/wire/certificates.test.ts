import assert from 'node:assert/strict';
import { X509Certificate } from 'node:crypto';
import { after, before, beforeEach, describe, test } from 'node:test';
import {
	type Connection,
	connect,
	type H2Connection,
	isAccepted,
	PROTOCOLS,
	type Protocol,
	request,
} from '../fixtures/clients.ts';
import { type CrlOptions, crlPem, issueCrl } from '../fixtures/crl.ts';
import { type ClientCert, type TestPki, testPki } from '../fixtures/pki.ts';
import type { LogLine } from '../fixtures/program.ts';
import { type ConfigOverrides, type ProxyProcess, startProxy } from '../fixtures/proxy.ts';
import { type Exchange, startUpstream, type Upstream } from '../fixtures/upstream.ts';
import { until, within } from '../fixtures/wait.ts';

/** Tokens bound to certificates, and certificates with an end: over real connections, each with whom it is ended by. */

let pki: TestPki;
let upstream: Upstream;
let proxy: ProxyProcess;
/** Clients that are never revoked, and such as a test takes for itself. */
let ours: ClientCert;
let theirs: ClientCert;
const open = new AsyncDisposableStack();
before(async () => {
	pki = await testPki();
	[ours, theirs] = await Promise.all([pki.issueClient(), pki.issueClient()]);
	upstream = open.use(await startUpstream({ script: onPurpose }));
	proxy = open.use(await startProxy(settings({ jwt: { reload: true }, log: { access: 'errors' } })));
});
after(() => open.disposeAsync());
beforeEach(() => reloaded({ config: {}, tls: NO_TLS, jwt: { reload: true } }));

/** What a test has set is taken out again. */
const NO_TLS = { crl_path: undefined, crl_required: false, end_at_ca_removal: false, end_at_expiry: true };

function settings(overrides: ConfigOverrides): ConfigOverrides {
	return {
		...overrides,
		config: { tenant_rps: 0, health_interval_secs: 3600, health_timeout_secs: 15, ...overrides.config },
		routes: [{ prefix: '/', upstream: upstream.url }],
	};
}

/** `/held…` answers when the test says so, `/stuck` never does, all others at once. */
async function onPurpose(exchange: Exchange): Promise<void> {
	const { target } = exchange.request;
	if (target === '/stuck') return exchange.stall();
	if (target.startsWith('/held')) await gate(target).promise;
	exchange.respond({ body: target });
}

const gates = new Map<string, PromiseWithResolvers<void>>();
function gate(target: string): PromiseWithResolvers<void> {
	const known = gates.get(target) ?? Promise.withResolvers<void>();
	gates.set(target, known);
	return known;
}

async function arrived(path: string, count = 1): Promise<void> {
	await upstream.until(({ requests }) => requests.filter(({ target }) => target === path).length >= count, path);
}

/** A reload in which all parts succeed. */
async function reloaded(overrides: ConfigOverrides): Promise<void> {
	proxy.writeConfig(settings(overrides));
	const { tls, routes } = await proxy.reload();
	const done = [tls, routes].map(({ message, cause }) => `${message} ${cause ?? ''}`);
	assert.match(done.join(), /^mTLS config reloaded ,routing table reloaded $/);
}

let files = 0;
/** A CRL of the clients' CA in a file. @returns its path. */
async function crlFile(options: CrlOptions): Promise<string> {
	return pki.writeFile(`list-${files++}.crl`, crlPem(await issueCrl(pki.ca, options)));
}

const serialOf = ({ certPem }: ClientCert) => new X509Certificate(certPem).serialNumber;
const revoking = (...clients: ClientCert[]) => crlFile({ serials: clients.map(serialOf) });
const listFile = (text: string) => pki.writeFile(`revoked-${files++}.toml`, text);

/** The `count` lines about connections that were ended since then. */
async function endings(after: number, count: number, of: ProxyProcess = proxy): Promise<LogLine[]> {
	const lines = () => of.logs.slice(after).filter(({ message }) => message === 'connection is being ended');
	await until(() => lines().length >= count, `${count} connections to be ended`);
	return lines();
}

/** The line about a request or a handshake that was refused for this reason; those of earlier ones may come late. */
function refusal(reason: string, after: number): Promise<LogLine> {
	const isOurs = (line: LogLine) => /^(request|handshake failed)$/.test(line.message) && line.reason === reason;
	return proxy.waitForLog(isOurs, undefined, after);
}

/** Waits until that many connections have been ended for a reason. */
async function endedFor(reason: string, count: number, of = proxy): Promise<void> {
	const ended = () => of.metric('proxy_connections_ended_total', { reason });
	await until(async () => (await ended()) === count, `${count} connections to be counted as ended: ${reason}`);
}

async function gone(connection: Connection, ms?: number): Promise<void> {
	await within(connection.closed, `the ${connection.protocol} connection to be closed`, ms);
}

function goaways(connection: Connection): unknown[] {
	const seen: unknown[] = [];
	if (connection.protocol === 'h2') (connection as H2Connection).session.on('goaway', (code) => seen.push(code));
	return seen;
}

const thumbprint = ({ certPem }: ClientCert) =>
	Buffer.from(new X509Certificate(certPem).fingerprint256.replaceAll(':', ''), 'hex');
const boundTo = (client: ClientCert, sub?: string) =>
	pki.token(sub, { cnf: { 'x5t#S256': thumbprint(client).toString('base64url') } });

describe('a token bound to a certificate', () => {
	for (const protocol of PROTOCOLS) {
		test(`passes only on connections of that certificate, also if another connection showed it first (${protocol})`, async () => {
			const token = boundTo(ours, `bound-${protocol}`);
			await using mine = await connect(protocol, proxy, { cert: ours });
			await using stolen = await connect(protocol, proxy, { cert: theirs });
			const after = proxy.logs.length;
			const statuses: number[] = [];
			for (const connection of [stolen, mine, stolen, mine]) {
				statuses.push((await connection.request({ token })).status);
			}
			assert.deepEqual(statuses, [401, 200, 401, 200]);
			const { tenant, client_sha256 } = await refusal('bound to another certificate', after);
			assert.deepEqual([tenant, client_sha256], [`bound-${protocol}`, thumbprint(theirs).toString('hex')]);
		});
	}
});

describe('a certificate that is revoked', () => {
	for (const protocol of PROTOCOLS) {
		const alpn = [protocol === 'h1' ? 'http/1.1' : 'h2'];

		test(`a certificate revoked by a CRL opens no connection, and the log says why (${protocol})`, async () => {
			const client = await pki.issueClient();
			await reloaded({ tls: { crl_path: await revoking(client) } });
			const after = proxy.logs.length;
			assert.equal(await isAccepted(proxy, { alpn, cert: client }), false);
			assert.equal((await refusal('revoked', after)).serial, serialOf(client));
			assert.equal((await request(protocol, proxy, { cert: ours })).status, 200);
		});

		test(`a certificate that a reload revokes loses its connections after their requests in flight (${protocol})`, async () => {
			const client = await pki.issueClient();
			await using bystander = await connect(protocol, proxy, { cert: ours });
			await using idle = await connect(protocol, proxy, { cert: client });
			await using busy = await connect(protocol, proxy, { cert: client });
			await using silent = await connect(protocol, proxy, { cert: client });
			assert.equal((await idle.request()).status, 200);
			const told = [goaways(idle), goaways(busy)];
			const path = `/held/${protocol}`;
			const answer = busy.request({ path });
			await arrived(path);
			const before = await proxy.metric('proxy_connections_ended_total', { reason: 'revoked' });
			const after = proxy.logs.length;
			await reloaded({ tls: { crl_path: await revoking(client) } });
			for (const line of await endings(after, 3)) {
				const { level, target, reason, serial, peer } = line;
				assert.deepEqual(
					[level, target, reason, serial, peer],
					['info', 'proxy::tls', 'revoked', serialOf(client), '127.0.0.1'],
				);
			}
			await endedFor('revoked', before + 3);
			await Promise.all([gone(idle), gone(silent)]);
			gate(path).resolve();
			const { status, text, ended, headers } = await answer;
			assert.deepEqual([status, text, ended], [200, path, 'complete']);
			if (protocol === 'h1') assert.equal(headers.connection, 'close');
			else for (const codes of told) assert.ok(codes.length > 0 && codes.every((code) => code === 0), `${codes}`);
			await gone(busy);
			assert.equal((await bystander.request()).status, 200);
		});
	}

	test('loses its connections within five seconds, also with a request in flight that never ends', async () => {
		const client = await pki.issueClient();
		const connections = await Promise.all(PROTOCOLS.map((protocol) => connect(protocol, proxy, { cert: client })));
		const answers = connections.map((connection) => connection.request({ path: '/stuck' }));
		await arrived('/stuck', 2);
		await reloaded({ tls: { crl_path: await revoking(client) } });
		await Promise.all(connections.map((connection) => gone(connection)));
		for (const { ended } of await Promise.all(answers)) assert.notEqual(ended, 'complete');
	});

	test('is an intermediate: all below it are refused', async () => {
		const intermediate = await pki.issueAuthority('Revoked intermediate');
		const client = await pki.issueClient({}, intermediate);
		const other = await pki.issueClient({}, await pki.issueAuthority('Good intermediate'));
		await using connection = await connect('h2', proxy, { cert: client });
		await reloaded({ tls: { crl_path: await revoking(intermediate as unknown as ClientCert) } });
		await gone(connection);
		assert.equal(await isAccepted(proxy, { cert: client }), false);
		assert.equal((await request('h1', proxy, { cert: other })).status, 200);
	});

	test('is a root that leaves the bundle with the same reload: no connection below it stays', async () => {
		const both = pki.writeFile('both.crt', pki.ca.certPem + pki.otherCa.certPem);
		await reloaded({ tls: { client_ca_path: both } });
		await using connection = await connect('h2', proxy, { cert: pki.clients.otherCa });
		await using bystander = await connect('h1', proxy, { cert: ours });
		const revoked_path = listFile(
			`certificates = ["${thumbprint(pki.otherCa as unknown as ClientCert).toString('hex')}"]`,
		);
		await reloaded({ config: { revoked_path } });
		await gone(connection);
		assert.equal((await bystander.request()).status, 200);
		assert.equal(await isAccepted(proxy, { cert: pki.clients.otherCa }), false);
	});

	test('crl_required refuses clients whose CA has no fresh CRL', async () => {
		const stale = await crlFile({ thisUpdate: -48, nextUpdate: -1 });
		const after = proxy.logs.length;
		await reloaded({ tls: { crl_path: stale } });
		const warned = proxy.logs.slice(after).find(({ message }) => message.includes('has been out of date since'));
		assert.equal(warned?.level, 'warn');
		assert.equal((await request('h1', proxy, { cert: ours })).status, 200);
		assert.ok((await proxy.metric('proxy_crl_next_update_seconds', { issuer: 'CN=Test CA' })) < -3500);
		await using connection = await connect('h2', proxy, { cert: ours });
		await reloaded({ tls: { crl_path: stale, crl_required: true } });
		const refused = proxy.logs.length;
		assert.equal(await isAccepted(proxy, { cert: ours }), false);
		await refusal('no fresh CRL', refused);
		assert.equal((await connection.request()).status, 200, 'of those who are in nothing has become known');
		await reloaded({ tls: { crl_path: await crlFile({}), crl_required: true } });
		assert.equal((await request('h1', proxy, { cert: ours })).status, 200);
	});
});

describe('a token that is revoked', () => {
	for (const protocol of PROTOCOLS) {
		test(`is refused at once, also if its verdict was remembered (${protocol})`, async () => {
			const tokens = {
				'revoked jti': pki.token('tenant', { jti: `stolen-${protocol}` }),
				'revoked tenant': pki.token(`gone-${protocol}`),
			};
			await using connection = await connect(protocol, proxy);
			const status = async (token: string) => (await connection.request({ token })).status;
			for (const token of Object.values(tokens)) assert.equal(await status(token), 200);
			await reloaded({
				config: { revoked_path: listFile(`tokens = ["stolen-${protocol}"]\ntenants = ["gone-${protocol}"]`) },
			});
			for (const [reason, token] of Object.entries(tokens)) {
				const after = proxy.logs.length;
				assert.equal(await status(token), 401);
				await refusal(reason, after);
			}
			assert.equal(await status(pki.token()), 200);
			await reloaded({ config: { revoked_path: undefined } });
			for (const token of Object.values(tokens)) assert.equal(await status(token), 200);
		});
	}
});

describe('a connection ends', () => {
	test('a connection ends when its certificate expires, even if only a later reload sets end_at_expiry', async () => {
		await reloaded({ tls: { end_at_expiry: false } });
		const client = await pki.issueClient({ notAfter: new Date(Date.now() + 8000) });
		const after = proxy.logs.length;
		const connections = await Promise.all(PROTOCOLS.map((protocol) => connect(protocol, proxy, { cert: client })));
		for (const connection of connections) assert.equal((await connection.request()).status, 200);
		await reloaded({ tls: { end_at_expiry: true } });
		await Promise.all(connections.map((connection) => gone(connection)));
		const lines = await endings(after, 2);
		assert.deepEqual(
			lines.map(({ reason }) => reason),
			['expired', 'expired'],
		);
	});

	test('a connection ends when its CA is removed, if end_at_ca_removal is set', async () => {
		const connections: [Protocol, ClientCert][] = [
			['h1', ours],
			['h2', theirs],
			['h2', await pki.issueClient({}, await pki.issueAuthority('Below'))],
		];
		const all = await Promise.all(connections.map(([protocol, cert]) => connect(protocol, proxy, { cert })));
		await reloaded({ tls: { client_ca_path: pki.otherCaPath } });
		for (const connection of all) assert.equal((await connection.request()).status, 200);
		await reloaded({ tls: { client_ca_path: pki.caPath, end_at_ca_removal: true } });
		for (const connection of all) assert.equal((await connection.request()).status, 200);
		const after = proxy.logs.length;
		await reloaded({ tls: { client_ca_path: pki.otherCaPath, end_at_ca_removal: true } });
		await Promise.all(all.map((connection) => gone(connection)));
		assert.deepEqual(new Set((await endings(after, 3)).map(({ reason }) => reason)), new Set(['ca_removed']));
		await reloaded({ tls: { client_ca_path: pki.caPath } });
	});

	test('a connection ends at max_connection_age_secs, after its requests in flight', async () => {
		await using aged = await startProxy(settings({ limits: { max_connection_age_secs: 5 } }));
		const connections = await Promise.all(PROTOCOLS.map((protocol) => connect(protocol, aged)));
		const answers = connections.map((connection) => connection.request({ path: '/held/aged' }));
		await arrived('/held/aged', 2);
		const lines = await endings(0, 2, aged);
		assert.deepEqual(
			lines.map(({ reason }) => reason),
			['age', 'age'],
		);
		gate('/held/aged').resolve();
		for (const { status, ended } of await Promise.all(answers)) assert.deepEqual([status, ended], [200, 'complete']);
		await Promise.all(connections.map((connection) => gone(connection)));
		await endedFor('age', 2, aged);
	});
});
