import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { symlinkSync } from 'node:fs';
import { readdir, readFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { before, describe, test } from 'node:test';
import { WebSocket } from 'ws';
import { createWorkspace, type Workspace } from '../../packages/proxy/src/cli/demo/workspace.ts';
import { type Answer, connectTls, type Protocol, request } from '../fixtures/clients.ts';
import { blockNamed, blocksIn } from '../fixtures/doc-blocks.ts';
import { freePort } from '../fixtures/free-port.ts';
import { Changes, within } from '../fixtures/wait.ts';
import { createProject, type Packed, type Project, packPackages, run } from './consumer.ts';
import { type DocExample, fragmentsIn, programsIn } from './doc-examples.ts';
import { TYPE_CHECKS } from './type-checks.ts';

const ROOT = resolve(import.meta.dirname, '../..');
const PARTS = ['', '/node', '/fastify', '/hono', '/fetch', '/tls', '/grpc', '/connect'];
const FRAMEWORKS = ['express', 'fastify', 'hono', '@hono/node-server', 'koa', 'cors', 'socket.io', 'ws', 'undici'];
const RPC = ['@grpc/grpc-js', '@connectrpc/connect', '@connectrpc/connect-node', '@bufbuild/protobuf'];
const NEST = ['@nestjs/core', '@nestjs/common', '@nestjs/platform-express', 'reflect-metadata', 'rxjs'];
const TYPES = ['typescript', '@types/node', '@types/express', '@types/koa', '@types/cors', '@types/ws'];
/** 35 MB that nothing else needs. */
const TAPLO = '@taplo/cli@0.7.0';
/** HTTP/2 where the framework has it. */
const PROTOCOLS: Readonly<Record<string, readonly Protocol[]>> = {
	'express.ts': ['h1'],
	'cors.ts': ['h1'],
	'nest.ts': ['h1'],
};

const examples = programsIn('docs/reference/embed.md');
let packed: Packed;
let project: Project;
let demo: Workspace;

before(async () => {
	packed = await packPackages();
	project = await createProject([packed.gate, packed.proxy], [...FRAMEWORKS, ...RPC, ...NEST, ...TYPES]);
	demo = await createWorkspace(join(project.dir, '.demo'), Date.now());
});

describe('the packed gate', () => {
	test('is imported in all its parts by a project that has no framework, and brings no other package', async () => {
		const bare = await createProject([packed.gate], []);
		const installed = await readdir(join(bare.dir, 'node_modules'));
		assert.deepEqual(
			installed.filter((name) => !name.startsWith('.')),
			['mtls-edge-gate'],
		);
		const imports = PARTS.map((part) => `console.log(Object.keys(await import('mtls-edge-gate${part}')).join());`);
		bare.write('imports.js', imports.join('\n'));
		assert.deepEqual((await bare.node('imports.js')).trim().split('\n'), [
			'GateError,RefusedError,authorizationOf,certificateOf,createGate,grpcStatusOf',
			'claimsOf,guard,guardUpgrade',
			'default,guard',
			'claimsOf,guard',
			'guard',
			'GateError,createMtlsServer',
			'admittedOf,gateInterceptor',
			'admittedOf,gated',
		]);
	});

	test('gives one GateError, whichever part it is imported from', async () => {
		project.write('same.js', SAME_ERROR);
		assert.equal(await project.node('same.js'), 'true\n');
	});

	test('passes publint, like the packed proxy', async () => {
		for (const tarball of [packed.gate, packed.proxy]) {
			const { stdout } = await run(bin('publint'), ['run', tarball, '--strict'], ROOT);
			assert.match(stdout, /All good!/);
		}
	});

	test('passes "are the types wrong"', async () => {
		// It tells of every problem by its exit code. The package is ESM only, so `require` is no promise.
		const { stdout } = await run(bin('attw'), [packed.gate, '--profile', 'esm-only', '--format', 'json'], ROOT);
		const { entrypoints } = JSON.parse(stdout).analysis;
		assert.deepEqual(
			Object.keys(entrypoints).filter((name) => name !== './package.json'),
			PARTS.map((part) => `.${part}`),
		);
	});
});

describe("the configuration file's JSON Schema", () => {
	const [sample] = blocksIn('docs/reference/configuration.md').filter(({ language }) => language === 'toml');

	test('is what the command prints and what the package has', async () => {
		const { code } = blockNamed('the schema of the file');
		await run('sh', ['-c', `PATH="$PWD/node_modules/.bin:$PATH"\n${code}`], project.dir);
		const installed = await readFile(
			join(project.dir, 'node_modules/mtls-edge-proxy/schema/config.schema.json'),
			'utf8',
		);
		assert.equal(await readFile(join(project.dir, 'config.schema.json'), 'utf8'), installed);
	});

	test("is found and understood by taplo, which editors' plug-ins are made of", async () => {
		await run('npm', ['install', '--no-audit', '--no-fund', '--no-save', '--prefer-offline', TAPLO], project.dir);
		const installed = './node_modules/mtls-edge-proxy/schema/config.schema.json';
		const check = async (code: string) => {
			project.write('config.toml', code);
			await run(join(project.dir, 'node_modules/.bin/taplo'), ['check', 'config.toml'], project.dir);
		};
		for (const code of [sample!.code, sample!.code.replace('./config.schema.json', installed)]) {
			await check(code);
			await assert.rejects(
				check(code.replace('cooldown_secs = 60', 'cooldown_secs = 0')),
				// A number, or a text with a unit.
				/0 is not valid under any of the schemas/,
			);
			await assert.rejects(check(code.replace('audience', 'audiense')), /Additional properties are not allowed/);
			await assert.rejects(check(code.replace(/^key_path.*$/m, '')), /"key_path" is a required property/);
			await assert.rejects(check(code.replace('http://', 'ftp://')), /does not match/);
		}
	});
});

describe('types', () => {
	const resolutions = {
		nodenext: { module: 'nodenext', moduleResolution: 'nodenext' },
		bundler: { module: 'esnext', moduleResolution: 'bundler' },
	};
	for (const [name, resolution] of Object.entries(resolutions)) {
		test(`of the examples and the promises hold under moduleResolution ${name}`, async () => {
			for (const { file, code } of examples) project.write(`src/${file}`, code);
			const pages = ['docs/reference/embed.md', 'packages/gate/README.md'];
			for (const [i, code] of pages.flatMap(fragmentsIn).entries()) project.write(`src/fragment-${i}.ts`, code);
			project.write('src/type-checks.ts', TYPE_CHECKS);
			const common = { ...resolution, target: 'es2024', types: ['node'], strict: true, noEmit: true, ...DECORATORS };
			const variants = [
				{ lib: ['es2024', 'esnext.disposable'], exactOptionalPropertyTypes: true, skipLibCheck: true },
				// With everybody's declarations checked, too; those of Hono need a browser's.
				{ lib: ['es2024', 'esnext.disposable', 'dom'], skipLibCheck: false },
			];
			for (const variant of variants) {
				// Koa's declarations do not fit those of a package that they name.
				const exclude = variant.skipLibCheck ? [] : ['src/koa.ts'];
				project.write(
					'tsconfig.json',
					JSON.stringify({ compilerOptions: { ...common, ...variant }, include: ['src'], exclude }),
				);
				await project.node('node_modules/typescript/bin/tsc');
			}
		});
	}
});

describe('the documentation', () => {
	test('has a program for every adapter', () => {
		const files = programsIn('docs/reference/embed.md').map(({ file }) => file);
		assert.deepEqual(files, [
			...['express.ts', 'node.ts', 'fastify.ts', 'hono.ts', 'fetch.ts'],
			...['koa.ts', 'nest.ts', 'websocket.ts', 'cors.ts'],
		]);
	});

	test('has a command line with the printed answer', async () => {
		const { page, code } = blockNamed('the command line of the examples');
		const [start, ...command] = code.split('\n');
		assert.equal(start, 'node express.ts');
		await using program = await startExample(programsIn(page).find(({ file }) => file === 'express.ts')!);
		const { stdout } = await run('sh', ['-c', command.join('\n').replace(':8444', `:${program.port}`)], project.dir);
		assert.equal(stdout, '{"sub":"tenant-a","scope":"demo"}');
	});

	for (const example of examples) {
		test(`${example.source}: ${example.file} works as its page says`, async () => {
			await using program = await startExample(example);
			await guards(program, example);
			await BEYOND[example.file]?.(program);
			await assert.rejects(async () => {
				const socket = await connectTls(program, { cert: null, tls: { ca: demo.ca } });
				await once(socket.resume(), 'data');
			});
			program.child.kill('SIGTERM');
			assert.deepEqual(await within(program.exited, 'the end of the example'), [0, null]);
		});
	}
});

describe('the oldest frameworks that the package takes next to it', () => {
	for (const [file, framework] of [
		['express.ts', 'express@4'],
		['fastify.ts', 'fastify@4.0.0'],
		['fastify.ts', 'fastify@4'],
	] as const) {
		test(`the guard of ${file} with ${framework}`, async () => {
			const old = await createProject([packed.gate], [framework]);
			symlinkSync(join(project.dir, '.demo'), join(old.dir, '.demo'));
			const example = examples.find((one) => one.file === file)!;
			await using program = await startExample(example, old);
			await guards(program, example);
		});
	}
});

/** The example serves only the callers that it should. */
async function guards(program: RunningExample, { file }: DocExample): Promise<void> {
	const { client: cert, ca, tokens } = demo;
	for (const protocol of PROTOCOLS[file] ?? ['h1', 'h2']) {
		const ask = (path: string, token: string | null): Promise<Answer> =>
			request(protocol, program, { path, token, cert, tls: { ca } });
		assert.equal((await ask('/health', null)).text, 'ok');
		const refused = await ask('/whoami', null);
		assert.deepEqual([refused.status, refused.text], [401, 'unauthorized']);
		assert.equal((await ask('/whoami', tokens['tenant-a'])).text, '{"sub":"tenant-a","scope":"demo"}');
	}
}

/** What some examples show in addition to `/whoami`. */
const BEYOND: Readonly<Record<string, (program: RunningExample) => Promise<void>>> = {
	'websocket.ts': async ({ port }) => {
		const connect = (headers: Record<string, string>) => {
			const { certPem: cert, keyPem: key } = demo.client;
			return new WebSocket(`wss://localhost:${port}`, { ca: demo.ca, cert, key, headers });
		};
		const [, refused] = await once(
			connect({}).on('error', () => {}),
			'unexpected-response',
		);
		assert.equal(refused.statusCode, 401);
		const ws = connect({ authorization: `Bearer ${demo.tokens['tenant-a']}` });
		assert.equal(String((await once(ws, 'message'))[0]), '{"sub":"tenant-a","scope":"demo"}');
		ws.terminate();
	},
	'cors.ts': async (program) => {
		const headers = { origin: 'https://app.example', 'access-control-request-method': 'GET' };
		const options = { path: '/whoami', token: null, headers, cert: demo.client, tls: { ca: demo.ca } };
		for (const [method, status] of [
			['OPTIONS', 204],
			['GET', 401],
		] as const) {
			const answer = await request('h1', program, { ...options, method });
			assert.equal(answer.status, status);
			assert.equal(answer.headers['access-control-allow-origin'], 'https://app.example');
		}
	},
};

/** As Nest has its projects compiled. */
const DECORATORS = { experimentalDecorators: true, emitDecoratorMetadata: true };

const SAME_ERROR = `
import { GateError as one } from 'mtls-edge-gate';
import { GateError as other } from 'mtls-edge-gate/tls';
console.log(one === other);
`;

function bin(name: string): string {
	return join(ROOT, 'node_modules/.bin', name);
}

interface RunningExample extends AsyncDisposable {
	readonly port: number;
	readonly child: ChildProcess;
	readonly exited: Promise<[number | null, NodeJS.Signals | null]>;
}

/** Runs it as its reader would, in the project's folder, and waits until it listens. */
async function startExample({ file, code }: DocExample, where = project): Promise<RunningExample> {
	where.write(file, code);
	const program = code.includes('@Controller') ? await compile(file) : file;
	const port = Number(await freePort());
	const env = { ...process.env, PORT: String(port) };
	const child = spawn(process.execPath, [program], { cwd: where.dir, env, stdio: ['ignore', 'pipe', 'pipe'] });
	const exited = once(child, 'close') as RunningExample['exited'];
	const changes = new Changes();
	let output = '';
	for (const stream of [child.stdout, child.stderr]) {
		stream.setEncoding('utf8').on('data', (text: string) => {
			output += text;
			changes.notify();
		});
	}
	await changes.until(
		() => output.includes('listening'),
		() => `${file} to listen: ${output}`,
	);
	const stop = async () => {
		child.kill('SIGKILL');
		await exited;
	};
	return { port, child, exited, [Symbol.asyncDispose]: stop };
}

/** For syntax that Node cannot run: decorators. @returns the file to run. */
async function compile(file: string): Promise<string> {
	const module = { module: 'nodenext', target: 'es2024', types: ['node'], strict: true, skipLibCheck: true };
	const compilerOptions = { ...module, ...DECORATORS, rootDir: '.', outDir: 'compiled' };
	project.write('tsconfig.compile.json', JSON.stringify({ compilerOptions, files: [file] }));
	await project.node('node_modules/typescript/bin/tsc', '--project', 'tsconfig.compile.json');
	return join('compiled', file.replace(/ts$/, 'js'));
}
