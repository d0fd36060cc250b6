/** Third-party HTTP/2 servers as upstreams: nghttpd, nginx and hypercorn, in clear text. A server that is not installed is skipped. */
import { deepEqual, equal, ok } from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { countedBytes } from '../fixtures/bodies.ts';
import { PROTOCOLS, request } from '../fixtures/clients.ts';
import { freePort } from '../fixtures/free-port.ts';
import { temporaryFolder, testPki } from '../fixtures/pki.ts';
import { sampleSum } from '../fixtures/prometheus.ts';
import { startProxy } from '../fixtures/proxy.ts';
import { until } from '../fixtures/wait.ts';
import { notAtRest } from '../load/agreement.ts';
import { h2load, h2loadPreload } from './clients/commands.ts';
import type { Edge } from './clients/process.ts';
import { missingTools } from './tools.ts';

interface Server {
	readonly name: string;
	readonly command: string;
	/** Whether the server also echoes bodies at `/echo`. */
	readonly echoes: boolean;
	/** Writes the server's files. @returns its arguments. */
	readonly prepare: (folder: string, port: string) => readonly string[];
}

/** As text, for file servers and programs alike. */
const FILE = countedBytes(700_000).toString('hex').slice(0, 700_000);

const SERVERS: readonly Server[] = [
	{
		name: 'nghttpd',
		command: 'nghttpd',
		echoes: false,
		prepare: (folder, port) => ['--no-tls', '-a', '127.0.0.1', '-d', folder, '-m', '20', port],
	},
	{
		name: 'nginx',
		command: 'nginx',
		echoes: false,
		prepare: (folder, port) => {
			writeFileSync(
				join(folder, 'nginx.conf'),
				`daemon off; user root; pid ${folder}/nginx.pid; error_log stderr;
events {}
http { access_log off; server { listen 127.0.0.1:${port} http2; root ${folder};
	keepalive_requests 50; client_body_temp_path ${folder}/body; } }`,
			);
			return ['-p', folder, '-c', join(folder, 'nginx.conf')];
		},
	},
	{
		name: 'hypercorn',
		// Debian's Python, which has Debian's packages.
		command: '/usr/bin/python3',
		echoes: true,
		prepare: (folder, port) => {
			writeFileSync(
				join(folder, 'app.py'),
				`async def app(scope, receive, send):
    if scope["type"] != "http":
        return
    body = b""
    while True:
        message = await receive()
        body += message.get("body", b"")
        if not message.get("more_body"):
            break
    if scope["path"] == "/file":
        body = open("${folder}/file", "rb").read()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"x-app", b"1")]})
    await send({"type": "http.response.body", "body": body})
`,
			);
			return ['-m', 'hypercorn', '--bind', `127.0.0.1:${port}`, 'app:app'];
		},
	},
];

const CALLS = 2_000;

test('gRPC calls of h2load, with a hundred bytes each way: nghttpd echoes each of them, and all have their trailers', {
	skip: missingTools('nghttpd', 'h2load', 'gcc'),
}, async () => {
	const port = await freePort();
	const address = `127.0.0.1:${port}`;
	await using proxy = await startProxy({
		upstreams: [{ name: 'nghttpd', addresses: [address], protocol: 'h2', health: false }],
		routes: [{ prefix: '/', upstream: 'nghttpd', failures: 100, cooldown_secs: 1 }],
		config: { tenant_rps: 0 },
	});
	const echoing = ['--no-tls', '-a', '127.0.0.1', '--echo-upload', '--trailer=grpc-status: 0', port];
	const server = spawn('nghttpd', echoing, { stdio: 'ignore' });
	try {
		await until(async () => (await request('h2', proxy)).status === 404, 'nghttpd');
		const pki = await testPki();
		const message = pki.writeFile('message', `\0\0\0\0\x64${'x'.repeat(100)}`);
		const edge: Edge = { base: `https://127.0.0.1:${proxy.port}`, protocol: 'h2', pki };
		const call = ['-H', 'te: trailers', '-H', 'content-type: application/grpc', `--data=${message}`];
		const load = ['--clients=4', '--max-concurrent-streams=16', `--requests=${CALLS}`];
		deepEqual(await h2load(edge, await h2loadPreload(), [...load, ...call], '/echo.Service/Echo'), {
			answered: CALLS,
			failed: 0,
		});
		await until(async () => notAtRest(await proxy.metrics()).length === 0, 'all gauges at zero');
		equal(await proxy.metric('proxy_grpc_responses_total', { upstream: address, code: '0' }), CALLS);
		// Requests that h2load counts without checking them.
		const headers = { te: 'trailers', 'content-type': 'application/grpc' };
		const body = readFileSync(message);
		const answer = await request('h2', proxy, { method: 'POST', path: '/echo.Service/Echo', headers, body });
		deepEqual([answer.status, answer.trailers], [200, [['grpc-status', '0']]]);
		ok(answer.body.equals(body));
	} finally {
		await end(server);
	}
});

for (const { name, command, echoes, prepare } of SERVERS) {
	describe(name, { skip: missingTools(command) }, () => {
		test('files, bodies and hundreds of requests at once, for clients of both protocols', async () => {
			const folder = temporaryFolder('http2-upstream');
			mkdirSync(folder, { recursive: true });
			writeFileSync(join(folder, 'file'), FILE);
			writeFileSync(join(folder, 'health'), 'ok');
			const port = await freePort();
			const server = spawn(command, prepare(folder, port), { stdio: 'ignore', cwd: folder });
			const proxy = await startProxy({
				routes: [{ prefix: '/', upstream: `h2c://127.0.0.1:${port}` }],
				config: { health_interval_secs: 1, tenant_rps: 0 },
			});
			try {
				await until(async () => (await proxy.metric('proxy_circuit_state')) === 0, `${name} to be healthy`);
				for (const protocol of PROTOCOLS) {
					const file = await request(protocol, proxy, { path: '/file' });
					equal(file.status, 200);
					equal(file.text, FILE);
					if (!echoes) continue;
					const body = countedBytes(300_000);
					const echoed = await request(protocol, proxy, { method: 'POST', path: '/echo', body });
					ok(echoed.body.equals(body));
				}
				const answers = await Promise.all(
					Array.from({ length: 300 }, (_, i) => request(PROTOCOLS[i % 2]!, proxy, { path: '/health' })),
				);
				equal(answers.filter(({ status }) => status === 200).length, 300);
				await until(async () => sampleSum(await proxy.metrics(), 'proxy_upstream_streams') === 0, 'no streams');
			} finally {
				await proxy.stop();
				await end(server);
			}
		});
	});
}

async function end(server: ChildProcess): Promise<void> {
	if (server.exitCode !== null) return;
	server.kill();
	await once(server, 'exit');
}
