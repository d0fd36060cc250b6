/**
 * Victims send at a steady rate while attackers do their worst. Measures what that does to the victims' latency, and which memory and
 * descriptors are left afterwards.
 *
 *   npm run attack -- [--seconds 4] [--rounds 3] [--only REGEX] [--mode collected|streaming] [--think 5] [--allowed 2]
 *                     [--certificate own|victims] [--table]
 *
 * Attackers have their own certificate, or the victims' with `--certificate victims`. Floods have no rate and run with 1, 4, 16
 * and 64 connections (`--only '× 16$'`): `floods.ts`, `tunnel-floods.ts` through WebSockets, `grpc-floods.ts` with gRPC calls and trailers.
 * A flooding upstream (`hostile-upstream.ts`) is called at a fixed rate. `--table` runs all of `floods.ts` and prints Markdown. Its windows
 * take 1.4 s unless `--seconds` says otherwise, all of it about 18 minutes.
 *
 * The victims' upstream takes `--think` ms for each response, as fast services do. With 0 a calm window has only half a millisecond of proxy
 * and loopback, and twice that means little.
 *
 * The proxy has one worker. On two cores with `taskset`, the proxy has one core for itself. Clients and upstream share the other, with the
 * attackers at a lower priority. So the victims' figures show the proxy. Each line also has the time that the machine took away.
 * A round runs every attack; attacks of one kind share a calm window before them. Each figure is the median over the rounds, so that a
 * slow moment of the machine affects one round only. The ratio is to the median of all calm windows. After each attack the
 * victims must be well again before the next one begins.
 * Exit code 1 if a victim is not served, the p99 rises more than `--allowed` times, or something is left behind.
 */
import { parseArgs } from 'node:util';
import { until } from '../fixtures/wait.ts';
import { FLOODS, RATED } from './attack-list.ts';
import { BUDGET_BYTES, type Seen, Stage, VICTIMS_PER_SECOND } from './attack-stage.ts';
import type { Window } from './attack-victims.ts';
import type { Attack } from './attacks.ts';
import { FLOOD_SIZES, UNCAPPED } from './floods.ts';
import { complaints, processLeft } from './leftovers.ts';
import { table } from './table.ts';

const { values } = parseArgs({
	options: {
		seconds: { type: 'string' },
		rounds: { type: 'string', default: '3' },
		only: { type: 'string', default: '' },
		mode: { type: 'string', default: 'collected' },
		think: { type: 'string', default: '5' },
		allowed: { type: 'string', default: '2' },
		certificate: { type: 'string', default: 'own' },
		table: { type: 'boolean', default: false },
	},
});
const windowMs = Number(values.seconds ?? (values.table ? 1.4 : 4)) * 1000;

/** Allowance for what attackers hold besides bodies: sockets, streams, handshakes. */
const OVERHEAD_BYTES = 128 * 2 ** 20;
/** Allowance for what the allocator and the heap keep for later. */
const REMNANT_BYTES = 48 * 2 ** 20;
const LIVE_SLACK_BYTES = 16 * 2 ** 20;
/** The number of the victims' upstream connections varies from moment to moment. */
const DESCRIPTOR_SLACK = 8;

/** Attacks that differ only in their number of connections. */
interface Kind {
	readonly name: string;
	/** Before its attacks, in each round. */
	readonly calm: Window[];
	readonly trials: readonly Trial[];
}

interface Trial {
	readonly attack: Attack;
	/** In each round. */
	readonly seen: Seen[];
	lost: number;
}

const problems: string[] = [];
const begun = performance.now();
const attacks = values.table ? UNCAPPED : [...RATED, ...FLOODS];
const wanted = attacks.filter(({ name }) => new RegExp(values.only).test(name));
const byKind = Map.groupBy(wanted, ({ name }) => name.replace(/ × \d+$/, ''));
const kinds = Array.from(byKind, ([name, attacks]): Kind => {
	return { name, calm: [], trials: attacks.map((attack) => ({ attack, seen: [], lost: 0 })) };
});
const stage = await Stage.start({
	mode: values.mode as 'collected' | 'streaming',
	thinkMs: Number(values.think),
	certificate: values.certificate as 'own' | 'victims',
});
console.log(
	`${values.mode}, 1 worker, ${stage.cores}; ${VICTIMS_PER_SECOND} victims' requests/s over h1 and h2, ` +
		`answered in ${values.think} ms, ${values.rounds} rounds of ${windowMs / 1000} s`,
);
// A first round without checks: what heap and pools grow to once, they keep. That is no leak.
for (const { trials } of kinds) await stage.attackFor(trials.at(-1)!.attack, 500);
const start = await stage.lookInside();
// Garbage collection also discards compiled code.
await stage.measure(2000);
for (let round = 1; round <= Number(values.rounds); round++) {
	for (const kind of kinds) await inTurn(kind);
}
for (const kind of kinds) for (const trial of kind.trials) judge(trial);
await leftAlone();
problems.push(...complaints(stage.proxy));
await stage.close();
report();
if (problems.length > 0) process.exitCode = 1;

async function inTurn({ name, calm, trials }: Kind): Promise<void> {
	const before = await stage.measure(windowMs);
	calm.push(before);
	if (before.failed > 0) problems.push(`before ${name}: ${before.failures.join('; ')}`);
	for (const trial of trials) {
		const { attack, seen } = trial;
		try {
			const now = await stage.attackFor(attack, windowMs);
			seen.push(now);
			trial.lost += now.window.failed + (await stage.wellAgain(before));
			for (const failure of now.window.failures) problems.push(`${attack.name}: ${failure}`);
			// A run takes long. Rounds that differ show how noisy the machine is.
			const { p99, longest } = now.window;
			console.error(
				`${attack.name}: p99 ${p99.toFixed(1)} ms, longest ${longest.toFixed(1)} ms; ` +
					`calm ${before.p99.toFixed(1)} ms, ${before.longest.toFixed(1)} ms; ${now.cpu.toFixed(2)} cores; ${absences(now)}; ${gotBy(now)}`,
			);
		} catch (error) {
			problems.push(`${attack.name}: ${(error as Error).message}`);
		}
	}
}

