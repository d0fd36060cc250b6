/** The header contract in both directions. */
import { deepEqual, equal, ok } from 'node:assert/strict';
import { networkInterfaces } from 'node:os';
import { after, before, describe, test } from 'node:test';
import { type Connection, connect, h1Raw, PROTOCOLS, request } from '../fixtures/clients.ts';
import type { HeaderList } from '../fixtures/http1-message.ts';
import { testPki } from '../fixtures/pki.ts';
import { testOnce } from '../fixtures/proxy.ts';
import { startLanes } from '../fixtures/stage.ts';
import type { RecordedRequest } from '../fixtures/upstream.ts';

const pki = await testPki();
const edge = await startLanes({
	lanes: 2,
	routes: [{ prefix: '/told', host: 'client', x_forwarded_host: true, x_forwarded_port: true, forwarded: true }],
});
after(() => edge.close());
const lane = edge.lane();
const { path, upstream } = lane;
const token = pki.token();
const authorization: [string, string] = ['authorization', `Bearer ${token}`];

/** What the proxy adds to every request, in lines of `name: value`. */
const ownLines = () => [
	`host: ${upstream.authority}`,
	`authorization: Bearer ${token}`,
	'x-forwarded-for: 127.0.0.1',
	'x-forwarded-proto: https',
	'x-proxy-tenant: tenant',
];

function linesOf({ headers }: RecordedRequest): string[] {
	return headers.map(([name, value]) => `${name}: ${value}`).sort();
}

for (const protocol of PROTOCOLS) {
	describe(`request headers over ${protocol}`, () => {
		let client: Connection;
		before(async () => {
			client = await connect(protocol, edge.proxy);
		});
		after(() => client.close());

		/** Sends these lines, and returns the whole request that arrives. */
		const forward = async (headers: HeaderList, method = 'GET'): Promise<RecordedRequest> => {
			const count = upstream.requests.length;
			const answer = await client.request({ method, path, headers: [authorization, ...headers] });
			equal(answer.status, 200, `${answer.status} ${answer.text}`);
			equal(upstream.requests.length, count + 1);
			return upstream.requests.at(-1)!;
		};

		test('a request goes out as HTTP/1.1 with the headers of the contract and no others', async () => {
			const received = await forward([]);
			equal(received.startLine, `GET ${path} HTTP/1.1`);
			deepEqual(linesOf(received), ownLines().sort());
		});

		testOnce("a client's x-proxy-tenant reaches no upstream, in any spelling", async () => {
			const spellings = ['x-proxy-tenant', 'x_proxy_tenant', 'x-proxy_tenant', 'x_proxy-tenant'];
			const cases = protocol === 'h1' ? ['X-Proxy-Tenant', 'X_PROXY_TENANT', 'x-PROXY_tenant'] : [];
			for (const name of [...spellings, ...cases]) {
				const received = await forward([
					[name, 'root'],
					['x-kept', '1'],
					[name, 'admin'],
				]);
				deepEqual(linesOf(received), [...ownLines(), 'x-kept: 1'].sort(), name);
			}
		});

		testOnce(
			"what the client says about itself gives way to what the proxy knows: the peer's address, https, Host",
			async () => {
				const received = await forward([
					['host', 'public.example:8443'],
					['x-forwarded-for', '10.1.2.3'],
					['x-forwarded-for', '10.1.2.4, 10.1.2.5'],
					['x-forwarded-proto', 'http'],
					['forwarded', 'for=10.1.2.3;proto=http'],
					['x-real-ip', '10.1.2.3'],
					['x_forwarded_for', '10.1.2.3'],
					['x_real_ip', '10.1.2.3'],
					['script_name', '/x'],
					['x-original-url', '/admin'],
				]);
				deepEqual(linesOf(received), ownLines().sort());
			},
		);
	});

	describe(`what a route changes over ${protocol}`, () => {
		let client: Connection;
		before(async () => {
			client = await connect(protocol, edge.proxy);
		});
		after(() => client.close());

		/** What a client may send to be taken for the proxy. */
		const hostile: HeaderList = [
			['host', 'Public.example:8443'],
			['x-forwarded-host', 'evil.example'],
			['x_forwarded_host', 'evil.example'],
			['x-forwarded-port', '1'],
			['x-forwarded-prefix', '/evil'],
			['forwarded', 'for=10.1.2.3;host=evil.example'],
		];
		const told = () => [
			'host: Public.example:8443',
			'x-forwarded-host: Public.example:8443',
			`x-forwarded-port: ${edge.proxy.port}`,
			'forwarded: for=127.0.0.1;host="Public.example:8443";proto=https',
		];
		const others = () => ownLines().filter((line) => !line.startsWith('host: '));

		test("is Host and the forwarding headers; the client's own are dropped", async () => {
			for (const path of ['/told', '/told/x?y', '/told']) {
				const answer = await client.request({ path, headers: [authorization, ...hostile] });
				equal(answer.status, 200, `${answer.status} ${answer.text}`);
				const received = upstream.requests.at(-1)!;
				equal(received.startLine, `GET ${path} HTTP/1.1`);
				deepEqual(linesOf(received), [...others(), ...told(), 'x-forwarded-prefix: /evil'].sort());
			}
			// On the same connection another route adds nothing, and forwards the usual fields.
			await client.request({ path, headers: [authorization, ...hostile] });
			deepEqual(
				linesOf(upstream.requests.at(-1)!),
				[...ownLines(), ...hostile.slice(1, 5).map(([name, value]) => `${name}: ${value}`)].sort(),
			);
		});
	});

	describe(`response headers over ${protocol}`, () => {
		let client: Connection;
		before(async () => {
			client = await connect(protocol, edge.proxy);
		});
		after(() => client.close());

		/** Answers with these lines, and returns what of them arrives, without what the connection to the client adds. */
		const backward = async (headers: HeaderList): Promise<Record<string, unknown>> => {
			upstream.script = (exchange) => exchange.respond({ headers, body: 'body' });
			const answer = await client.request({ path });
			equal(answer.status, 200, `${answer.status} ${answer.text}`);
			equal(answer.text, 'body');
			const { connection, 'keep-alive': keepAlive, ...rest } = answer.headers;
			return rest;
		};

		test('ordinary headers pass as they are, repeated cookies apart, with bytes beyond ASCII', async () => {
			const headers: HeaderList = [
				['Content-Type', 'application/json'],
				['Date', 'Tue, 15 Nov 1994 08:12:31 GMT'],
				['Server', 'scripted/1'],
				['Set-Cookie', 'a=1; Path=/'],
				['Set-Cookie', 'b=2'],
				['X-Latin', 'caf\xe9'],
				['X-Empty', ''],
				['__proto__', 'p'],
				['Constructor', 'c'],
				['X-Two', 'a'],
				['X-Two', 'b'],
			];
			const { __proto__: _, ...received } = await backward(headers);
			deepEqual(Object.fromEntries(Object.entries(received)), {
				'content-type': 'application/json',
				date: 'Tue, 15 Nov 1994 08:12:31 GMT',
				server: 'scripted/1',
				'set-cookie': ['a=1; Path=/', 'b=2'],
				'x-latin': 'caf\xe9',
				'x-empty': '',
				constructor: 'c',
				'x-two': 'a, b',
				'content-length': '4',
			});
		});

		test('hop-by-hop headers stay at the other hop, those that Connection names included', async () => {
			const { date, ...received } = await backward([
				['Connection', 'keep-alive, X-Named ,x-also,,'],
				['Keep-Alive', 'timeout=5, max=100'],
				['X-Named', '1'],
				['X-Also', '2'],
				['X-Kept', '3'],
				['Proxy-Connection', 'keep-alive'],
				['Proxy-Authenticate', 'Basic'],
				['TE', 'gzip'],
				['Trailer', 'x-late'],
				['Upgrade', 'h2c'],
				['HTTP2-Settings', 'AAMAAABkAAQAoAAAAAIAAAAA'],
			]);
			ok(date !== undefined);
			deepEqual(Object.fromEntries(Object.entries(received)), { 'x-kept': '3', 'content-length': '4' });
		});

		after(() => {
			upstream.script = (exchange) => exchange.respond({ body: 'ok' });
		});
	});
}

