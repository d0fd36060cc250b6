/**
 * The programs of docs/how-to/grpc.md, websocket.md and server-sent-events.md, exactly as on their pages, through the real command: each
 * server behind it, and each client with the page's certificate and token.
 */
import { deepEqual, equal, match } from 'node:assert/strict';
import { copyFileSync, existsSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import type { RouteEntry } from '../../packages/proxy/src/cli/demo/config-file.ts';
import { blockNamed } from '../fixtures/doc-blocks.ts';
import { freePort } from '../fixtures/free-port.ts';
import { startGrpcServer } from '../fixtures/grpc-interop.ts';
import { temporaryFolder, testPki } from '../fixtures/pki.ts';
import { Program } from '../fixtures/program.ts';
import { BODY_MODE, type ProxyProcess, startProxy } from '../fixtures/proxy.ts';
import { until } from '../fixtures/wait.ts';
import { startWebSocketUpstream } from '../fixtures/web-socket-upstream.ts';
import { runs } from './clients/process.ts';
import { missing, missingTools, ROOT, succeed } from './tools.ts';

/** Compilers and virtual machines start slowly on a busy machine, ms. */
const PATIENCE_MS = 240_000;
/** The other build forwards unary calls, too: `test/wire/grpc.test.ts`. */
const oneMode = BODY_MODE === 'collected' && 'streaming mode has them';
/** Debian's Python, which has Debian's packages. */
const PYTHON = '/usr/bin/python3';
const JARS = join(ROOT, '.linters/grpc-java');
const pki = await testPki();

const python = (...modules: string[]) =>
	missing(modules.filter((name) => !runs(PYTHON, '-c', `import ${name}`)).map((name) => `python3-${name}`));

/** A folder with the files that every client of the pages reads, and their programs. */
function folderWith(programs: Readonly<Record<string, string>>, token = pki.token('acme')): string {
	const folder = temporaryFolder('recipe');
	copyFileSync(pki.caPath, join(folder, 'ca.crt'));
	const { certPem, keyPem } = pki.clients.valid;
	const files = { 'client.crt': certPem, 'client.key': keyPem, 'token.jwt': `${token}\n` };
	for (const [name, text] of Object.entries({ ...files, ...programs })) {
		mkdirSync(join(folder, name, '..'), { recursive: true });
		writeFileSync(join(folder, name), text);
	}
	return folder;
}

const start = (folder: string, ...command: string[]) => new Program(command, { cwd: folder, env: process.env });

/** Runs to the end. @returns all output. */
async function said(folder: string, ...command: string[]): Promise<string> {
	await using program = start(folder, ...command);
	await program.ended(PATIENCE_MS);
	return program.text;
}

/** In front of a server at this port, with health probes. */
async function proxyTo(port: string, route: Partial<RouteEntry>, scheme = 'http'): Promise<ProxyProcess> {
	const proxy = await startProxy({
		routes: [{ prefix: '/', upstream: `${scheme}://127.0.0.1:${port}`, ...route }],
		config: { health_interval_secs: 0.2, health_timeout_secs: 15, tenant_rps: 0 },
	});
	await until(async () => (await proxy.metric('proxy_circuit_state')) === 0, 'the server to be healthy', PATIENCE_MS);
	return proxy;
}

const GRPC = { health_grpc: true } as const;
const authorityOf = ({ port }: ProxyProcess) => `localhost:${port}`;

interface Recipe {
	readonly name: string;
	readonly skip: string | false;
	/** Builds programs from the page's text. @returns commands, and what the client prints for a successful health check. */
	readonly build: () => Promise<{
		readonly folder: string;
		readonly server: (port: string) => readonly string[];
		readonly client: readonly string[];
		readonly serving: RegExp;
		readonly refused: RegExp;
	}>;
}

const RECIPES: readonly Recipe[] = [
	{
		name: 'grpc-go',
		skip: oneMode || missingTools('go'),
		build: async () => {
			const files = ['go.mod', 'go.sum'];
			const folder = folderWith({
				'server/main.go': blockNamed('grpc-go, server').code,
				'client/main.go': blockNamed('grpc-go, client').code,
			});
			for (const file of files) copyFileSync(join(ROOT, 'test/system/recipes', file), join(folder, file));
			succeed('go', ['build', '-o', 'bin/', './server', './client'], { cwd: folder });
			return {
				folder,
				server: (port) => ['bin/server', `127.0.0.1:${port}`],
				client: ['bin/client'],
				serving: / SERVING\n$/,
				refused: / rpc error: code = Unauthenticated desc = unauthorized\n$/,
			};
		},
	},
	{
		name: 'grpc-java',
		// Not with `missing`: a CI machine need not have Maven and a JDK.
		skip: oneMode || (!existsSync(JARS) && 'no libraries: test/system/recipes/install.sh gets them by Maven'),
		build: async () => {
			const folder = folderWith({
				'Server.java': blockNamed('grpc-java, server').code,
				'Client.java': blockNamed('grpc-java, client').code,
			});
			const java = ['java', '-cp', `${JARS}/*`];
			return {
				folder,
				server: (port) => [...java, 'Server.java', port],
				client: [...java, 'Client.java'],
				serving: /^SERVING\n/m,
				refused: /^UNAUTHENTICATED unauthorized\n/m,
			};
		},
	},
];

for (const { name, skip, build } of RECIPES) {
	describe(name, { skip }, () => {
		test('server and client of the page: health probes, a call with its tenant, a refusal, an orderly end', async () => {
			const { folder, server, client, serving, refused } = await build();
			const port = await freePort();
			await using program = start(folder, ...server(port));
			await using proxy = await proxyTo(port, GRPC, 'h2c');
			match(await said(folder, ...client, authorityOf(proxy)), serving);
			await program.says(/grpc\.health\.v1\.Health\/Check by \[?acme\]?\n/, PATIENCE_MS);
			writeFileSync(join(folder, 'token.jwt'), 'no token');
			match(await said(folder, ...client, authorityOf(proxy)), refused);
			program.signal('SIGTERM');
			await program.ended(PATIENCE_MS);
			await until(async () => (await proxy.metric('proxy_circuit_state')) === 1, 'the breaker to open', PATIENCE_MS);
		});
	});
}

describe('grpcio', { skip: python('grpc') }, () => {
	test('the client of the page: a call, and a refusal', async () => {
		await using server = await startGrpcServer();
		const port = new URL(server.url).port;
		await using proxy = await proxyTo(port, GRPC, 'h2c');
		const program = { 'client.py': blockNamed('grpcio, client').code };
		const command = [PYTHON, 'client.py', authorityOf(proxy)] as const;
		// Field 1 is SERVING.
		equal(await said(folderWith(program), ...command), '0801\n');
		equal(await said(folderWith(program, 'no.valid.token'), ...command), 'UNAUTHENTICATED unauthorized\n');
	});
});

describe('ws', () => {
	test('the client of the page: a WebSocket, and an orderly end', async () => {
		await using upstream = await startWebSocketUpstream(({ ws }) =>
			ws.on('message', (data) => ws.send(`heard ${data}`)),
		);
		await using proxy = await startProxy({
			routes: [{ prefix: '/', upstream: upstream.url, health: false, websocket: true }],
		});
		const folder = folderWith({ 'client.mjs': blockNamed('ws, client').code });
		symlinkSync(join(ROOT, 'node_modules'), join(folder, 'node_modules'));
		equal(await said(folder, process.execPath, 'client.mjs', `wss://${authorityOf(proxy)}/chat/1`), 'heard hello\n');
	});
});

describe('FastAPI', { skip: python('fastapi', 'uvicorn', 'websockets') }, () => {
	/** The page's command, on another port. */
	const uvicorn = (port: string) => {
		const [program, ...args] = blockNamed('FastAPI, its command').code.trim().replace('3000', port).split(' ');
		equal(program, 'uvicorn');
		return [PYTHON, '-m', program!, ...args];
	};

	test("a WebSocket, to the page's client: the tenant is known, and the server is told of the end", async () => {
		const folder = folderWith({
			'app.py': blockNamed('FastAPI, WebSocket').code,
			'client.py': blockNamed('websockets, client').code,
		});
		const port = await freePort();
		await using program = start(folder, ...uvicorn(port));
		await using proxy = await proxyTo(port, { websocket: true });
		const url = `wss://${authorityOf(proxy)}/chat/1`;
		equal(await said(folder, PYTHON, 'client.py', url), 'acme in 1: hello\n');
		await program.says(/^acme left 1: 1000$/m, PATIENCE_MS);
		await until(async () => (await proxy.metric('proxy_tunnels_open')) === 0, 'no open tunnels');
	});

	describe('Server-Sent Events', { skip: BODY_MODE === 'collected' && 'they need the streaming build' }, () => {
		const open = new AsyncDisposableStack();
		let proxy: ProxyProcess;
		before(async () => {
			const folder = folderWith({ 'app.py': blockNamed('FastAPI, Server-Sent Events').code });
			const port = await freePort();
			open.use(start(folder, ...uvicorn(port)));
			proxy = open.use(await proxyTo(port, { upstream_timeout_secs: 0, idle_timeout_secs: 60 }));
		});
		after(() => open.disposeAsync());

		test("reach the page's curl at once, also after those that it has had", async () => {
			const { code } = blockNamed('Server-Sent Events, curl');
			// The shell is replaced by curl, so that ending one ends the other.
			const line = `exec ${code.replace('edge.example.com:8443', authorityOf(proxy))}`;
			const folder = folderWith({
				'events.sh': line,
				'more.sh': line.replace(' https', " -H 'last-event-id: 41' https"),
			});
			const first = async (script: string) => {
				await using curl = start(folder, 'sh', script);
				// The stream goes on: the first event has arrived, and nothing has ended.
				await until(() => /^data: /m.test(curl.stdout), 'an event', PATIENCE_MS);
				return curl.stdout.trimEnd();
			};
			deepEqual(
				[await first('events.sh'), await first('more.sh')],
				['id: 1\ndata: 1 for acme', 'id: 42\ndata: 42 for acme'],
			);
		});
	});
});
