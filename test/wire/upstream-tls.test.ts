/** TLS to upstreams: which certificates are accepted, the proxy's own certificate, and that bodies and connections work as without TLS. */
import { deepEqual, equal, match, notEqual, ok } from 'node:assert/strict';
import { randomBytes, X509Certificate } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { after, describe, test } from 'node:test';
import type { TLSSocket, TlsOptions } from 'node:tls';
import { issue } from '../../packages/proxy/src/cli/demo/pki.ts';
import { PROTOCOLS, request } from '../fixtures/clients.ts';
import { Load } from '../fixtures/load.ts';
import { testPki } from '../fixtures/pki.ts';
import { BODY_MODE, startProxy, testOnce } from '../fixtures/proxy.ts';
import { startUpstream, type Upstream, type UpstreamOptions } from '../fixtures/upstream.ts';

const pki = await testPki();
const identity: TlsOptions = { cert: pki.server.certPem, key: pki.server.keyPem };
const DAY_MS = 24 * 3_600_000;
const own = await pki.issueClient();
const ownCert = pki.writeFile('own.crt', own.certPem);
const ownKey = pki.writeFile('own.key', own.keyPem);
const ownFiles = { cert_path: ownCert, key_path: ownKey };
const expired = await issue(pki.ca, {
	commonName: 'expired',
	sans: ['127.0.0.1'],
	usages: 'server',
	notBefore: new Date(Date.now() - 2 * DAY_MS),
	notAfter: new Date(Date.now() - DAY_MS),
});
const foreign = await pki.issueServer('foreign', pki.otherCa);
const forClients = await issue(pki.ca, {
	commonName: 'client',
	sans: ['127.0.0.1'],
	usages: 'client',
	notBefore: new Date(Date.now() - DAY_MS),
	notAfter: new Date(Date.now() + DAY_MS),
});
const nameless = await issue(pki.ca, {
	commonName: 'localhost',
	usages: 'server',
	notBefore: new Date(Date.now() - DAY_MS),
	notAfter: new Date(Date.now() + DAY_MS),
});

const upstreams: Upstream[] = [];
const groups: { name: string; addresses: string[]; tls: Record<string, string | boolean> }[] = [];

/** A group with its own upstream, without health probes. */
async function group(
	name: string,
	tls: Record<string, string | boolean>,
	options: UpstreamOptions = { tls: identity },
): Promise<Upstream> {
	const upstream = await startUpstream(options);
	upstreams.push(upstream);
	groups.push({ name, addresses: [upstream.authority], tls });
	return upstream;
}

const TRUSTED = { ca_path: pki.caPath };
const good = await group('good', TRUSTED);
const old = await group('old', TRUSTED, { tls: { ...identity, maxVersion: 'TLSv1.2' } });
const named = await group('named', { ...TRUSTED, server_name: 'localhost' });
const careless = await group(
	'careless',
	{ insecure_skip_verify: true },
	{ tls: { cert: foreign.certPem, key: foreign.keyPem } },
);
const asking: TlsOptions = { ...identity, requestCert: true, ca: pki.ca.certPem };
const mutual = await group('mutual', { ...TRUSTED, ...ownFiles }, { tls: asking });
const mutualOld = await group('mutual-old', { ...TRUSTED, ...ownFiles }, { tls: { ...asking, maxVersion: 'TLSv1.2' } });

