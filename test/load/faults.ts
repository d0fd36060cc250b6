/**
 * The proxy before bad upstreams: every kind of fault, over HTTP/1.1 and HTTP/2 on both sides, with each framing, in both body modes.
 * Checks of each request: it gets its own response, complete or not at all. It is delivered once, or twice if it may be retried. Its body
 * and its tenant arrive unchanged. Then whole HTTP/2 upstreams fail (`fault-scenes.ts`), and clients cancel `--cancelled` calls.
 *
 *   npm run faults -- [--requests 100000] [--seed 1] [--mode collected|streaming] [--kind NAME] [--upstreams h1|h2]
 *                     [--cancelled 20000]
 *   npm run streams   the same with HTTP/2 upstreams only, where requests of all tenants share connections
 *
 * `--requests` is the sum over both modes of requests that reached the upstream and had their fault played; with 0 only the scenes run.
 * The same seed gives the same requests and faults; it does not decide how they meet in time. Exit code 1 for any breach.
 */
import { parseArgs } from 'node:util';
import type { BodyMode } from '../fixtures/proxy.ts';
import { FAULT_KINDS } from './fault-kinds.ts';
import { FaultRun } from './fault-run.ts';
import { playScenes, type Scene } from './fault-scenes.ts';
import { type Ledger, OUTCOMES } from './ledger.ts';
import { faultsLeft, processLeft } from './leftovers.ts';
import { table } from './table.ts';

const { values } = parseArgs({
	options: {
		requests: { type: 'string', default: '100000' },
		seed: { type: 'string', default: '1' },
		mode: { type: 'string' },
		kind: { type: 'string' },
		upstreams: { type: 'string' },
		cancelled: { type: 'string', default: '20000' },
	},
});
const kinds = FAULT_KINDS.filter(({ name, upstream }) => {
	return (
		(values.kind === undefined || name.includes(values.kind)) &&
		[undefined, upstream].includes(values.upstreams as 'h1')
	);
});
if (kinds.length === 0) throw new Error(`no kind of fault has '${values.kind}' in its name, with these --upstreams`);
const modes = (['collected', 'streaming'] as const).filter((mode) => values.mode === undefined || mode === values.mode);

let breaches = 0;
let total = 0;
for (const mode of modes) {
	const requests = Math.ceil(Number(values.requests) / modes.length);
	if (requests > 0) await playKinds(mode, requests);
	if (values.kind !== undefined || values.upstreams === 'h1') continue;
	const scenes = await playScenes({ mode, cancelled: Number(values.cancelled) });
	console.log(table(['what happens to a whole upstream', 'what clients got', 'innocent, whole'], scenes.map(rowOf)));
	for (const { name, breaches } of scenes) for (const breach of breaches) console.log(`BREACH: ${name}: ${breach}`);
	breaches += scenes.reduce((sum, { breaches }) => sum + breaches.length, 0);
}
console.log(`\n${total} requests with a fault or an answer of the upstream, ${breaches} breaches; seed ${values.seed}`);
if (breaches > 0) process.exitCode = 1;

async function playKinds(mode: BodyMode, requests: number): Promise<void> {
	const { ledger, talks, leftovers, seconds } = await runMode(mode, requests);
	print(mode, ledger, seconds);
	const ends = [...talks.counts].sort().map(([name, count]) => `${name} ${count}`);
	console.log(`WebSockets and gRPC streams: ${talks.messages} messages compared; ${ends.join('; ')}`);
	for (const violation of [...ledger.violations, ...leftovers]) console.log(`BREACH: ${violation}`);
	breaches += ledger.violationCount + leftovers.length;
	total += ledger.played;
}

function rowOf({ name, seen, innocent }: Scene): [string, string, number] {
	return [name, [...seen].map(([what, count]) => `${what} ${count}`).join(', '), innocent];
}

async function runMode(mode: BodyMode, requests: number) {
	await using run = await FaultRun.start({ mode, seed: Number(values.seed), kinds, talkers: 4 });
	const { ledger } = run;
	const before = processLeft(run.proxy);
	const startedAt = performance.now();
	const progress = setInterval(() => {
		if (process.stderr.isTTY) process.stderr.write(`\r${mode}: ${ledger.played} of ${requests} `);
	}, 500);
	await run.send(() => ledger.played >= requests || ledger.violationCount > 1000);
	clearInterval(progress);
	if (process.stderr.isTTY) process.stderr.write('\r\x1b[K');
	const seconds = (performance.now() - startedAt) / 1000;
	await run.closeClients();
	const leftovers = await faultsLeft(run, before);
	return { ledger, talks: run.talks, leftovers, seconds };
}

function print(mode: BodyMode, ledger: Ledger, seconds: number): void {
	console.log(
		`\n${mode}: ${ledger.requests} requests in ${seconds.toFixed(1)} s, ${ledger.played} of them got to the upstream`,
	);
	const rows = kinds.map(({ name }) => {
		const counts = ledger.counts.get(name) ?? new Map();
		const sum = [...counts.values()].reduce((a: number, b: number) => a + b, 0);
		return [name, sum, ...OUTCOMES.map((outcome) => counts.get(outcome) ?? 0)];
	});
	console.log(table(['what the upstream does', 'tried', ...OUTCOMES], rows));
	const crosses = [...ledger.crosses].sort().map(([name, count]) => `${name} ${count}`);
	console.log(`by client and framing of the answer: ${crosses.join(', ')}`);
	console.log(
		`bytes of bodies with the right checksum: ${ledger.checkedBytes}; requests sent to the upstream again: ${ledger.retries}`,
	);
}
