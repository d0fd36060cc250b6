/**
 * Third-party gRPC on both sides of the real command: the cases of gRPC's interoperability tests. Servers are in clear text, over TLS, and
 * behind nginx and Envoy; clients also behind Envoy. What is not installed is skipped; with PROXY_TEST_ALL_CLIENTS that is a failure.
 */
import { deepEqual } from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { type TestPki, testPki } from '../fixtures/pki.ts';
import { BODY_MODE, firstVerdicts, type ProxyProcess, startProxy } from '../fixtures/proxy.ts';
import { until } from '../fixtures/wait.ts';
import { edgeFiles } from './clients/process.ts';
import { CASES, type Case, callAs, PEERS, type Peer, startServer, wanted } from './grpc/peers.ts';
import { type Envoy, noEnvoy, startEnvoy } from './servers/envoy.ts';
import { noNginx, startNginx } from './servers/nginx.ts';
import { missing } from './tools.ts';

const { core, go } = PEERS;
const noPeer = ({ command }: Peer) => missing(command instanceof Error ? [command.message] : []);

/** A server and the path to it. Each is its own service and so has a route. */
interface Way {
	readonly service: string;
	readonly skip: string | false;
}

function way(server: Peer, name: string, skip: string | false = false): Way {
	return { service: `${server.name}-${name}.TestService`, skip: noPeer(server) || skip };
}

const WAYS = {
	core: [way(core, 'clear'), way(core, 'tls')],
	go: [way(go, 'clear'), way(go, 'tls')],
	between: [way(core, 'nginx', noNginx), way(core, 'envoy', noEnvoy), way(core, 'envoy-tls', noEnvoy)],
	aging: [way(core, 'aging'), way(go, 'aging')],
};

const open = new AsyncDisposableStack();
/** Ports of servers, by the suffix of their service's name. */
const clear = new Map<string, number>();
const secure = new Map<string, number>();
let pki: TestPki;
let proxy: ProxyProcess;
let front: Envoy<'edge'> | undefined;

before(async () => {
	pki = await testPki();
	for (const server of [core, go]) {
		if (noPeer(server)) continue;
		const services = Object.values(WAYS)
			.flat()
			.map(({ service }) => service);
		const { ports } = open.use(await startServer(server, services, pki.server));
		clear.set(`${server.name}-clear`, ports.clear).set(`${server.name}-aging`, ports.aging);
		secure.set(`${server.name}-tls`, ports.tls);
	}
	await startBetween(clear.get('core-clear'));
	const health = { protocol: 'h2', health_grpc: true } as const;
	const named = (ports: Map<string, number>, more: object) =>
		[...ports].map(([name, port]) => ({ name, addresses: [`127.0.0.1:${port}`], ...health, ...more }));
	const upstreams = [...named(clear, {}), ...named(secure, { tls: { ca_path: pki.caPath } })];
	proxy = open.use(
		await startProxy({
			upstreams,
			routes: upstreams.map(({ name }) => ({ prefix: `/${name}.TestService`, upstream: name })),
			config: { tenant_rps: 0, health_interval_secs: 1 },
		}),
	);
	await firstVerdicts(proxy);
	if (noEnvoy) return;
	const { ca, cert, key } = edgeFiles({ base: '', protocol: 'h2', pki });
	front = open.use(await startEnvoy({ edge: { to: { port: proxy.port, protocol: 'h2', tls: { ca, cert, key } } } }));
});
after(() => open.disposeAsync());

/** Between the proxy and a server. */
async function startBetween(server: number | undefined): Promise<void> {
	if (server === undefined) return;
	if (!noNginx) {
		// A GOAWAY after a few calls.
		const config = `client_max_body_size 0; keepalive_requests 20; location / { grpc_pass grpc://127.0.0.1:${server}; }`;
		clear.set('core-nginx', open.use(await startNginx(config)).port);
	}
	if (!noEnvoy) {
		const to = { port: server, protocol: 'h2' } as const;
		const { ports } = open.use(await startEnvoy({ clear: { to }, tls: { identity: pki.server, to } }));
		clear.set('core-envoy', ports.clear);
		secure.set('core-envoy-tls', ports.tls);
	}
}

async function assertSeen(client: Peer, base: string, service: string, cases: readonly Case[]): Promise<void> {
	const seen = await callAs(client, { base, protocol: 'h2', pki }, service, cases);
	deepEqual(seen, wanted(cases));
	await until(async () => (await proxy.metric('proxy_requests_in_flight')) === 0, 'all calls to end');
}

for (const client of [core, go]) {
	for (const { service, skip } of [...WAYS.core, ...WAYS.go, ...WAYS.between]) {
		test(`${client.name} calls ${service}`, { skip: noPeer(client) || skip }, async () => {
			await assertSeen(client, `https://127.0.0.1:${proxy.port}`, service, CASES[BODY_MODE]);
		});
	}

	test(`${client.name} behind Envoy calls ${WAYS.go[0]!.service}`, {
		skip: noPeer(client) || noPeer(go) || noEnvoy,
	}, async () => {
		await assertSeen(client, `http://127.0.0.1:${front!.ports.edge}`, WAYS.go[0]!.service, CASES[BODY_MODE]);
	});

	for (const { service, skip } of WAYS.aging) {
		test(`${client.name} loses no call to ${service}, whose connections end by GOAWAY`, {
			skip: noPeer(client) || skip,
		}, async () => {
			await assertSeen(client, `https://127.0.0.1:${proxy.port}`, service, CASES.ends);
		});
	}
}