testOnce('Connection deletes what it names, but never the tenant or what the proxy writes', async () => {
	for (const value of [
		'x-named, x-forwarded-for,host , x-forwarded-proto, content-length',
		'close, x-named, x-proxy-tenant, transfer-encoding',
	]) {
		const headers: HeaderList = [
			['x-named', '1'],
			['x-kept', '2'],
			['connection', value],
			['x-proxy-tenant', 'root'],
		];
		equal((await request('h1', edge.proxy, { path, headers, token })).status, 200);
		const expected = [...ownLines(), 'x-kept: 2', ...(value.includes('x-named') ? [] : ['x-named: 1'])];
		deepEqual(linesOf(upstream.requests.at(-1)!), expected.sort(), value);
	}
});

testOnce('names keep the spelling that an HTTP/1.1 client gave them', async () => {
	using raw = await h1Raw(edge.proxy);
	raw.send(`GET ${path} HTTP/1.1\r\nHOST: x\r\nAuthorization: Bearer ${token}\r\nX-MiXeD:\t v \r\n\r\n`);
	equal((await raw.readResponse()).status, 200);
	ok(linesOf(upstream.requests.at(-1)!).includes('X-MiXeD: v'));
});

const HAS_IPV6 = Object.values(networkInterfaces()).some((all) => all?.some(({ address }) => address === '::1'));

testOnce(
	'x-forwarded-for writes a mapped IPv4 address as IPv4, and IPv6 as it is',
	{
		skip: !HAS_IPV6 && 'no ::1 here',
	},
	async () => {
		await using dual = await startLanes({ args: ['--bind', '[::]:0'], workers: 1 });
		const { path, upstream } = dual.lane();
		for (const protocol of PROTOCOLS) {
			for (const host of ['127.0.0.1', '::1']) {
				equal((await request(protocol, dual.proxy, { path, tls: { host } })).status, 200);
				equal(upstream.requests.at(-1)!.header('x-forwarded-for'), host);
			}
		}
	},
);