/** Those that must not get a byte, and the words for it. */
const REFUSED: readonly (readonly [
	name: string,
	tls: Record<string, string | boolean>,
	upstream: UpstreamOptions,
	cause: RegExp,
])[] = [
	['wrong-ca', { ca_path: pki.otherCaPath }, { tls: identity }, /chains to no CA that is trusted here/],
	['wrong-ip', { ...TRUSTED, server_name: '127.0.0.2' }, { tls: identity }, /its certificate is for another name/],
	[
		'common-name',
		{ ...TRUSTED, server_name: 'localhost' },
		{ tls: { cert: nameless.certPem, key: nameless.keyPem } },
		/its certificate is for another name/,
	],
	['expired', TRUSTED, { tls: { cert: expired.certPem, key: expired.keyPem } }, /has expired/],
	['for-clients', TRUSTED, { tls: { cert: forClients.certPem, key: forClients.keyPem } }, /is not for servers/],
	[
		'too-old',
		{ ...TRUSTED, min_version: '1.3' },
		{ tls: { ...identity, maxVersion: 'TLSv1.2' } },
		/no version of TLS|protocol version/,
	],
	['missing', TRUSTED, { tls: asking }, /refused in the TLS handshake: certificate required/],
];
const refused = new Map<string, Upstream>();
for (const [name, tls, options] of REFUSED) refused.set(name, await group(name, tls, options));

/** Does not know what to make of a ClientHello, and says so. */
const plain = await listen((socket) => socket.once('data', () => socket.end('HTTP/1.1 400 Bad Request\r\n\r\n')));
/** Takes connections and says nothing. */
const silent = await listen(() => {});

// Before any test is defined: it may take longer than a test waits for its turn.
const proxy = await startProxy({
	workers: 1,
	config: { health_interval_secs: 3600, health: false, default_cooldown_secs: 3600 },
	log: { access: 'errors' },
	limits: { upstream_timeout_secs: 2 },
	upstreams: groups,
	routes: [
		...groups.map(({ name }) => ({
			prefix: `/${name}`,
			upstream: name,
			...(!refused.has(name) && { failures: 100 }),
		})),
		{ prefix: '/url', upstream: careless.url.replace('127.0.0.1', 'localhost') },
		{ prefix: '/url-untrusted', upstream: good.url },
		{ prefix: '/plain', upstream: `https://127.0.0.1:${portOf(plain)}` },
		{ prefix: '/silent', upstream: `https://127.0.0.1:${portOf(silent)}` },
	],
	// The CAs that Node trusts.
	env: { NODE_EXTRA_CA_CERTS: pki.otherCaPath },
});
after(async () => {
	await proxy[Symbol.asyncDispose]();
	await Promise.all(upstreams.map((upstream) => upstream.close()));
	for (const server of [plain, silent]) server.close();
});

const serialOf = (pem: string) => new X509Certificate(pem).serialNumber;
const socketOf = (upstream: Upstream, nth = -1) => upstream.trafficConnections.at(nth)!.socket as TLSSocket;

/** The reason of the last answer to a path, for operators. */
async function reasonOf(path: string): Promise<string> {
	const line = await proxy.waitForLog(
		({ target, path: asked }) => target === 'proxy::access' && asked === path,
		undefined,
		0,
	);
	return String(line.reason);
}

