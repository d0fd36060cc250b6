/**
 * A fleet of proxies with one limit over all of them: a real redis-server, a TCP balancer, tenants at uneven load, and a store that is
 * killed, paused, full, read-only and flushed; at the end a proxy is killed. It prints what each kind of tenant got.
 *
 *   npm run fleet:load -- [--minutes 5] [--tenants 200] [--replicas 4] [--rps 10]
 *
 * Needs redis-server and haproxy. Exit code 1 where a tenant got more in any 10 s than was promised, or tenants of
 * one kind less than 95 % of what was due to them on average. On a busy machine single tenants may get less.
 */
import { parseArgs } from 'node:util';
import { byKind, runFleet } from './fleet-run.ts';
import { table } from './table.ts';

const { values } = parseArgs({
	options: {
		minutes: { type: 'string', default: '5' },
		tenants: { type: 'string', default: '200' },
		replicas: { type: 'string', default: '4' },
		rps: { type: 'string', default: '10' },
	},
});

const rps = Number(values.rps);
const { tenants, wasCalm, requests, lost, others, revokedAfterMs } = await runFleet({
	replicas: Number(values.replicas),
	tenants: Number(values.tenants),
	limit: { rps, burst: rps },
	calmSeconds: Math.max(11, (Number(values.minutes) * 60 - 60) / 2),
	awaySeconds: 8,
	say: (line) => console.log(line),
});

const percent = (part: number) => `${(part * 100).toFixed(1)} %`;
const kinds = byKind(tenants);
console.log(
	table(
		['each asks for', 'tenants', 'most in 10 s', 'allowed', 'least part of its due', 'on average'],
		kinds.map(({ asks, tenants: count, worst, most, least, average }) => [
			...[asks, String(count), String(worst), String(most), percent(least), percent(average)],
		]),
	),
);
console.log(
	`${requests} requests; lost before the replica was killed: ${JSON.stringify(lost)}; other answers: ${others.length}`,
);
console.log(`revoked everywhere after ${revokedAfterMs.map((ms) => `${Math.round(ms)} ms`).join(', ')}`);
const over = tenants.filter(({ worst, most }) => worst > most);
const under = wasCalm ? kinds.filter(({ average }) => average < 0.95) : [];
for (const one of [...over, ...under]) console.log(JSON.stringify(one));
if (!wasCalm) console.log('the store seemed to be away while nothing happened to it: what tenants got says nothing');
process.exitCode = over.length + under.length + others.length > 0 ? 1 : 0;