function judge({ attack: { name }, seen, lost }: Trial): void {
	if (lost > 0) problems.push(`${name}: ${lost} victims were not served`);
	const ratio = ratioOf(seen);
	if (!(ratio <= Number(values.allowed))) problems.push(`${name}: the victims' p99 rose by ${ratio.toFixed(2)} times`);
	const peak = Math.max(...seen.map(({ peak }) => peak));
	if (peak > start.memory + BUDGET_BYTES + OVERHEAD_BYTES) problems.push(`${name}: ${mebibytes(peak)} MiB of memory`);
	if (seen.some(({ got }) => got['KiB sent'] === 0)) problems.push(`${name}: nothing was sent`);
}

/** Memory and descriptors that attacks took must be released. */
async function leftAlone(): Promise<void> {
	const refused = await stage.postBodies();
	if (refused.length > 0) problems.push(`afterwards bodies of 8 MiB got ${refused}`);
	// Idle upstream connections close after four seconds.
	const back = () => processLeft(stage.proxy).descriptors <= start.descriptors + DESCRIPTOR_SLACK;
	await until(back, 'the descriptors to come back', 15_000).catch(() =>
		problems.push('descriptors have not come back'),
	);
	const end = await stage.lookInside();
	console.log(
		`resident memory ${mebibytes(start.memory)} MiB before, ${mebibytes(end.memory)} MiB after; ` +
			`heap and buffers in use ${mebibytes(start.live)} MiB before, ${mebibytes(end.live)} MiB after; ` +
			`descriptors ${start.descriptors} before, ${end.descriptors} after`,
	);
	if (end.memory > start.memory + REMNANT_BYTES) problems.push('memory has not come back');
	if (end.live > start.live + LIVE_SLACK_BYTES) problems.push('memory is still in use');
}

function report(): void {
	if (values.table) console.log(markdown());
	else {
		const figures = ['calm p50', 'p99, ms', 'attacked p50', 'p99, ms', 'ratio', 'cores', 'lost', 'peak MiB'];
		const rows = kinds.flatMap(({ calm, trials }) => trials.map((trial) => rowOf(calm, trial)));
		console.log(table(['attack', 'rate', ...figures, 'attackers got'], rows));
	}
	for (const problem of problems) console.log(`BREACH: ${problem}`);
	const minutes = ((performance.now() - begun) / 60_000).toFixed(1);
	console.log(`${problems.length === 0 ? 'no breach' : `${problems.length} breaches`}, ${minutes} min`);
}

function rowOf(calm: readonly Window[], { attack, seen, lost }: Trial): (string | number)[] {
	const figures = [
		...[calm, seen.map(({ window }) => window)].flatMap((windows) => [median(windows, p50), median(windows, p99)]),
		ratioOf(seen),
		median(seen, ({ cpu }) => cpu),
	];
	const peak = Math.max(...seen.map(({ peak }) => peak));
	const { name, rate } = attack;
	const got = seen.length === 0 ? '' : gotBy(seen.at(-1)!);
	return [name, rate, ...figures.map((figure) => figure.toFixed(2)), lost, mebibytes(peak), got];
}

/** Delays that the machine caused, as text: victims that wait 100 ms while the hypervisor took 100 ms waited for the machine. */
function absences({ stolen, waited: { proxy, victims, upstream } }: Seen): string {
	const waits = [`proxy ${proxy.toFixed(0)}`, `victims ${victims.toFixed(0)}`, `upstream ${upstream.toFixed(0)}`];
	return `stolen ${stolen} ms, without a core: ${waits.join(', ')} ms`;
}

/** What the attackers received, as text. */
function gotBy({ got }: Seen): string {
	return Object.entries(got)
		.map(([what, count]) => `${what} ${count}`)
		.join(', ');
}

/** One row per flood: its ratio by number of connections, and its failures. */
function markdown(): string {
	const rows = kinds.map(({ name, trials }) => [
		name,
		...trials.map(({ seen }) => ratioOf(seen).toFixed(2)),
		trials.reduce((sum, { lost }) => sum + lost, 0),
	]);
	const head = ['Flood', ...FLOOD_SIZES.map((size) => `× ${size}`), 'lost'];
	return [head, head.map(() => '---'), ...rows]
		.map((row) => `| ${row.join(' | ')} |`)
		.concat('', `Victims' p99 as a multiple of calm (${calmP99().toFixed(1)} ms).`)
		.join('\n');
}

function ratioOf(seen: readonly Seen[]): number {
	return median(seen, ({ window }) => window.p99) / calmP99();
}

/** Median over all calm windows of the run. */
function calmP99(): number {
	return median(
		kinds.flatMap(({ calm }) => calm),
		p99,
	);
}

function p50({ p50 }: Window): number {
	return p50;
}

function p99({ p99 }: Window): number {
	return p99;
}

function median<T>(of: readonly T[], figure: (one: T) => number): number {
	return of.map(figure).sort((a, b) => a - b)[of.length >> 1] ?? Number.NaN;
}

function mebibytes(bytes: number): number {
	return Math.round(bytes / 2 ** 20);
}
