/**
 * Victims at a steady rate, while attackers do their worst at a stated rate: what that does to the victims' latency, and what
 * is left of it afterwards in memory and descriptors.
 *
 *   npm run attack -- [--seconds 4] [--rounds 3] [--only REGEX] [--mode collected|streaming] [--think 5] [--allowed 2]
 *     [--certificate own|victims]
 *
 * Attackers have a certificate of their own, or with `--certificate victims` that of the victims. Floods (`floods.ts`) have no
 * rate, and come with 1, 4, 16 and 64 connections: `--only '× 16$'`.
 *
 * The victims' upstream takes `--think` ms for each answer, as quick ones do. With 0 there is nothing left in a calm
 * moment but half a millisecond of the proxy and the loopback interface, and its double says little to anybody.
 *
 * The proxy has one worker. Where there are two cores and `taskset`, the proxy has one of them to itself and clients and
 * upstream share the other one, the attackers at the lowest priority: victims' figures are the proxy's doing. Calm and
 * attack take turns, and each figure is the median over the rounds, so that a slow moment of the machine meets both.
 * Exit code 1 when a victim is not served, when the p99 rises by more than `--allowed` times, or when something is left.
 */
import { execFileSync, fork } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { availableParallelism, setPriority } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { INSPECTABLE, WorkerInspector } from '../fixtures/inspect-workers.ts';
import { type ClientCert, temporaryFolder, testPki } from '../fixtures/pki.ts';
import { type ProxyProcess, startProxy } from '../fixtures/proxy.ts';
import { until, within } from '../fixtures/wait.ts';
import type { AttackOrder } from './attack-attackers.ts';
import type { Identity } from './attack-identity.ts';
import type { VictimsOrder, Window } from './attack-victims.ts';
import { ATTACKS, type Attack } from './attacks.ts';
import { UNCAPPED } from './floods.ts';
import { complaints, GIVES_MEMORY_BACK, type ProcessLeft, processLeft } from './leftovers.ts';
import { table } from './table.ts';

const { values } = parseArgs({
	options: {
		seconds: { type: 'string', default: '4' },
		rounds: { type: 'string', default: '3' },
		only: { type: 'string', default: '' },
		mode: { type: 'string', default: 'collected' },
		think: { type: 'string', default: '5' },
		allowed: { type: 'string', default: '2' },
		certificate: { type: 'string', default: 'own' },
	},
});
const windowMs = Number(values.seconds) * 1000;

const VICTIMS_PER_SECOND = 300;
/** What `attack-victims.ts` holds. */
const VICTIM_CONNECTIONS = 20;
/** `max_buffered_bytes`: fewer than the attackers hold up, so that it is put to the test. */
const BUDGET_BYTES = 128 * 2 ** 20;
/** For what attackers hold that is no body: sockets, streams, handshakes. */
const OVERHEAD_BYTES = 128 * 2 ** 20;
/** What the allocator and the heap may keep for the next time. */
const REMNANT_BYTES = 48 * 2 ** 20;
const LIVE_SLACK_BYTES = 16 * 2 ** 20;
/** The victims' upstream connections are more or fewer from one moment to the next. */
const DESCRIPTOR_SLACK = 8;
/** An attack has to get going before it is measured, ms. */
const RAMP_MS = 1500;

const problems: string[] = [];
const upstream = createServer((request, response) => {
	setTimeout(() => response.end(request.url), Number(values.think));
});
await new Promise<void>((resolve) => upstream.listen(0, '127.0.0.1', resolve));
const victims = fork(join(import.meta.dirname, 'attack-victims.ts'));
const attackers = fork(join(import.meta.dirname, 'attack-attackers.ts'));
await using proxy = await startProxy({
	workers: 1,
	boxedBody: values.mode === 'streaming',
	routes: [
		{ prefix: '/victim', upstream: `http://127.0.0.1:${(upstream.address() as AddressInfo).port}` },
		{ prefix: '/', upstream: `http://127.0.0.1:${await ask<number>(attackers, { serve: true })}` },
	],
	config: { tenant_rps: 0, health_interval_secs: 1 },
	limits: { max_buffered_bytes: BUDGET_BYTES },
	env: { ...INSPECTABLE, ...GIVES_MEMORY_BACK },
});
const inspector = await WorkerInspector.attach(proxy, 1);
const pinned = separateCores(proxy);
const pki = await testPki();
const victimsIdentity = createIdentity(proxy, pki.clients.valid);
const identity = values.certificate === 'own' ? createIdentity(proxy, await pki.issueClient()) : victimsIdentity;
const urgent = favour([proxy.pid, process.pid, victims.pid!], attackers.pid!);
await ask<Window>(victims, { start: victimsIdentity, perSecond: VICTIMS_PER_SECOND });
// Code that is still being compiled is nobody's usual latency.
await measure(5000);

