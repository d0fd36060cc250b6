/**
 * Victims at a steady rate, while attackers do their worst: what that does to the victims' latency, and what is left of it afterwards
 * in memory and descriptors.
 *
 *   npm run attack -- [--seconds 4] [--rounds 3] [--only REGEX] [--mode collected|streaming] [--think 5] [--allowed 2]
 *     [--certificate own|victims] [--table]
 *
 * Attackers have a certificate of their own, or with `--certificate victims` that of the victims. Floods (`floods.ts`) have no
 * rate, and come with 1, 4, 16 and 64 connections: `--only '× 16$'`. So do those through WebSockets (`tunnel-floods.ts`), and those of gRPC calls and trailers (`grpc-floods.ts`). An upstream
 * that floods (`hostile-upstream.ts`) is asked at a rate. `--table` runs all of `floods.ts`, with windows of 1.4 s where `--seconds` does
 * not say otherwise, and prints Markdown; that takes about 18 minutes.
 *
 * The victims' upstream takes `--think` ms for each answer, as quick ones do. With 0 there is nothing left in a calm
 * moment but half a millisecond of the proxy and the loopback interface, and its double says little to anybody.
 *
 * The proxy has one worker. Where there are two cores and `taskset`, the proxy has one of them to itself and clients and
 * upstream share the other one, the attackers behind them: victims' figures are the proxy's doing. What the machine took from them is in each line. A round is all
 * attacks, those of one kind behind a calm window that they share. Each figure is the median over the rounds, so that a slow moment
 * of the machine meets one of them only; the ratio is to the median of all calm windows. Behind each attack victims have to be well
 * again before the next one begins.
 * Exit code 1 when a victim is not served, when the p99 rises by more than `--allowed` times, or when something is left.
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

/** For what attackers hold that is no body: sockets, streams, handshakes. */
const OVERHEAD_BYTES = 128 * 2 ** 20;
/** What the allocator and the heap may keep for the next time. */
const REMNANT_BYTES = 48 * 2 ** 20;
const LIVE_SLACK_BYTES = 16 * 2 ** 20;
/** The victims' upstream connections are more or fewer from one moment to the next. */
const DESCRIPTOR_SLACK = 8;

/** Attacks that differ in their number of connections only. */
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
// Once without looking: what heap and pools grow to the first time, they keep, and it is no leak.
for (const { trials } of kinds) await stage.attackFor(trials.at(-1)!.attack, 500);
const start = await stage.lookInside();
// The collection throws away code as well.
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
			// A run takes long, and rounds that differ say how noisy the machine is.
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

/** Everything that the attacks have taken must come back. */
async function leftAlone(): Promise<void> {
	const refused = await stage.postBodies();
	if (refused.length > 0) problems.push(`afterwards bodies of 8 MiB got ${refused}`);
	// Idle connections to the upstream go after four seconds.
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

/** What is no fault of the proxy, in words: victims that wait for 100 ms while the hypervisor took 100 ms have waited for the machine. */
function absences({ stolen, waited: { proxy, victims, upstream } }: Seen): string {
	const waits = [`proxy ${proxy.toFixed(0)}`, `victims ${victims.toFixed(0)}`, `upstream ${upstream.toFixed(0)}`];
	return `stolen ${stolen} ms, without a core: ${waits.join(', ')} ms`;
}

/** What attackers have got, in words. */
function gotBy({ got }: Seen): string {
	return Object.entries(got)
		.map(([what, count]) => `${what} ${count}`)
		.join(', ');
}

/** A row for each flood: its ratio by connections, and what was lost. */
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

/** Of all calm windows of the run. */
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