for (const protocol of PROTOCOLS) {
	describe(`an upstream over TLS, asked over ${protocol}`, () => {
		test('answers, and its connection is kept', async () => {
			const before = good.trafficConnections.length;
			for (let i = 0; i < 10; i++) equal((await request(protocol, proxy, { path: '/good/a' })).text, 'ok');
			ok(good.trafficConnections.length <= before + 1, 'however early the answer has come');
			equal(good.requests.at(-1)!.header('host'), good.authority);
			equal(socketOf(good).getProtocol(), 'TLSv1.3');
			equal(socketOf(good).alpnProtocol, false, 'the server has chosen none');
			equal((await request(protocol, proxy, { path: '/old' })).status, 200);
			equal(socketOf(old).getProtocol(), 'TLSv1.2');
		});

		testOnce('is verified by the expected name', async () => {
			equal((await request(protocol, proxy, { path: '/named' })).status, 200);
			equal((socketOf(named) as TLSSocket & { servername: string }).servername, 'localhost');
			equal((socketOf(good) as TLSSocket & { servername: string | false }).servername, false, 'no name for an address');
		});

		testOnce("gets the proxy's client certificate", async () => {
			for (const [path, upstream] of [
				['/mutual', mutual],
				['/mutual-old', mutualOld],
			] as const) {
				equal((await request(protocol, proxy, { path })).status, 200);
				equal(socketOf(upstream).getPeerCertificate().serialNumber, serialOf(own.certPem));
				ok(socketOf(upstream).authorized);
			}
		});

		testOnce('is not verified with insecure_skip_verify', async () => {
			equal((await request(protocol, proxy, { path: '/careless' })).status, 200);
			ok(careless.requests.length > 0);
		});

		test('gets and gives large bodies byte by byte', async () => {
			const up = randomBytes(1_500_001);
			const down = randomBytes(3_000_017);
			for (const [path, upstream] of [
				['/good/large', good],
				['/old/large', old],
			] as const) {
				upstream.script = (exchange) => {
					if (exchange.request.target.endsWith('chunked'))
						exchange.chunked([down.subarray(0, 100_001), down.subarray(100_001)]);
					else exchange.respond({ body: down });
				};
				for (const target of [path, `${path}/chunked`]) {
					const answer = await request(protocol, proxy, { method: 'POST', path: target, body: up });
					equal(answer.status, 200);
					equal(answer.ended, 'complete');
					ok(answer.body.equals(down));
					ok(upstream.requests.at(-1)!.body.equals(up));
				}
				upstream.script = (exchange) => exchange.respond({ body: 'ok' });
			}
		});

		test('ends an answer by its framing, never by the end of the connection', async () => {
			good.script = (exchange) => exchange.untilClose({ body: 'all of it' });
			const path = `/good/until-close-${protocol}`;
			equal((await request(protocol, proxy, { path })).status, 502);
			match(await reasonOf(path), /neither content-length nor chunked over TLS/);
			good.script = (exchange) => {
				if (exchange.request.method === 'HEAD') exchange.respond({ body: 'ok' });
				// The TCP connection ends without a close_notify: anybody on the path can cause that.
				else {
					exchange.write(exchange.head({}, [['content-length', '10']]));
					exchange.socket.write('half', () => cut(exchange.socket as TLSSocket));
				}
			};
			equal((await request(protocol, proxy, { method: 'HEAD', path: '/good' })).status, 200);
			const cutOff = await request(protocol, proxy, { path: '/good/cut' });
			if (BODY_MODE === 'collected') equal(cutOff.status, 502);
			else notEqual(cutOff.ended, 'complete');
			good.script = (exchange) => exchange.respond({ body: 'ok' });
			equal((await request(protocol, proxy, { path: '/good' })).text, 'ok');
		});

		test('gives a client that gets the answer as it comes all that came before an early end', async () => {
			good.script = (exchange) => {
				exchange.write(exchange.head({}, [['content-length', '5000']]));
				exchange.write(Buffer.alloc(1000, 'x'));
				// With a close_notify.
				exchange.end();
			};
			const seen = new Set<string>();
			for (let round = 0; round < 5; round++) {
				const path = '/good/early';
				const answers = await Promise.all(Array.from({ length: 8 }, () => request(protocol, proxy, { path })));
				for (const { status, body, ended } of answers) seen.add(`${status} ${body.length} ${ended === 'complete'}`);
			}
			deepEqual([...seen], [BODY_MODE === 'collected' ? '502 11 true' : '200 1000 false']);
			good.script = (exchange) => exchange.respond({ body: 'ok' });
			equal((await request(protocol, proxy, { path: '/good' })).text, 'ok');
		});
	});
}