console.log(
	`${values.mode}, 1 worker, ${pinned}${urgent}; ${VICTIMS_PER_SECOND} victims' requests/s over h1 and h2, ` +
		`answered in ${values.think} ms, ${values.rounds} rounds of ${values.seconds} s`,
);
const attacks = [...ATTACKS, ...UNCAPPED].filter(({ name }) => new RegExp(values.only).test(name));
// Once without looking: what heap and pools grow to the first time, they keep, and it is no leak.
for (const { name } of attacks) await attackFor(2000, name);
const start = await lookInside();
const rows = [];
for (const attack of attacks) rows.push(await underAttack(attack));
console.log(
	table(
		['attack', 'rate', 'calm p50', 'p99, ms', 'attacked p50', 'p99, ms', 'ratio', 'lost', 'peak MiB', 'attackers got'],
		rows,
	),
);

await leftAlone();
inspector[Symbol.dispose]();
victims.disconnect();
attackers.disconnect();
upstream.close();
upstream.closeAllConnections();
problems.push(...complaints(proxy));
for (const problem of problems) console.log(`BREACH: ${problem}`);
console.log(problems.length === 0 ? 'no breach' : `${problems.length} breaches`);
if (problems.length > 0) process.exitCode = 1;
await proxy.kill();

async function underAttack({ name, rate }: Attack): Promise<(string | number)[]> {
	const calm: Window[] = [];
	const attacked: Window[] = [];
	let peak = 0;
	let seen = {};
	const watch = setInterval(() => {
		peak = Math.max(peak, processLeft(proxy).memory);
	}, 50);
	for (let round = 0; round < Number(values.rounds); round++) {
		calm.push(await measure(windowMs));
		seen = await attackFor(windowMs, name, attacked);
	}
	clearInterval(watch);
	let lost = 0;
	for (const { failed, failures } of [...calm, ...attacked]) {
		lost += failed;
		if (failed > 0) problems.push(`${name}: ${failed} victims were not served: ${failures.join('; ')}`);
	}
	const ratio = median(attacked, 'p99') / median(calm, 'p99');
	if (ratio > Number(values.allowed)) problems.push(`${name}: the victims' p99 rose by ${ratio.toFixed(2)} times`);
	if (peak > start.memory + BUDGET_BYTES + OVERHEAD_BYTES) problems.push(`${name}: ${mebibytes(peak)} MiB of memory`);
	const figures = [median(calm, 'p50'), median(calm, 'p99'), median(attacked, 'p50'), median(attacked, 'p99'), ratio];
	const got = Object.entries(seen).map(([what, count]) => `${what} ${count}`);
	const row = [name, rate, ...figures.map((figure) => figure.toFixed(2)), lost, mebibytes(peak), got.join(', ')];
	// A run takes long: what is known so far is worth seeing.
	console.log(row.join(' | '));
	return row;
}

/** Everything that the attacks have taken must come back. */
async function leftAlone(): Promise<void> {
	const calm = await measure(windowMs);
	if (calm.failed > 0) problems.push(`afterwards ${calm.failed} victims were not served: ${calm.failures.join('; ')}`);
	await connectionsGone();
	await bodiesPass();
	// Idle connections to the upstream go after four seconds.
	const back = () => processLeft(proxy).descriptors <= start.descriptors + DESCRIPTOR_SLACK;
	await until(back, 'the descriptors to come back', 15_000).catch(() =>
		problems.push('descriptors have not come back'),
	);
	const end = await lookInside();
	console.log(
		`resident memory ${mebibytes(start.memory)} MiB before, ${mebibytes(end.memory)} MiB after; ` +
			`heap and buffers in use ${mebibytes(start.live)} MiB before, ${mebibytes(end.live)} MiB after; ` +
			`descriptors ${start.descriptors} before, ${end.descriptors} after`,
	);
	if (end.memory > start.memory + REMNANT_BYTES) problems.push('memory has not come back');
	if (end.live > start.live + LIVE_SLACK_BYTES) problems.push('memory is still in use');
}

