/**
 * Third-party servers receive paths that the gates forward by the route `/` next to a protected `/admin`: none of them may serve `/admin`.
 * They are called directly, since the proxy forwards a path byte for byte. A server that is not installed is skipped.
 */
import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, writeFileSync } from 'node:fs';
import { Agent, get } from 'node:http';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import { Rejection } from '../../packages/gate/src/gates/rejection.ts';
import { cleanTarget } from '../../packages/proxy/src/gates/path.ts';
import { RouteTable } from '../../packages/proxy/src/gates/routes.ts';
import { freePort } from '../fixtures/free-port.ts';
import { temporaryFolder } from '../fixtures/pki.ts';
import { until } from '../fixtures/wait.ts';
import { missingTools, ROOT } from './tools.ts';

/** `go run` first compiles the server and part of Go's library, ms. */
const COMPILED_MS = 240_000;

interface Server {
	readonly name: string;
	readonly command: string;
	readonly args: readonly string[];
	/** What it runs, and a path besides `/admin` by which it serves `/admin`: proof that a finding is possible. */
	readonly source: (port: string) => string;
	readonly alias: string;
}

const node = { command: process.execPath, args: ['server.cjs'] };
const load = (name: string) => JSON.stringify(createRequire(join(ROOT, 'package.json')).resolve(name));

const SERVERS: readonly Server[] = [
	{
		name: 'Go ServeMux',
		command: 'go',
		args: ['run', 'server.go'],
		alias: '/%61dmin/x',
		source: (port) => `package main
import ("net/http"; "io")
func main() {
	http.HandleFunc("/admin/", func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "admin") })
	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "other") })
	http.ListenAndServe("127.0.0.1:${port}", nil)
}`,
	},
	{
		name: 'WSGI',
		command: 'python3',
		args: ['server.py'],
		alias: '/admin%2fx',
		source: (port) => `from wsgiref.simple_server import make_server, WSGIRequestHandler
class Quiet(WSGIRequestHandler):
    def log_message(self, *args): pass
def app(environ, start):
    path = environ["PATH_INFO"]
    start("200 OK", [("content-type", "text/plain")])
    return [b"admin" if path == "/admin" or path.startswith("/admin/") else b"other"]
make_server("127.0.0.1", ${port}, app, handler_class=Quiet).serve_forever()`,
	},
	{
		name: 'nginx',
		command: 'nginx',
		args: ['-p', '.', '-e', 'stderr', '-c', 'server.conf'],
		alias: '//%61dmin',
		source: (port) => `daemon off; master_process off; pid nginx.pid; error_log stderr; events {}
http { access_log off; client_body_temp_path t; proxy_temp_path t; fastcgi_temp_path t; uwsgi_temp_path t; scgi_temp_path t;
server { listen 127.0.0.1:${port}; location / { return 200 other; } location /admin/ { return 200 admin; } location = /admin { return 200 admin; } } }`,
	},
	{
		name: 'Express',
		...node,
		alias: '/ADMIN/x',
		source: (port) => `const app = require(${load('express')})();
app.use('/admin', (_, answer) => answer.send('admin')); app.use((_, answer) => answer.send('other')); app.listen(${port}, '127.0.0.1');`,
	},
	{
		name: 'Fastify',
		...node,
		alias: '/%61dmin/x',
		source: (
			port,
		) => `const app = require(${load('fastify')})({ routerOptions: { ignoreDuplicateSlashes: true, caseSensitive: false } });
app.get('/admin', async () => 'admin'); app.get('/admin/*', async () => 'admin'); app.get('/*', async () => 'other');
app.listen({ port: ${port}, host: '127.0.0.1' });`,
	},
	{
		name: 'a handler that resolves its decoded URL',
		...node,
		alias: '/%2fhost/admin',
		source: (port) => `require('node:http').createServer((request, answer) => {
	let path = request.url;
	try { path = new URL(decodeURIComponent(path), 'http://host').pathname; } catch {}
	answer.end(path === '/admin' || path.startsWith('/admin/') ? 'admin' : 'other');
}).listen(${port}, '127.0.0.1');`,
	},
];

const routes = new RouteTable([{ prefix: '/' }, { prefix: '/admin', caseInsensitive: true }]);
const ALL = paths();
const FORWARDED = ALL.filter((path) => {
	const route = typeof cleanTarget(path) === 'string' ? routes.match(path) : undefined;
	return route !== undefined && !(route instanceof Rejection) && route.prefix === '/';
});

for (const server of SERVERS) {
	describe(server.name, { skip: missingTools(server.command) }, () => {
		const agent = new Agent({ keepAlive: true });
		let child: ChildProcess | undefined;
		after(async () => {
			agent.destroy();
			if (child === undefined || child.exitCode !== null) return;
			const ended = once(child, 'exit');
			// `go run` does not forward signals.
			process.kill(-child.pid!, 'SIGKILL');
			await ended;
		});

		test('serves /admin for no path that is forwarded by the route /', async () => {
			const port = await freePort();
			const folder = temporaryFolder('path-readings');
			mkdirSync(join(folder, 't'));
			writeFileSync(join(folder, server.args.at(-1)!), server.source(port));
			child = spawn(server.command, server.args, {
				cwd: folder,
				detached: true,
				stdio: ['ignore', 'ignore', 'inherit'],
			});
			const ask = (path: string) => answerTo(agent, port, path);
			await until(async () => (await ask('/x').catch(() => '')) === 'other', server.name, COMPILED_MS);
			assert.equal(await ask('/admin/x'), 'admin');
			assert.equal(await ask(server.alias), 'admin');
			assert.ok(!FORWARDED.includes(server.alias));
			for (const path of FORWARDED) assert.notEqual(await ask(path), 'admin', path);
		});
	});
}

test('there are paths enough of both kinds', () => {
	assert.ok(FORWARDED.length > 300 && ALL.length - FORWARDED.length > 300, `${FORWARDED.length} of ${ALL.length}`);
});

/** A redirect is the upstream's own response: a client that follows it sends another path. */
function answerTo(agent: Agent, port: string, path: string): Promise<string> {
	return new Promise((resolve, reject) => {
		get({ host: '127.0.0.1', port, path, agent }, (response) => {
			let text = '';
			response.setEncoding('utf8');
			response.on('data', (chunk) => {
				text += chunk;
			});
			response.on('end', () => resolve(text));
			response.on('error', reject);
		}).on('error', reject);
	});
}

/** `admin` in every spelling, between everything that could become a separator, vanish or end a path. */
function paths(): string[] {
	const names = ['admin', '%61dmin', 'ADMIN', 'adm%c1%a9n', 'ad%0amin', 'adm%ffin', '%2561dmin', 'admi', 'x'];
	const before = ['/', '/%2f', '/x/', '/;a/', '/x%2f', '/%5c', '/%ff/', '/%c0%af', '/%2fhost/'];
	const behind = [
		'',
		'/',
		'/x',
		';a=1',
		';a=1/x',
		'%2fx',
		'%5cx',
		'%3fx',
		'%00',
		'%2500',
		'%20',
		'.',
		'//x',
		'%c0%afx',
	];
	return before.flatMap((lead) => names.flatMap((name) => behind.map((end) => lead + name + end)));
}
