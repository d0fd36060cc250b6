/**
 * Load through all that can happen to keys and certificates: a key is added, a key is withdrawn, the issuer answers 500, then not at all,
 * comes back, and everything is reloaded (certificate, CRL, routes, issuers), again and again. A good token never gets 401, and a bad one
 * never gets 200.
 *
 *   npm run rotation -- [--seconds 24] [--rate 10000] [--workers 2] [--mode collected|streaming] [--crl 200000]
 *
 * Four kinds of tokens take turns: of a key that stays, of a withdrawn key, of an added key, and of a signer without authority.
 * During a change the two in the middle may get either status; once connections to all threads have seen it, only one.
 * The rate is an upper bound; the rate reached is printed. Exit code 1 for any breach.
 *
 * After that, at 300 requests/s, a CRL of `--crl` entries is reloaded three times (0: not at all). Prints response times during the reloads
 * next to a calm moment. Each request must get a response.
 */
import { fork } from 'node:child_process';
import { renameSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { request } from '../fixtures/clients.ts';
import { crlPem, issueCrl, issueLongCrl } from '../fixtures/crl.ts';
import { startIssuer } from '../fixtures/issuer.ts';
import { jwkOf, jwks, keyFor, sign } from '../fixtures/issuer-keys.ts';
import { temporaryFolder, testPki } from '../fixtures/pki.ts';
import { startProxy } from '../fixtures/proxy.ts';
import { within } from '../fixtures/wait.ts';
import type { VictimsOrder, Window } from './attack-victims.ts';
import { complaints } from './leftovers.ts';
import type { Kind, RotationOrder, Start, Tally, Wanted } from './rotation-clients.ts';
import { table } from './table.ts';

const { values } = parseArgs({
	options: {
		seconds: { type: 'string', default: '24' },
		rate: { type: 'string', default: '10000' },
		workers: { type: 'string', default: '2' },
		mode: { type: 'string', default: 'collected' },
		crl: { type: 'string', default: '200000' },
	},
});
/** Duration of each of six states, s. */
const PHASE_MS = (Number(values.seconds) * 1000) / 6;
/** Request rate while CRLs are reloaded. */
const STEADY_PER_SECOND = 300;
const WINDOW_MS = 4000;

const pki = await testPki();
const folder = temporaryFolder('rotation');
const upstream = createServer(({ url }, response) => {
	const body = url!.startsWith('/victim/') ? url! : 'ok';
	response.setHeader('content-length', body.length).end(body);
});
upstream.keepAliveTimeout = 60_000;
await new Promise<void>((resolve) => upstream.listen(0, '127.0.0.1', resolve));
const [lasting, old, fresh, stranger] = [keyFor('RS256'), keyFor('ES256'), keyFor('RS256'), keyFor('RS256')];
const FIRST = jwks(jwkOf(lasting, { kid: 'lasting' }), jwkOf(old, { kid: 'old' }));
const ADDED = jwks(jwkOf(lasting, { kid: 'lasting' }), jwkOf(old, { kid: 'old' }), jwkOf(fresh, { kid: 'fresh' }));
const WITHDRAWN = jwks(jwkOf(lasting, { kid: 'lasting' }), jwkOf(fresh, { kid: 'fresh' }));
await using issuer = await startIssuer('https', FIRST);
const tokens = await mintTokens();
const files = [await writeFiles(0), await writeFiles(1)];
await using proxy = await startProxy({
	workers: Number(values.workers),
	boxedBody: values.mode === 'streaming',
	configText: configOf(0),
});

const clients = fork(join(import.meta.dirname, 'rotation-clients.ts'));
const before: Record<Kind, Wanted> = { lasting: 200, old: 200, fresh: 401, forged: 401 };
const { certPem, keyPem } = pki.clients.valid;
const credentials = { port: proxy.port, caPem: pki.ca.certPem, certPem, keyPem, tokens: [] };
const startedAt = performance.now();
await tell({ start: credentials, tokens, wanted: before, perSecond: Number(values.rate) } satisfies Start);
const problems: string[] = [];

await phase('calm', async () => {});
await phase('a key is added', async () => {
	await tell({ wanted: { ...before, fresh: 0 } });
	issuer.publish = ADDED;
	await seenByAll('fresh', 200);
	await tell({ wanted: { ...before, fresh: 200 } });
});
const after: Record<Kind, Wanted> = { lasting: 200, old: 401, fresh: 200, forged: 401 };
await phase('a key is withdrawn', async () => {
	await tell({ wanted: { ...after, old: 0 } });
	issuer.publish = WITHDRAWN;
	await seenByAll('old', 401);
	await tell({ wanted: after });
});
await phase('the issuer answers 500', async () => {
	issuer.publish = (_, response) => response.writeHead(500).end();
	await proxy.waitForLog('keys not fetched; keeping old');
});
await phase('the issuer hangs', async () => {
	issuer.publish = () => {};
});
issuer.publish = WITHDRAWN;
let reloads = 0;
await phase('everything is reloaded', async () => {
	const until = performance.now() + PHASE_MS;
	while (performance.now() < until || reloads < 2) {
		reloads++;
		await reload(reloads % 2);
		await sleep(200);
	}
});

const seconds = (performance.now() - startedAt) / 1000;
const tally = await tell({ stop: true });
clients.disconnect();
report(tally, seconds);
if (Number(values.crl) > 0) await reloadLongCrl();
for (const problem of problems) console.log(`BREACH: ${problem}`);
if (problems.length > 0) process.exitCode = 1;
upstream.close();
upstream.closeAllConnections();

async function phase(name: string, change: () => Promise<void>): Promise<void> {
	const until = performance.now() + PHASE_MS;
	await change();
	await sleep(Math.max(0, until - performance.now()));
	if (process.stderr.isTTY) process.stderr.write(`\r\x1b[K${name}: done`);
}

/** Waits until every thread responds like this, as seen on connections to each of them. */
async function seenByAll(kind: Kind, status: Wanted): Promise<void> {
	const deadline = performance.now() + 20_000;
	for (let inARow = 0; inARow < 24; ) {
		// Each on its own connection, which any thread may accept.
		const answer = await request('h1', proxy, { token: tokens[kind] });
		inARow = answer.status === status ? inARow + 1 : 0;
		if (performance.now() > deadline) throw new Error(`a token of kind ${kind} does not get ${status}`);
	}
}

async function reload(i: number): Promise<void> {
	proxy.writeConfig(configOf(i));
	await reloadFiles();
}

async function reloadFiles(): Promise<void> {
	const logged = proxy.logs.length;
	proxy.signal('SIGUSR1');
	for (const done of ['mTLS config reloaded', 'routing table reloaded', 'identity reloaded']) {
		const failed = / reload failed; keeping old$/;
		const line = await proxy.waitForLog(({ message }) => message === done || failed.test(message), 20_000, logged);
		if (failed.test(line.message)) problems.push(`${line.message}: ${line.cause}`);
	}
}

function report({ answers, wrong200, wrong401, failed, failures }: Tally, seconds: number): void {
	const count = (start: string) =>
		Object.entries(answers).reduce((sum, [id, n]) => (id.startsWith(start) ? sum + n : sum), 0);
	const rows = ['lasting', 'old', 'fresh', 'forged'].flatMap((kind) =>
		['h1', 'h2'].map((protocol) => {
			const status = (code: number) => answers[`${protocol} ${kind} ${code}`] ?? 0;
			return [kind, protocol, status(200), status(401), count(`${protocol} ${kind} `) - status(200) - status(401)];
		}),
	);
	console.log(table(['token', 'over', '200', '401', 'other'], rows));
	const total = count('');
	console.log(
		`${values.mode}: ${total} requests in ${seconds.toFixed(1)} s, ${Math.round(total / seconds)}/s of at most ${values.rate}/s, ` +
			`half of them over each protocol if both keep up; ${reloads} reloads of everything; ${wrong401} wrong 401, ${wrong200} wrong 200, ${failed} without an answer`,
	);
	if (wrong401 > 0) problems.push(`${wrong401} good tokens got 401`);
	if (wrong200 > 0) problems.push(`${wrong200} bad tokens got 200`);
	problems.push(...failures, ...complaints(proxy));
}

/** A long CRL and a short one in turn, under the steady requests of `attack.ts`'s victims. */
async function reloadLongCrl(): Promise<void> {
	const long = crlPem(await issueLongCrl(pki.ca, Number(values.crl)));
	const victims = fork(join(import.meta.dirname, 'attack-victims.ts'));
	const ask = (order: VictimsOrder) => {
		const answer = new Promise<Window>((resolve) => victims.once('message', (message) => resolve(message as Window)));
		victims.send(order);
		return within(answer, 'the figures of the steady requests', 60_000);
	};
	const good = [tokens.lasting, tokens.lasting];
	await ask({ start: { ...credentials, tokens: good }, perSecond: STEADY_PER_SECOND });
	await ask({ window: WINDOW_MS });
	const rows: (string | number)[][] = [];
	const look = (what: string, { requests, p50, p99, longest, failed, failures }: Window, took = '') => {
		rows.push([what, took, requests, ...[p50, p99, longest].map((ms) => ms.toFixed(1)), failed]);
		if (failed > 0) problems.push(`${what}: ${failures.join('; ')}`);
	};
	for (let i = 0; i < 3; i++) {
		look('calm', await ask({ window: WINDOW_MS }));
		for (const [what, crl] of [
			[`a CRL of ${values.crl} entries`, long],
			['a short CRL', files[0]!.crl],
		] as const) {
			const window = ask({ window: WINDOW_MS });
			replaceFile('clients.crl', crl);
			const begun = performance.now();
			await reloadFiles();
			const took = performance.now() - begun;
			look(what, await window, `${Math.round(took)} ms`);
		}
	}
	victims.disconnect();
	problems.push(...complaints(proxy));
	console.log(table(['reloaded', 'took', 'requests', 'p50, ms', 'p99, ms', 'longest, ms', 'lost'], rows));
}

async function mintTokens(): Promise<Record<Kind, string>> {
	const claims = { iss: issuer.url, aud: 'edge', sub: 'alice', exp: Math.floor(Date.now() / 1000) + 3600 };
	return {
		lasting: await sign(lasting, claims, { alg: 'RS256', kid: 'lasting' }),
		old: await sign(old, claims, { alg: 'ES256', kid: 'old' }),
		fresh: await sign(fresh, claims, { alg: 'RS256', kid: 'fresh' }),
		forged: await sign(stranger, claims, { alg: 'RS256', kid: 'lasting' }),
	};
}

interface Files {
	readonly certPem: string;
	readonly keyPem: string;
	readonly crl: string;
}

/** What a reload finds: another certificate, another CRL. */
async function writeFiles(i: number): Promise<Files> {
	const { certPem, keyPem } = await pki.issueServer(`rotation-${i}`);
	return { certPem, keyPem, crl: crlPem(await issueCrl(pki.ca, { serials: [`0${i + 1}`] })) };
}

function renewFiles(i: number): void {
	const { certPem, keyPem, crl } = files[i]!;
	for (const [name, text] of [
		['server.crt', certPem],
		['server.key', keyPem],
		['clients.crl', crl],
	] as const) {
		replaceFile(name, text);
	}
}

function replaceFile(name: string, text: string): void {
	writeFileSync(join(folder, `${name}.new`), text);
	renameSync(join(folder, `${name}.new`), join(folder, name));
}

/** The whole file: another route, and one more issuer. */
function configOf(i: number): string {
	renewFiles(i);
	const url = `http://127.0.0.1:${(upstream.address() as AddressInfo).port}`;
	return `
		tenant_rps = 0
		health_interval_secs = 3600
		[tls]
		cert_path = "${join(folder, 'server.crt')}"
		key_path = "${join(folder, 'server.key')}"
		client_ca_path = "${pki.caPath}"
		crl_path = "${join(folder, 'clients.crl')}"
		[[issuers]]
		issuer = "${issuer.url}"
		audience = "edge"
		algorithms = ["RS256", "ES256"]
		jwks_url = "${issuer.jwksUrl}"
		jwks_ca_path = "${pki.caPath}"
		refresh_secs = 0.3
		tenant_prefix = "a/"
		[[issuers]]
		issuer = "https://other-${i}.test"
		audience = "edge"
		public_key_path = "${pki.publicKeyPath}"
		tenant_prefix = "b${i}/"
		[[routes]]
		prefix = "/"
		upstream = "${url}"
		[[routes]]
		prefix = "/other-${i}"
		upstream = "${url}"
	`;
}

function tell(order: RotationOrder): Promise<Tally> {
	const answer = new Promise<Tally>((resolve) => clients.once('message', (message) => resolve(message as Tally)));
	clients.send(order);
	return within(answer, `an answer to ${JSON.stringify(order).slice(0, 40)}`, 60_000);
}