/** @returns what the attackers got. */
async function attackFor(ms: number, name: string, into: Window[] = []): Promise<Record<string, number>> {
	attackers.send({ attack: name, identity } satisfies AttackOrder);
	await sleep(RAMP_MS);
	into.push(await measure(ms));
	const seen = await ask<Record<string, number>>(attackers, { stop: true });
	await connectionsGone();
	return seen;
}

/** What the process holds, after its worker has collected its garbage. */
async function lookInside(): Promise<ProcessLeft & { readonly live: number }> {
	const file = join(temporaryFolder('attack'), 'memory.json');
	inspector.run(0, memoryTo(file));
	const text = await until(
		() => (existsSync(file) ? readFileSync(file, 'utf8') : ''),
		'the worker to look at its memory',
	);
	const { heapUsed, arrayBuffers } = JSON.parse(text);
	return { ...processLeft(proxy), live: heapUsed + arrayBuffers };
}

/** Run in the worker. The file appears whole. */
function memoryTo(file: string): string {
	return `
		process.getBuiltinModule('node:v8').setFlagsFromString('--expose-gc');
		const collect = process.getBuiltinModule('node:vm').runInNewContext('gc');
		collect();
		collect();
		const { writeFileSync, renameSync } = process.getBuiltinModule('node:fs');
		writeFileSync(${JSON.stringify(`${file}.part`)}, JSON.stringify(process.memoryUsage()));
		renameSync(${JSON.stringify(`${file}.part`)}, ${JSON.stringify(file)});`;
}

/** The budget for bodies can be had again: as many bodies as fit in it, at once, of as many tenants. */
async function bodiesPass(): Promise<void> {
	const { h1Request } = await import('../fixtures/clients.ts');
	const body = Buffer.alloc(8 * 2 ** 20);
	const { token } = await testPki();
	const post = (tenant: string) =>
		h1Request(proxy, { method: 'POST', path: '/whole', token: token(tenant), body, ms: 30_000 });
	const answers = await Promise.all(Array.from({ length: 8 }, (_, i) => post(`tenant-${i}`)));
	const refused = answers.filter(({ status }) => status !== 200);
	if (refused.length > 0) problems.push(`afterwards ${refused.length} of 8 bodies of 8 MiB got ${refused[0]!.status}`);
}

/** Only the victims' connections are left. */
async function connectionsGone(): Promise<void> {
	const gone = async () => (await proxy.metric('proxy_connections')) <= VICTIM_CONNECTIONS;
	await until(gone, "the attackers' connections to go", 40_000).catch((error) => problems.push(error.message));
}

function measure(ms: number): Promise<Window> {
	return ask<Window>(victims, { window: ms });
}

function ask<T>(child: ReturnType<typeof fork>, order: VictimsOrder | AttackOrder): Promise<T> {
	const answer = new Promise<T>((resolve) => child.once('message', (message) => resolve(message as T)));
	child.send(order);
	return within(answer, `an answer to ${JSON.stringify(order).slice(0, 40)}`, 60_000);
}

/** @returns who runs where, in words. */
function separateCores({ pid }: ProxyProcess): string {
	if (availableParallelism() < 2) return 'all on one core';
	try {
		const pin = (core: string, process: number) => execFileSync('taskset', ['-a', '-c', '-p', core, String(process)]);
		pin('0', pid);
		pin('1', process.pid);
		return 'on a core of its own, clients and upstream on another';
	} catch {
		return 'cores shared as it comes';
	}
}

/**
 * Puts what is measured before all neighbours on this machine, the attackers right behind it. Only root may do that.
 *
 * @returns whether it could, in words.
 */
function favour(measured: readonly number[], attackers: number): string {
	const realTime = (priority: number, pid: number) =>
		execFileSync('chrt', ['--all-tasks', '--rr', '--pid', String(priority), String(pid)], { stdio: 'ignore' });
	try {
		for (const pid of measured) realTime(2, pid);
		realTime(1, attackers);
		return ', before all neighbours';
	} catch {
		setPriority(attackers, 10);
		return '';
	}
}

function createIdentity({ port }: ProxyProcess, { certPem, keyPem }: ClientCert): Identity {
	const tokens = Array.from({ length: 50 }, (_, i) => pki.token(`tenant-${i}`));
	return { port, caPem: pki.ca.certPem, certPem, keyPem, tokens };
}

function median(windows: readonly Window[], figure: 'p50' | 'p99'): number {
	return windows.map((window) => window[figure]).toSorted((a, b) => a - b)[windows.length >> 1]!;
}

function mebibytes(bytes: number): number {
	return Math.round(bytes / 2 ** 20);
}
