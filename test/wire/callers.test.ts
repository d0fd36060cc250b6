/** Who is calling: what upstreams are told of client certificates, and who may use a route. */
import assert from 'node:assert/strict';
import { X509Certificate } from 'node:crypto';
import { after, before, describe, test } from 'node:test';
import { type Answer, type Connection, connect, PROTOCOLS, type RequestOptions, request } from '../fixtures/clients.ts';
import type { HeaderList } from '../fixtures/http1-message.ts';
import { dns, issueNamed, uri } from '../fixtures/named-certificates.ts';
import { type ClientCert, testPki } from '../fixtures/pki.ts';
import type { LogLine } from '../fixtures/program.ts';
import { type ProxyProcess, startProxy } from '../fixtures/proxy.ts';
import { startUpstream, type Upstream } from '../fixtures/upstream.ts';
import { until } from '../fixtures/wait.ts';

const pki = await testPki();
const certs = {
	pay: await issueNamed({
		sans: [uri('spiffe://example.org/ns/pay/card')],
		subject: [{ O: ['Example'] }, { CN: ['a,b'] }],
	}),
	ship: await issueNamed({ sans: [uri('spiffe://example.org/ns/ship/x'), dns('ship.internal')] }),
	billing: await issueNamed({ sans: [dns('a.billing.internal'), dns('b.internal')] }),
	legacy: await issueNamed({ subject: [{ CN: ['legacy-client'] }] }),
	twisted: await issueNamed({
		sans: [dns('x.internal, URI:spiffe://example.org/ns/pay/card'), dns('ship.internal\0')],
	}),
};

const CONFIG = { health_interval_secs: 3600, health_timeout_secs: 15, tenant_rps: 0 };
const HEADERS = ['client-cert', 'client-cert-chain', 'x-forwarded-client-cert'];

const routesTo = ({ url: upstream }: Upstream) => [
	{ prefix: '/plain', upstream },
	{ prefix: '/leaf', upstream, client_cert: 'leaf' },
	{ prefix: '/chain', upstream, client_cert: 'chain' },
	{ prefix: '/xfcc', upstream, xfcc: ['subject', 'uri', 'dns'] },
	{ prefix: '/pay', upstream, allow: ['spiffe://example.org/ns/pay/*', 'dns:*.billing.internal', 'cn:legacy-client'] },
	{ prefix: '/deny', upstream, deny: ['dns:ship.internal'] },
	{ prefix: '/tenants', upstream, tenants: ['acme'] },
	{ prefix: '/scopes', upstream, scopes: ['billing:read', 'billing:write'] },
];

const base64 = (pem: string) => new X509Certificate(pem).raw.toString('base64');

const open = new AsyncDisposableStack();
let upstream: Upstream;
let proxy: ProxyProcess;
before(async () => {
	upstream = open.use(await startUpstream());
	// No route asks for names yet: what reads them is loaded by the reload that brings such routes.
	proxy = open.use(
		await startProxy({
			config: CONFIG,
			log: { access: 'all' },
			routes: [{ prefix: '/plain', upstream: upstream.url }],
		}),
	);
	proxy.writeConfig({ routes: routesTo(upstream) });
	assert.equal((await proxy.reload()).routes.message, 'routing table reloaded');
});
after(() => open.disposeAsync());

