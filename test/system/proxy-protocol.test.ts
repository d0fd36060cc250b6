/** docs/how-to/tcp-balancer.md: HAProxy before the proxy, with the page's configuration and with the other ways to send a header. */
import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { connect as connectTcp } from 'node:net';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { after, before, describe, it } from 'node:test';
import { connect, PROTOCOLS } from '../fixtures/clients.ts';
import { blockNamed } from '../fixtures/doc-blocks.ts';
import { freePort } from '../fixtures/free-port.ts';
import { headerValues } from '../fixtures/http1-message.ts';
import { type TestPki, temporaryFolder, testPki } from '../fixtures/pki.ts';
import type { LogLine } from '../fixtures/program.ts';
import { type Stage, startStage } from '../fixtures/stage.ts';
import { until } from '../fixtures/wait.ts';
import { missingTools } from './tools.ts';

/** HAProxy's address as the proxy sees it. */
const BALANCER = '127.0.0.2';
/** Clients, by the address family of their connection to HAProxy. */
const CLIENTS = [
	['127.0.0.1', '127.0.0.3'],
	['::1', '::1'],
] as const;

const OF_THE_PAGE = 'send-proxy-v2 proxy-v2-options crc32c check port 9090';
/** Reported by a check, not only assumed at the start. */
const UP = /^UP L[47]OK$/;
/** By the words on the `server` line. */
const WAYS = [
	OF_THE_PAGE,
	'send-proxy check',
	'send-proxy-v2 check',
	'send-proxy-v2 proxy-v2-options crc32c,ssl,authority,unique-id check check-send-proxy',
];

describe('HAProxy before the proxy', { skip: missingTools('haproxy') }, () => {
	let pki: TestPki;
	let stage: Stage;
	before(async () => {
		pki = await testPki();
		stage = await startStage({
			listener: { proxy_protocol_from: [BALANCER] },
			log: { access: 'all' },
			env: { RUST_LOG: 'info,proxy::tls=debug' },
		});
	});
	after(() => stage?.[Symbol.asyncDispose]());

	for (const way of WAYS) {
		it(`by ${way}: the proxy knows whose connections they are`, async () => {
			const from = stage.proxy.logs.length;
			// Counted, because log lines of one kind are limited.
			const looks = () => stage.proxy.metric('proxy_tls_handshake_refusals_total', { reason: 'nothing sent' });
			const looked = await looks();
			await using haproxy = await startHaproxy(stage, way);
			await until(
				async () => UP.test(await haproxy.status()),
				() => `the server to be up; HAProxy says ${haproxy.said}`,
			);
			for (const protocol of PROTOCOLS) {
				for (const [host, client] of CLIENTS) {
					const socket = connectTcp({ host, port: haproxy.port, localAddress: client });
					await using connection = await connect(protocol, stage.proxy, { tls: { socket } });
					const { status } = await connection.request({ headers: [['authorization', `Bearer ${pki.token()}`]] });
					assert.equal(status, 200);
					assert.deepEqual(headerValues(stage.upstream.requests.at(-1)!.headers, 'x-forwarded-for'), [client]);
				}
			}
			// Its health checks are not failures that matter, and have their own address. Version 1 states it in text.
			const named = way === 'send-proxy check' ? BALANCER : '';
			const failures = () => stage.proxy.logs.slice(from).filter(({ message }) => message === 'handshake failed');
			if (way !== OF_THE_PAGE) await until(async () => (await looks()) >= looked + 2, 'health checks of the TLS port');
			const told = ({ level, reason, peer, balancer }: LogLine) => [level, reason, peer, balancer].join();
			// A connection that is reset before it is accepted has no address.
			const expected = [`debug,nothing sent,${BALANCER},${named}`, 'debug,nothing sent,,'];
			for (const line of failures()) assert.ok(expected.includes(told(line)), told(line));
			// While a check runs its outcome reads `* L7OK`.
			await until(async () => UP.test(await haproxy.status()), 'the server to be up still');
		});
	}
});

interface Haproxy extends AsyncDisposable {
	readonly port: number;
	readonly said: string;
	/** The server's state, and how it was found: `UP L4OK`. */
	status(): Promise<string>;
}

/** With the page's lines, except for addresses, ports and `way`. */
async function startHaproxy({ proxy }: Stage, way: string): Promise<Haproxy> {
	const folder = temporaryFolder('haproxy');
	const control = join(folder, 'control.sock');
	const port = await freePort();
	const page = blockNamed('HAProxy before the proxy').code;
	const here: [string, string][] = [
		[OF_THE_PAGE, way],
		way === OF_THE_PAGE ? ['port 9090', `port ${proxy.metricsPort}`] : ['  option httpchk GET /readyz\n', ''],
		['inter 2s fall 2', `inter 200ms fall 2 source ${BALANCER}`],
		['bind :443', `bind 127.0.0.1:${port}\n  bind [::1]:${port}\n  unique-id-format %[uuid]`],
		['10.0.1.10:8443', `127.0.0.1:${proxy.port}`],
		['  server edge-2 10.0.1.11:8443\n', ''],
	];
	let lines = page;
	for (const [there, own] of here) {
		assert.ok(lines.includes(there), `the page says no more: ${there}`);
		lines = lines.replace(there, own);
	}
	const file = join(folder, 'haproxy.cfg');
	writeFileSync(file, `global\n  stats socket ${control} level user\n${lines}`);
	const child: ChildProcess = spawn('haproxy', ['-db', '-f', file], { stdio: ['ignore', 'pipe', 'pipe'] });
	let said = '';
	for (const output of [child.stdout!, child.stderr!]) {
		output.setEncoding('utf8').on('data', (words: string) => {
			said += words;
		});
	}
	return {
		port: Number(port),
		get said() {
			return said;
		},
		async status() {
			const rows = (await ask(control, 'show stat')).split('\n').map((row) => row.split(','));
			const names = rows[0]!;
			const server = rows.find((row) => row[1] === 'edge-1');
			return ['status', 'check_status'].map((name) => server?.[names.indexOf(name)] ?? '').join(' ');
		},
		async [Symbol.asyncDispose]() {
			const ended = once(child, 'close');
			child.kill('SIGKILL');
			await ended;
		},
	};
}

/** Nothing until a server listens there. */
async function ask(path: string, question: string): Promise<string> {
	const socket = connectTcp({ path });
	socket.write(`${question}\n`);
	return text(socket).catch(() => '');
}