describe('a server that is not the intended upstream', () => {
	for (const [name, , , cause] of REFUSED) {
		testOnce(`gets no request: ${name}`, async () => {
			const upstream = refused.get(name)!;
			const answer = await request('h1', proxy, { method: 'POST', path: `/${name}`, body: 'secret' });
			equal(answer.status, 502);
			equal(answer.text, 'bad gateway');
			match(await reasonOf(`/${name}`), cause);
			equal(upstream.requests.length, 0);
			// Nothing was delivered, as with any other failed connection.
			const circuit = proxy.logs.find(({ target, group }) => target === 'proxy::breaker' && group === name);
			deepEqual([circuit?.reason, circuit?.to], ['connect', 'open']);
		});
	}

	testOnce('is verified by the CAs that Node trusts, and by its host, if a route has its URL', async () => {
		equal((await request('h1', proxy, { path: '/url' })).status, 200);
		equal((await request('h1', proxy, { path: '/url-untrusted' })).status, 502);
		match(await reasonOf('/url-untrusted'), /chains to no CA that is trusted here/);
	});

	testOnce('may speak no TLS', async () => {
		equal((await request('h1', proxy, { path: '/plain' })).status, 502);
		match(await reasonOf('/plain'), /does not speak TLS on this port/);
	});

	test('has no more time for the handshake than for an answer', async () => {
		equal((await request('h1', proxy, { path: '/silent' })).status, 504);
		match(await reasonOf('/silent'), /no connection within 2 s/);
	});
});

function listen(serve: (socket: Socket) => void): Promise<Server> {
	const server = createServer((socket) => {
		socket.on('error', () => {});
		serve(socket);
	});
	return new Promise((resolve) => server.listen(0, '127.0.0.1', () => resolve(server)));
}

function portOf(server: Server): number {
	return (server.address() as AddressInfo).port;
}

/** As an attacker on the way would: FIN, and no close_notify. */
function cut(socket: TLSSocket): void {
	const { _handle: handle } = socket as unknown as { _handle: { _parent: { close(): void } } };
	handle._parent.close();
}

describe('connections to an upstream over TLS', () => {
	testOnce('change over to another certificate of ours by a reload, and no request is lost', async () => {
		mutual.script = (exchange) => exchange.respond({ body: exchange.request.target });
		await using load = new Load(proxy, { h1: 3, h2: 2, streams: 4, path: (n) => `/mutual/${n}` });
		await load.answers(100);
		const renewed = await pki.issueClient();
		writeFileSync(ownCert, renewed.certPem);
		// The key of another certificate: all stays as it was.
		equal((await proxy.reload()).routes.message, 'route reload failed; keeping old table');
		await load.answers(100);
		writeFileSync(ownKey, renewed.keyPem);
		equal((await proxy.reload()).routes.message, 'routing table reloaded');
		// Who is under way on an old connection may finish; no other request goes there.
		await load.answers(20);
		const from = mutual.requests.length;
		await load.answers(100);
		const used = new Set(mutual.requests.slice(from).map(({ connection }) => connection));
		const shown = mutual.openConnections.filter(({ number }) => used.has(number));
		ok(shown.length > 0);
		for (const { socket } of shown) {
			equal((socket as TLSSocket).getPeerCertificate().serialNumber, serialOf(renewed.certPem));
			ok((socket as TLSSocket).authorized);
		}
		deepEqual((await load.stop()).losses, []);
	});
});

testOnce('the proxy says which upstream it does not verify, at the start and on the status page', async () => {
	ok(
		proxy.logs.some(
			({ level, message }) => level === 'warn' && /upstreams\[3\]\.tls\.insecure_skip_verify: is true/.test(message),
		),
	);
	const page = (await (await fetch(`http://127.0.0.1:${proxy.metricsPort}/status.json`)).json()) as {
		problems: { text: string }[];
		certificates: { kind: string; serial: string }[];
	};
	ok(page.problems.some(({ text }) => text === `An upstream's certificate is not verified: ${careless.authority}`));
	const kinds = new Set(page.certificates.map(({ kind }) => kind));
	ok(kinds.has('upstream_client') && kinds.has('upstream_ca'));
});