for (const protocol of PROTOCOLS) {
	describe(`callers of routes, over ${protocol}`, () => {
		const send = (cert: ClientCert, options: RequestOptions) => request(protocol, proxy, { cert, ...options });

		/** What the upstream gets to see of the certificate. */
		async function told(cert: ClientCert, path: string, headers: HeaderList = []): Promise<Record<string, string>> {
			const count = upstream.requests.length;
			const answer = await send(cert, { path, headers });
			assert.equal(answer.status, 200, answer.text);
			assert.equal(upstream.requests.length, count + 1);
			const fields = upstream.requests.at(-1)!.headers.map(([name, value]) => [name.toLowerCase(), value] as const);
			const about = fields.filter(([name]) => HEADERS.includes(name.replaceAll(/[^a-z]/g, '-')));
			assert.equal(new Set(about.map(([name]) => name)).size, about.length, `${about}`);
			return Object.fromEntries(about);
		}

		/** The request is refused, counted once, and its reason is in both logs and nowhere else. */
		async function refused(cert: ClientCert, options: RequestOptions, metric: string, reason: string): Promise<Answer> {
			const labels = { reason: metric };
			const before = await proxy.metric('proxy_forbidden_total', labels);
			const seen = upstream.requests.length;
			const lines = proxy.logs.length;
			const answer = await send(cert, options);
			assert.equal(answer.status, 403, answer.text);
			assert.equal(upstream.requests.length, seen);
			await until(async () => (await proxy.metric('proxy_forbidden_total', labels)) === before + 1, 'the counter');
			// Lines of requests that were served before may come late.
			const isOurs = ({ target, path, status }: LogLine) =>
				target === 'proxy::access' && path === options.path && status === 403;
			const line = await proxy.waitForLog(isOurs, undefined, lines);
			assert.deepEqual([line.reason, line.route], [reason, options.path]);
			assert.doesNotMatch(
				JSON.stringify(answer.headers) + answer.text,
				new RegExp(`${reason.slice(0, 9)}.+certificate`),
			);
			return answer;
		}

		test("a client's own fields are always dropped, in every spelling, and Connection cannot remove the proxy's", async () => {
			const spellings = HEADERS.flatMap((name) => {
				const folded = [name, name.replaceAll('-', '_'), name.replace('-', '_'), name.replaceAll('-', '.')];
				return protocol === 'h1' ? [...folded, ...folded.map((one) => one.toUpperCase())] : folded;
			});
			const forged: HeaderList = spellings.flatMap((name) => [
				[name, ':AAAA:'],
				[name, 'Hash=00;URI=spiffe://example.org/admin'],
			]);
			const named: HeaderList = protocol === 'h1' ? [['connection', HEADERS.join(', ')]] : [];
			assert.deepEqual(await told(certs.pay, '/plain', [...forged, ...named]), {});
			assert.deepEqual(await told(certs.pay, '/leaf', [...forged, ...named]), {
				'client-cert': `:${base64(certs.pay.certPem)}:`,
			});
			assert.deepEqual(Object.keys(await told(certs.pay, '/xfcc', [...forged, ...named])), ['x-forwarded-client-cert']);
		});

		test('a Vary that names Client-Cert reaches the client as * (RFC 9440 section 2.4)', async () => {
			upstream.script = (exchange) => exchange.respond({ headers: [['Vary', 'accept, Client-Cert']], body: 'ok' });
			try {
				assert.equal((await send(certs.pay, { path: '/leaf' })).headers.vary, '*');
			} finally {
				upstream.script = (exchange) => exchange.respond({ body: 'ok' });
			}
		});

		test('allow admits a certificate by its URI, DNS name or named CN, and refuses all others', async () => {
			for (const cert of [certs.pay, certs.billing, certs.legacy]) {
				assert.equal((await send(cert, { path: '/pay' })).status, 200);
			}
			const none = 'no allowed name in the certificate';
			for (const [cert, reason] of [
				[certs.ship, none],
				[pki.clients.valid, none],
				[certs.twisted, 'malformed name in the certificate'],
			] as const) {
				const { text, headers } = await refused(cert, { path: '/pay' }, 'certificate', reason);
				assert.equal(text, 'forbidden');
				assert.equal(headers['www-authenticate'], undefined);
			}
		});

		test('scopes lets in tokens that have all of them, and challenges others (RFC 6750)', async () => {
			for (const claims of [{ scope: 'billing:write x billing:read' }, { scp: ['billing:read', 'billing:write'] }]) {
				assert.equal((await send(certs.pay, { path: '/scopes', token: pki.token('t', claims) })).status, 200);
			}
			const token = pki.token('t', { scope: 'billing:read' });
			const { text, headers } = await refused(certs.pay, { path: '/scopes', token }, 'scope', 'scope');
			assert.equal(text, 'insufficient scope');
			const challenge = 'Bearer error="insufficient_scope", scope="billing:read billing:write"';
			assert.equal(headers['www-authenticate'], challenge);
		});
	});
}

describe('a reload', () => {
	test('changes who may use a route and what its upstream gets, for open connections too', async () => {
		const connections: Connection[] = [];
		for (const protocol of PROTOCOLS) connections.push(await connect(protocol, proxy, { cert: certs.pay }));
		const [payRoute, ...others] = [...routesTo(upstream)].reverse();
		assert.ok(payRoute);
		const statuses = async (path: string) => {
			const answers = [];
			for (const connection of connections) answers.push((await connection.request({ path })).status);
			return answers;
		};
		try {
			assert.deepEqual(await statuses('/pay'), [200, 200]);
			const changed = [payRoute, ...others].map((route) => {
				if (route.prefix === '/pay') return { ...route, deny: ['spiffe://example.org/ns/pay/card'], scopes: ['none'] };
				return route.prefix === '/plain' ? { ...route, client_cert: 'leaf' } : route;
			});
			proxy.writeConfig({ routes: changed });
			await proxy.reload();
			assert.deepEqual(await statuses('/pay'), [403, 403]);
			assert.deepEqual(await statuses('/plain'), [200, 200]);
			assert.equal(upstream.requests.at(-1)!.header('client-cert'), `:${base64(certs.pay.certPem)}:`);
			proxy.writeConfig({ routes: routesTo(upstream) });
			await proxy.reload();
			assert.deepEqual(await statuses('/pay'), [200, 200]);
		} finally {
			for (const connection of connections) await connection.close();
		}
	});
});
