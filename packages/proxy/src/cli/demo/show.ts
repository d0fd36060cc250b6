/**
 * The show: one request of each kind through the running proxy, each with its expected outcome.
 * Outcomes are data, so that `--once` can name the unexpected ones.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { askMetrics } from '../running/metrics-client.ts';
import { Act, type SampleUpstreams, type Stage } from './act.ts';
import { boundToken, grpcCalls, revocation, rotation, twoAddresses } from './acts.ts';
import type { Protocol } from './client.ts';
import type { ConfigTables, RouteEntry } from './config-file.ts';
import { TENANT_RPS, type Tenant } from './workspace.ts';

/** The routes at the start. */
export function initialRoutes({ a, b, grpc }: SampleUpstreams): RouteEntry[] {
	return [
		{ prefix: '/svc-a', upstream: `http://${a.authority}` },
		{ prefix: '/svc-b', upstream: `http://${b.authority}`, websocket: true },
		{ prefix: '/svc-c', upstream: 'svc-c' },
		{ prefix: '/demo.Greeter', upstream: `h2c://${grpc.authority}`, health_grpc: true },
	];
}

/** The upstreams behind their names. */
export function initialGroups({ c }: SampleUpstreams): ConfigTables['upstreams'] {
	return [{ name: 'svc-c', addresses: c.map(({ authority }) => authority) }];
}

/** Plays all acts in order, until the demo is ended. @returns the unexpected outcomes. */
export async function playShow(stage: Stage): Promise<string[]> {
	const failures: string[] = [];
	try {
		for (const play of [
			ordinaryRequests,
			refusals,
			grpcCalls,
			tenantLimit,
			outage,
			twoAddresses,
			reload,
			rotation,
			boundToken,
			revocation,
			metrics,
		]) {
			await play(new Act(stage, failures));
		}
	} catch (error) {
		failures.push(stage.ended.aborted ? String(stage.ended.reason) : (error as Error).message);
	}
	return failures;
}

/** Each protocol has its own tenant, because the tenants' limit is small. */
const PLAYERS = [
	{ protocol: 'http/1.1', tenant: 'tenant-a' },
	{ protocol: 'h2', tenant: 'tenant-b' },
] as const satisfies { protocol: Protocol; tenant: Tenant }[];

async function ordinaryRequests(act: Act): Promise<void> {
	act.stage.screen.heading('Two tenants, two routes, HTTP/1.1 and HTTP/2, all over mutual TLS');
	for (const { protocol, tenant } of PLAYERS) {
		for (const upstream of ['svc-a', 'svc-b']) {
			await act.expect({ protocol, path: `/${upstream}/hello`, tenant }, 200);
		}
	}
}

async function refusals(act: Act): Promise<void> {
	act.stage.screen.heading('Requests that are refused');
	await act.expectRefusedHandshake();
	for (const { protocol, tenant } of PLAYERS) {
		const token = act.stage.workspace.tokens[tenant];
		const path = '/svc-a/hello';
		await act.expect({ protocol, path, note: 'no token' }, 401);
		await act.expect({ protocol, path, token: tampered(token), note: 'bad signature' }, 401);
		await act.expect({ protocol, path: '/svc-a/%2e%2e/x', tenant }, 400);
		await act.expect({ protocol, path: '/nowhere', tenant }, 404);
	}
}

async function tenantLimit(act: Act): Promise<void> {
	act.stage.screen.heading(`The limit: ${TENANT_RPS} requests at once, then ${TENANT_RPS} a second, for each tenant`);
	// Earlier acts have drawn on the bucket; one second refills it completely.
	await sleep(1000, undefined, { signal: act.stage.ended });
	const burst = { protocol: 'h2', path: '/svc-a/burst', tenant: 'tenant-a' } as const;
	const responses = await Promise.all(Array.from({ length: 3 * TENANT_RPS }, () => act.send(burst)));
	const served = responses.filter(({ status }) => status === 200).length;
	const limited = responses.filter(({ status }) => status === 429).length;
	act.report(
		served > 0 && limited > 0,
		`${responses.length} at once as tenant-a`,
		`${served} x 200, ${limited} x 429 rate limited`,
	);
	await act.expect({ protocol: 'h2', path: '/svc-a/unharmed', tenant: 'tenant-b' }, 200);
}

async function outage(act: Act): Promise<void> {
	act.stage.screen.heading('An upstream fails, and recovers');
	const toA = { protocol: 'h2', path: '/svc-a/hello', tenant: 'tenant-a' } as const;
	act.stage.upstreams.a.fail();
	await act.expect({ ...toA, note: 'svc-a fails' }, 503);
	await act.expect({ protocol: 'h2', path: '/svc-b/hello', tenant: 'tenant-b', note: 'meanwhile' }, 200);
	act.stage.upstreams.a.heal();
	await act.expect({ ...toA, note: 'svc-a heals' }, 200);
}

async function reload(act: Act): Promise<void> {
	const { screen, workspace, proxy, upstreams } = act.stage;
	screen.heading('SIGUSR1 brings in a new route and a new server certificate');
	const request = { protocol: 'h2', path: '/new/hello', tenant: 'tenant-b' } as const;
	const before = await act.expect({ ...request, note: 'before' }, 404);
	await workspace.renewServerCertificate();
	const added = { prefix: '/new', upstream: `http://${upstreams.b.authority}` };
	workspace.writeConfig([...initialRoutes(upstreams), added], initialGroups(upstreams));
	await proxy.reload();
	const after = await act.expect({ ...request, note: 'after' }, 200);
	const [old, renewed] = [before?.serverSerial, after?.serverSerial];
	act.report(old !== renewed, 'the serial number of the server certificate', `${old} -> ${renewed}`);
}

/** Shows a few series that the earlier acts have changed. */
async function metrics(act: Act): Promise<void> {
	const { screen, proxy } = act.stage;
	screen.heading('What a scraper sees');
	const { status, body } = await askMetrics(
		{ host: '127.0.0.1', port: proxy.metricsPort },
		'/metrics',
		LIMIT_MS,
		MAX_PAGE,
	);
	act.report(status === 200, 'GET /metrics', `${status}, ${body.split('\n').length} lines, among them`);
	const shown =
		/^proxy_(?:requests_total|grpc_responses_total|auth_failures_total|ratelimited_total|tls_handshake_failures_total|circuit_state)\b.*$/gm;
	for (const [line] of body.matchAll(shown)) screen.text(`       ${line}`);
}

const LIMIT_MS = 10_000;
const MAX_PAGE = 1024 * 1024;

/** The same token with some wrong bits in the signature. */
function tampered(token: string): string {
	const at = token.lastIndexOf('.') + 1;
	return `${token.slice(0, at)}${token[at] === 'A' ? 'B' : 'A'}${token.slice(at + 1)}`;
}
