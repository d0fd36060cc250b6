/**
 * Reloads, and drains with a restart on the same port, under load. Exit code 1 if they cost a single request.
 *
 *   node bench/reload-drain.ts                        100 reloads, 20 drains
 *   node bench/reload-drain.ts --reloads 10 --drains 2
 *   node bench/reload-drain.ts --body streaming --workers 4
 *   PROXY_TEST_MAIN=packages/proxy/dist/main.js node bench/reload-drain.ts    the built command, not the source
 *
 * Clients, upstreams and proxy share this machine and its loopback interface. The clients never pause; `test/fixtures/load.ts` defines a
 * loss.
 */
import { performance } from 'node:perf_hooks';
import { parseArgs } from 'node:util';
import { connectTls } from '../test/fixtures/clients.ts';
import { EchoUpstream, Load, type LoadOptions, type Tally } from '../test/fixtures/load.ts';
import { testPki } from '../test/fixtures/pki.ts';
import { type ProxyProcess, startProxy } from '../test/fixtures/proxy.ts';
import { within } from '../test/fixtures/wait.ts';

const CLIENTS: LoadOptions = { h1: 16, h2: 4, streams: 8 };
/** Port of all drained proxies. It is below the system's range of client ports, so that no connection takes it meanwhile. */
const PORT = 20_000 + (process.pid % 10_000);
/** Time for one drain, ms; the default limit is 25 s. */
const DRAIN_LIMIT_MS = 25_000;

const { values } = parseArgs({
	options: {
		reloads: { type: 'string', default: '100' },
		drains: { type: 'string', default: '20' },
		workers: { type: 'string', default: '2' },
		body: { type: 'string', default: 'collected' },
	},
});
const [reloads, drains, workers] = [Number(values.reloads), Number(values.drains), Number(values.workers)];
const options = { workers, config: { tenant_rps: 0 }, boxedBody: values.body === 'streaming', poisonsReads: false };
if (values.body !== 'collected' && values.body !== 'streaming') throw new Error(`--body ${values.body}`);
// The harness compares the ready line with it, and has read it by now.
process.env.PROXY_TEST_BODY = values.body;

const problems = [...(await underReloads()), ...(await underDrains())];
for (const problem of problems) console.log(`  ${problem}`);
console.log(problems.length === 0 ? 'nothing was lost' : `${problems.length} losses`);
process.exitCode = problems.length === 0 ? 0 : 1;

/** One proxy whose certificate and upstream change with every reload. */
async function underReloads(): Promise<string[]> {
	if (reloads === 0) return [];
	const pki = await testPki();
	const servers = await Promise.all(['odd', 'even'].map((name) => pki.issueServer(name)));
	await using first = await EchoUpstream.start();
	await using second = await EchoUpstream.start();
	await using proxy = await startProxy({ ...options, routes: [{ prefix: '/', upstream: first.url }] });
	await using load = new Load(proxy, CLIENTS);
	await load.answers(1_000);
	const took: number[] = [];
	const problems: string[] = [];
	const begun = performance.now();
	for (let i = 0; i < reloads; i++) {
		const { certPath, keyPath, serialNumber } = servers[i % 2]!;
		proxy.writeConfig({
			tls: { cert_path: certPath, key_path: keyPath },
			routes: [
				{ prefix: '/', upstream: (i % 2 === 0 ? second : first).url },
				{ prefix: `/${i}`, upstream: first.url },
			],
		});
		const start = performance.now();
		const { tls, routes } = await proxy.reload();
		took.push(performance.now() - start);
		for (const { level, message, cause } of [tls, routes]) if (level !== 'info') problems.push(`${message}: ${cause}`);
		if ((await servedSerial(proxy)) !== serialNumber)
			problems.push(`reload ${i}: a new connection got the old certificate`);
		await load.answers(20);
	}
	const seconds = (performance.now() - begun) / 1000;
	const tally = await load.stop();
	const clients = CLIENTS.h1 + CLIENTS.h2;
	if (tally.connections !== clients) problems.push(`${tally.connections} connections for ${clients} clients`);
	console.log(`${reloads} reloads (${values.body}, ${workers} workers) in ${seconds.toFixed(1)} s: ${inWords(tally)}`);
	console.log(`  from SIGUSR1 to its last log line: ${spread(took)} ms`);
	return [...problems, ...tally.losses];
}

/** One proxy after the other on the same port, each drained while its clients are busy. */
async function underDrains(): Promise<string[]> {
	await using echo = await EchoUpstream.start();
	const took: number[] = [];
	const problems: string[] = [];
	const total: Tally = { sent: 0, answered: 0, disowned: 0, connections: 0, announced: 0, refused: 0, losses: [] };
	for (let i = 0; i < drains; i++) {
		const args = ['--bind', `127.0.0.1:${PORT}`];
		await using proxy = await startProxy({ ...options, args, routes: [{ prefix: '/', upstream: echo.url }] });
		await using load = new Load(proxy, CLIENTS);
		await load.answers(500);
		const start = performance.now();
		const code = proxy.stop();
		const tally = await load.refused();
		if ((await within(code, 'the end of the drain', DRAIN_LIMIT_MS)) !== 0)
			problems.push(`drain ${i}: exit ${await code}`);
		took.push(performance.now() - start);
		for (const key of ['sent', 'answered', 'disowned', 'connections', 'announced', 'refused'] as const) {
			total[key] += tally[key];
		}
		total.losses.push(...tally.losses);
	}
	if (drains === 0) return [];
	console.log(`${drains} drains (${values.body}, ${workers} workers): ${inWords(total)}`);
	console.log(`  from SIGTERM to exit 0: ${spread(took)} ms`);
	return [...problems, ...total.losses];
}

function inWords({ sent, answered, disowned, connections, announced, losses }: Tally): string {
	return (
		`${sent} requests sent, ${answered} answered, ${disowned} refused by GOAWAY, ${losses.length} lost; ` +
		`${connections} connections, ${announced} told to end`
	);
}

function spread(times: number[]): string {
	const sorted = times.toSorted((a, b) => a - b).map(Math.round);
	return `median ${sorted[sorted.length >> 1]}, longest ${sorted.at(-1)}`;
}

async function servedSerial(proxy: ProxyProcess): Promise<string> {
	const socket = await connectTls(proxy);
	const { serialNumber } = socket.getPeerCertificate();
	socket.destroy();
	return serialNumber;
}
