import { setTimeout as sleep } from 'node:timers/promises';
import { writeFileSync } from 'node:fs';
import { startFleet } from '../fixtures/fleet.ts';
import { testPki } from '../fixtures/pki.ts';
import { PROTOCOLS } from '../fixtures/clients.ts';
import { startRedis } from '../fixtures/redis-server.ts';
import { until } from '../fixtures/wait.ts';
import { TenantClients } from './fleet-tenants.ts';
import { FleetUpstreams } from './fleet-upstreams.ts';
const KINDS = [ [1,4],[1,1],[0.5,3],[3,8],[0.9,2],[0.1,1] ];
const rps = 10, N = Number(process.argv[2] ?? 200), secs = Number(process.argv[3] ?? 20);
await using open = new AsyncDisposableStack();
const pki = await testPki();
const redis = open.use(await startRedis());
const ups = open.use(await FleetUpstreams.start(3));
const fleet = open.use(await startFleet({ replicas: 4, config: { tenant_rps: rps, health_interval_secs: 0.5, health_timeout_secs: 5 },
 upstreams: [{ name: 'echo', addresses: ups.addresses }], routes: [{ prefix: '/', upstream: 'echo' }],
 limiter: { store: redis.url + '/0', replicas: 4, revocations: true, timeout_secs: 0.5 }, log: { access: 'all' } }));
await until(async () => (await Promise.all(fleet.living.map((p) => p.metric('proxy_limiter_replicas')))).every((c) => c === 4), 'x');
const clients = Array.from({ length: N }, (_, i) => new TenantClients({ name: `tenant-${i}`, asksRps: rps * KINDS[i % 6]![0]!, connections: KINDS[i % 6]![1]!, protocol: PROTOCOLS[Math.floor(i / 6) % 2]!, address: `127.1.${Math.floor(i / 250)}.${1 + i % 250}` }, fleet.port, pki));
for (const [i, c] of clients.entries()) c.start((i * 0.618) % 1);
await sleep(2000);
const from = performance.now();
await sleep(secs * 1000);
const to = performance.now();
await Promise.all(clients.map((c) => c.stop()));
const out = clients.map((c) => ({ plan: c.plan, asked: c.asked.filter((a) => a.sentMs >= from && a.sentMs < to).map((a) => [Math.round((a.sentMs - from) * 10) / 10, Math.round((a.endMs - a.sentMs) * 10) / 10, a.status]) }));
const logs = fleet.proxies.map((p) => p.logs.filter((l) => l.target !== 'proxy::access' || l.status === 429 || true).map((l) => l.target === 'proxy::access' ? [l.timestamp, l.tenant, l.status, l.duration_ms, l.protocol] : l));
writeFileSync('/tmp/w/fleet-x/trace.json', JSON.stringify({ out, logs, origin: performance.timeOrigin + from }));
const kinds = new Map();
for (const { plan, asked } of out) { const k = `${plan.asksRps} ${plan.connections} ${plan.protocol}`; const v = kinds.get(k) ?? { n: 0, r: 0 }; v.n += asked.length; v.r += asked.filter((a) => a[2] === 429).length; kinds.set(k, v); }
for (const [k, v] of kinds) console.log(k, v.n, v.r, (v.r / v.n * 100).toFixed(2) + ' %');
for (const p of fleet.living) { const s = (await p.metrics()).get('proxy_limiter_store_calls_total')!.samples; console.log(JSON.stringify(s.map((x) => [x.labels, x.value]))); }
