/**
 * Everything at once, for any time: bad upstreams over HTTP/1.1, h2c and HTTP/2 over TLS with all their faults, trailers, gRPC calls and
 * streams, WebSockets, reloads that change certificate and routes, and worker threads killed at random. Breaches are losses except on a
 * killed thread's own connections, and connections, descriptors or memory that are not released afterwards.
 *
 *   npm run soak -- [--minutes 1] [--seed 1] [--mode collected|streaming] [--workers 2]
 *
 * The body modes share the time. Exit code 1 for any breach.
 */
import { randomInt } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { diedWhileApplying } from '../../packages/proxy/src/control/workers/ballot.ts';
import { INSPECTABLE, WorkerInspector } from '../fixtures/inspect-workers.ts';
import { temporaryFolder, testPki } from '../fixtures/pki.ts';
import type { BodyMode } from '../fixtures/proxy.ts';
import { connectTls } from '../fixtures/tls-client.ts';
import { FaultRun } from './fault-run.ts';
import { OUTCOMES } from './ledger.ts';
import { faultsLeft, GIVES_MEMORY_BACK, type ProcessLeft, processLeft } from './leftovers.ts';
import { table } from './table.ts';

const { values } = parseArgs({
	options: {
		minutes: { type: 'string', default: '1' },
		seed: { type: 'string', default: String(randomInt(2 ** 31)) },
		mode: { type: 'string' },
		workers: { type: 'string', default: '2' },
	},
});
const modes = (['collected', 'streaming'] as const).filter((mode) => values.mode === undefined || mode === values.mode);
const workers = Number(values.workers);
const seconds = (Number(values.minutes) * 60) / modes.length;

const RELOAD_EVERY_MS = 1000;
const KILL_EVERY_MS = 4000;
/** Time before memory and descriptors are first measured, ms: pools, caches and compiled code have their final size then. */
const WARM_UP_MS = Math.min(10_000, seconds * 250);
/**
 * Allowed growth of resident memory, bytes. A thread that replaces a killed one does not get back what the allocator kept of its predecessor,
 * so this is not zero. A leak of one response in a thousand would be more.
 */
const MEMORY_SLACK = 256 * 2 ** 20;

/** Log lines about killed threads. That nothing else failed is checked where the kill happens. */
const EXPECTED = [
	'worker failed',
	'worker died; replacing it',
	'mTLS reload failed; keeping old',
	'route reload failed; keeping old table',
];

let breaches = 0;
for (const mode of modes) breaches += await soak(mode);
console.log(`\n${breaches === 0 ? 'no breach' : `${breaches} breaches`}; seed ${values.seed}`);
if (breaches > 0) process.exitCode = 1;

async function soak(mode: BodyMode): Promise<number> {
	const proxy = { workers, env: { ...INSPECTABLE, ...GIVES_MEMORY_BACK } };
	await using run = await FaultRun.start({
		mode,
		seed: Number(values.seed),
		clients: 24,
		talkers: 8,
		threadsDie: true,
		proxy,
	});
	using inspector = await WorkerInspector.attach(run.proxy, workers);
	const { ledger } = run;
	const over = { yet: false };
	const idle = processLeft(run.proxy);
	const sending = run.send(() => over.yet || ledger.violationCount > 1000);
	await sleep(WARM_UP_MS);
	const start = processLeft(run.proxy);
	const operations = [reloadAgainAndAgain(run, over), killAgainAndAgain(run, inspector, over)] as const;
	await Promise.race([sleep(seconds * 1000 - WARM_UP_MS), sending]);
	over.yet = true;
	const [reloads, kills] = await Promise.all(operations);
	await sending;
	ledger.judgeLosses(kills);
	await run.closeClients();
	inspector[Symbol.dispose]();
	const leftovers = await faultsLeft(run, idle, EXPECTED);
	const end = processLeft(run.proxy);
	if (end.memory > start.memory + MEMORY_SLACK) leftovers.push(`memory has grown to ${mebibytes(end)} MiB`);

	const counts = OUTCOMES.map((outcome) =>
		[...ledger.counts.values()].reduce((sum, of) => sum + (of.get(outcome) ?? 0), 0),
	);
	console.log(`\n${mode}, ${workers} workers, ${Math.round(seconds)} s`);
	console.log(table(['requests', ...OUTCOMES], [[ledger.requests, ...counts]]));
	console.log(
		table(
			['', ''],
			[
				['requests that the upstream answered or failed as planned', ledger.played],
				['kinds of it', ledger.counts.size],
				['bytes with the right checksum', ledger.checkedBytes],
				['WebSockets and gRPC streams', run.talks.opened],
				['messages of theirs that came back as they were sent', run.talks.messages],
				['reloads, certificate and routes changed each time', reloads],
				['workers killed', kills.count],
				['requests lost on connections of killed workers', ledger.lostWithThread],
				['connections refused by a dying worker', run.failedConnects],
				['requests lost otherwise, mixed up, cut or doubled', ledger.violationCount],
				['memory at start, MiB', mebibytes(start)],
				['memory at the end, MiB', mebibytes(end)],
				['descriptors before the first client', idle.descriptors],
				['descriptors under load', start.descriptors],
				['descriptors after the last client', end.descriptors],
			],
		),
	);
	for (const breach of [...ledger.violations, ...leftovers]) console.log(`BREACH: ${breach}`);
	return ledger.violationCount + leftovers.length;
}

