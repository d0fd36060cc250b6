/** Certificates, keys and a token by `openssl`, an upstream, the proxy and `curl`: the pages' own commands, as a newcomer types them. */
import assert from 'node:assert/strict';
import { type ChildProcess, execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { join } from 'node:path';
import { test } from 'node:test';
import { blockNamed, blocksIn, ROOT } from '../fixtures/doc-blocks.ts';
import { temporaryFolder } from '../fixtures/pki.ts';
import { BODY_MODE, neutralEnvironment } from '../fixtures/proxy.ts';
import { until } from '../fixtures/wait.ts';

const missing = ['openssl', 'curl'].find((name) => spawnSync(name, ['version']).error !== undefined);

test('by hand: the commands of the pages lead to an answer', {
	skip: missing && `not installed: ${missing}`,
}, async () => {
	const pki = blockNamed('certificates and a token');
	const page = blocksIn(pki.page);
	const config = page.find(({ line, language }) => language === 'toml' && line > pki.line)!;
	const dir = temporaryFolder('by-hand');
	const ports = new Map(
		await Promise.all(['3000', '8443', '9090'].map(async (port) => [port, await freePort()] as const)),
	);
	/** Ports of the pages may be taken on this machine. */
	const here = (text: string) => text.replace(/(?<=[: (])(?:3000|8443|9090)\b/g, (port) => String(ports.get(port)));
	const env = {
		...neutralEnvironment(),
		PATH: `${proxyCommand(dir)}:${process.env.PATH}`,
		PROXY_BIND: here('127.0.0.1:8443'),
	};

	execFileSync('sh', ['-c', pki.code], { cwd: dir, stdio: 'pipe' });
	writeFileSync(join(dir, 'config.toml'), here(config.code));
	const [servers, client, ...rest] = here(blockNamed('the first request').code).split(/^#.*$/m);
	assert.deepEqual(
		[client?.includes('curl'), rest],
		[true, []],
		'a comment stands between the servers and the request',
	);
	writeFileSync(join(dir, 'log'), '');
	const logged = () => readFileSync(join(dir, 'log'), 'utf8');
	const shell = spawn('sh', ['-c', `{ ${servers} wait; } >> log 2>&1`], {
		cwd: dir,
		env,
		detached: true,
		stdio: 'ignore',
	});
	try {
		await until(() => logged().includes('"message":"ready"'), logged, 30_000);
		const answer = execFileSync('sh', ['-c', client!], {
			cwd: dir,
			env,
			encoding: 'utf8',
			stdio: ['ignore', 'pipe', 'pipe'],
		});
		assert.equal(answer, 'hello alice\n');
	} finally {
		await stop(shell);
	}
});

/** A folder with `node`, and with `proxy` as npm would install it. */
function proxyCommand(dir: string): string {
	const bin = join(dir, 'bin');
	mkdirSync(bin);
	const conditions = BODY_MODE === 'streaming' ? '-C boxed_body' : '';
	const programs = { node: '', proxy: `${conditions} '${join(ROOT, 'src/main.ts')}'` };
	for (const [name, args] of Object.entries(programs)) {
		writeFileSync(join(bin, name), `#!/bin/sh\nexec '${process.execPath}' ${args} "$@"\n`);
		chmodSync(join(bin, name), 0o755);
	}
	return bin;
}

/** The shell and its children, which are a group of their own. */
async function stop(shell: ChildProcess): Promise<void> {
	const ended = once(shell, 'close');
	process.kill(-shell.pid!, 'SIGTERM');
	await ended;
}

async function freePort(): Promise<number> {
	const server = createServer().listen(0, '127.0.0.1');
	await once(server, 'listening');
	const { port } = server.address() as AddressInfo;
	server.close();
	await once(server, 'close');
	return port;
}
