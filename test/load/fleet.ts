/**
 * A fleet of proxies with one shared limit: a real redis-server, a TCP balancer that speaks the PROXY protocol, and tenants with uneven load
 * over HTTP/1.1 and HTTP/2. The store is killed, paused, filled, made read-only and flushed. Then the upstream's addresses are killed one
 * after the other, then a proxy. In a second fleet the store fails over to a replica. Prints what each kind of tenant got.
 *
 *   npm run fleet:load -- [--minutes 5] [--tenants 200] [--replicas 4] [--rps 10]
 *
 * Needs redis-server and haproxy. Exit code 1 if a tenant got more than promised in any 10 s, or tenants of one kind got less than 95 % of
 * their due on average. Also if a response was neither 200 nor 429, a request was lost before the proxy was killed, or a client was
 * mistaken for another one. On a busy machine single tenants may get less.
 */
import { parseArgs } from 'node:util';
import { byKind, type Counts, type FleetFigures } from './fleet-figures.ts';
import { type FleetPlan, REPLICA_KILLED, runFailover, runFleet } from './fleet-run.ts';
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
const plan: FleetPlan = {
	replicas: Number(values.replicas),
	tenants: Number(values.tenants),
	limit: { rps, burst: rps, replicas: Number(values.replicas) },
	// The rest takes two minutes.
	calmSeconds: Math.max(11, (Number(values.minutes) * 60 - 120) / 4),
	awaySeconds: 4,
	logsAll: false,
	say: (line) => console.log(`- ${line}`),
};

const percent = (part: number) => `${(part * 100).toFixed(2)} %`;
const faults: string[] = [];

function sumOf(counts: readonly Counts[], key: keyof Counts): number {
	return counts.reduce((sum, one) => sum + one[key], 0);
}

function report({ tenants, phases, withheld, answeredMs, errors }: FleetFigures, wasCalm: boolean): void {
	console.log(`99 of 100 answers came within ${Math.round(answeredMs)} ms while nothing happened`);
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
		table(
			['', 's', 'sent', '200', '429', 'other', 'lost', 'at their rate or below: sent', '429', ''],
			phases.map(({ what, fromMs, toMs, all, modest, codes }) => [
				...[what, ((toMs - fromMs) / 1000).toFixed(1)],
				...[all.sent, all.passed, all.refused, all.other, all.lost, modest.sent, modest.refused].map(String),
				`${percent(modest.refused / modest.sent)} ${all.lost > 0 ? JSON.stringify(codes) : ''}`,
			]),
		),
	);
	for (const {
		plan: { name },
		worst,
		most,
	} of tenants) {
		if (worst > most) faults.push(`${name} got ${worst} requests in 10 s, not ${most} at most`);
	}
	if (!wasCalm) console.log('the store seemed to be away while nothing happened to it: what tenants got says nothing');
	for (const { asks, average } of wasCalm ? kinds : []) {
		if (average < 0.95) faults.push(`those that ask for ${asks} got ${percent(average)} of their due`);
	}
	for (const { what, all } of phases) {
		if (all.other > 0) faults.push(`${what}: ${all.other} answers were neither 200 nor 429`);
		if (all.lost > 0 && what !== REPLICA_KILLED) faults.push(`${what}: ${all.lost} requests were lost`);
	}
	const promised = phases.filter(({ isPromised }) => isPromised).map(({ modest }) => modest);
	const [sent, refused] = [sumOf(promised, 'sent'), sumOf(promised, 'refused')];
	console.log(
		`while all replicas lived and nothing was wrong with the store: ${sent} requests of tenants at their rate or below it, ${refused} refused (${percent(refused / sent)})`,
	);
	if (wasCalm && refused > 0.05 * sent) faults.push('more than 5 % of what was asked for within the rate was refused');
	const misnamed = tenants.reduce((sum, one) => sum + one.misnamed, 0);
	if (misnamed > 0) faults.push(`${misnamed} clients were taken for others`);
	for (const line of errors.slice(0, 20)) faults.push(JSON.stringify(line));
	if (withheld > 0) faults.push(`${withheld} requests could not be sent`);
}

const { limited, revokedAfterMs, wasCalm, ...figures } = await runFleet(plan);
report(figures, wasCalm);
for (const [protocol, { passed, seconds }] of Object.entries(limited)) {
	console.log(`${protocol}: asked as fast as it could, ${passed} passed in ${seconds.toFixed(2)} s`);
}
for (const [protocol, ms] of Object.entries(revokedAfterMs)) {
	console.log(`${protocol}: revoked everywhere after ${Math.round(ms)} ms`);
}
report(await runFailover({ ...plan, calmSeconds: 11 }), true);
for (const fault of faults) console.log(`FAULT: ${fault}`);
process.exitCode = faults.length > 0 ? 1 : 0;