/** @returns the number of reloads. */
async function reloadAgainAndAgain(
	{ proxy, routes, ledger }: FaultRun,
	over: { readonly yet: boolean },
): Promise<number> {
	const pki = await testPki();
	const servers = await Promise.all(['odd', 'even'].map((name) => pki.issueServer(name)));
	const deaths = new Set(Array.from({ length: workers }, (_, worker) => diedWhileApplying(worker)));
	let reloads = 0;
	while (!over.yet) {
		const server = servers[reloads++ % 2]!;
		proxy.writeConfig({
			tls: { cert_path: server.certPath, key_path: server.keyPath },
			routes: [...routes, { prefix: `/${reloads}`, upstream: routes[0]!.upstream }],
		});
		const { tls, routes: taken } = await proxy.reload();
		for (const { level, message, cause } of [tls, taken]) {
			// A reload during a thread's death fails in order: the old configuration stays.
			if (level !== 'info' && !deaths.has(String(cause))) ledger.violate(`${message}: ${cause}`);
		}
		if (tls.level === 'info') {
			const serial = await servedSerial(proxy);
			if (serial !== undefined && serial !== server.serialNumber)
				ledger.violate('a new connection got the old certificate');
		}
		await sleep(RELOAD_EVERY_MS);
	}
	return reloads;
}

/** `undefined` if a dying thread got the request. */
async function servedSerial(proxy: FaultRun['proxy']): Promise<string | undefined> {
	try {
		const socket = await connectTls(proxy);
		const { serialNumber } = socket.getPeerCertificate();
		socket.destroy();
		return serialNumber;
	} catch {
		return undefined;
	}
}

/** @returns the number of kills, and the ports of the clients that the threads served then. */
async function killAgainAndAgain(
	{ proxy, ledger }: FaultRun,
	inspector: WorkerInspector,
	over: { readonly yet: boolean },
) {
	const folder = temporaryFolder('killed');
	const ports = new Set<number>();
	let count = 0;
	for (;;) {
		await sleep(KILL_EVERY_MS);
		if (over.yet) return { count, ports };
		const worker = randomInt(workers);
		const file = join(folder, `${count++}.json`);
		const after = proxy.logs.length;
		await inspector.ready(worker);
		inspector.run(worker, lastWords(file));
		const replaced = ({ message, worker: index }: (typeof proxy.logs)[number]) => {
			return message === 'worker replaced' && index === worker;
		};
		try {
			await proxy.waitForLog(replaced, 15_000, after);
			for (const port of JSON.parse(readFileSync(file, 'utf8'))) ports.add(port);
		} catch (error) {
			ledger.violate(`worker ${worker} was killed: ${(error as Error).message}`);
		}
	}
}

/** Runs in the worker: reports its connections, then throws an error that nothing catches. */
function lastWords(file: string): string {
	return `
		const ports = process._getActiveHandles().map((handle) => handle.remotePort).filter(Boolean);
		process.getBuiltinModule('node:fs').writeFileSync(${JSON.stringify(file)}, JSON.stringify(ports));
		throw new Error('killed by the soak');`;
}

function mebibytes({ memory }: ProcessLeft): number {
	return Math.round(memory / 2 ** 20);
}
