/** What is published, on each Node that `engines` promises: installed from the tarball, with only that Node. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync, statSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { before, describe, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { createProject, type Packed, type Project, packPackages, run } from './consumer.ts';

const ROOT = resolve(import.meta.dirname, '../..');
const readManifest = (folder: string) => JSON.parse(readFileSync(join(ROOT, folder, 'package.json'), 'utf8'));
const gate = readManifest('packages/gate');
const manifest = readManifest('packages/proxy');
/** The commands of the package, each with its body mode. */
const PROGRAMS = { proxy: 'collected', 'proxy-streaming': 'streaming' };
/** By major version; npm has the binary of each platform in a separate package. */
const NODES: Readonly<Record<string, string>> = { 24: '24.21.0', 26: '26.10.0' };
const PLATFORM = `${process.platform}-${process.arch}`;
const skip = PLATFORM !== 'linux-x64' && PLATFORM !== 'linux-arm64' && `npm has no such Node for ${PLATFORM}`;
/** The demo starts two upstreams and the proxy, and asks for each outcome, ms. */
const DEMO_MS = 120_000;
/** Unpacked; ARCHITECTURE.md, "Dependencies". */
/** Packed. */
const MAX_GATE_BYTES = 120_000;
const MAX_INSTALLED_BYTES = 34_000_000;

/** Run-time dependencies that ARCHITECTURE.md says are loaded only for a feature. */
const ON_DEMAND = Array.from(
	readFileSync(join(ROOT, 'ARCHITECTURE.md'), 'utf8').matchAll(/^\| `([^`]+)` \|[^|]*\| with /gm),
	([, name]) => name!,
).filter((name) => name in manifest.dependencies);

/** Notes the packages that any thread loads. */
const NOTE_PACKAGES = `
import { appendFileSync } from 'node:fs';
import { registerHooks } from 'node:module';
registerHooks({
	load(url, context, next) {
		const name = /.*\\/node_modules\\/((?:@[^/]+\\/)?[^/]+)\\//.exec(url)?.[1];
		if (name) appendFileSync(process.env.LOADED, name + '\\n');
		return next(url, context);
	},
});
`;

let packed: Packed;
before(async () => {
	packed = await packPackages();
});

describe('the published packages', { skip }, () => {
	for (const [major, version] of Object.entries(NODES)) {
		describe(`on Node ${major}`, () => {
			let project: Project;
			let node: string;
			before(async () => {
				project = await createProject([packed.proxy, packed.gate], []);
				const name = `node-${PLATFORM}@${version}`;
				await run('npm', ['install', '--no-audit', '--no-fund', '--no-save', '--prefer-offline', name], project.dir);
				node = join(project.dir, 'node_modules', `node-${PLATFORM}`, 'bin/node');
			});

			for (const [program, mode] of Object.entries(PROGRAMS)) {
				/** As npm has linked it, on the Node of this group. */
				const call = (args: string[], env?: NodeJS.ProcessEnv) =>
					run(node, [join('node_modules/.bin', program), ...args], project.dir, env);

				test(`${program} says its version and its body mode`, async () => {
					assert.match((await call(['--version'])).stdout, new RegExp(`${manifest.version} \\(${mode} bodies`));
				});

				test(`${program} shows every outcome in its demo, and loads no package that nothing in it asks for`, {
					timeout: DEMO_MS,
				}, async () => {
					project.write('loads.mjs', NOTE_PACKAGES);
					const hook = pathToFileURL(join(project.dir, 'loads.mjs')).href;
					const { stdout } = await call(['demo', '--once'], {
						...process.env,
						NODE_OPTIONS: `--import=${hook}`,
						LOADED: join(project.dir, `loaded-by-${program}`),
					});
					assert.match(stdout, new RegExp(`body_mode=${mode}`));
					const loaded = new Set(
						readFileSync(join(project.dir, `loaded-by-${program}`), 'utf8')
							.trim()
							.split('\n'),
					);
					assert.ok(loaded.has('zod'), [...loaded].join());
					assert.deepEqual(
						ON_DEMAND.filter((name) => loaded.has(name)),
						[],
					);
				});
			}

			test('the gate is imported in all its parts', async () => {
				const parts = Object.keys(gate.exports).filter((part) => !part.endsWith('.json'));
				const imports = parts.map((part) => `await import('mtls-edge-gate${part.slice(1)}');`);
				project.write('parts.js', `${imports.join('\n')}\nconsole.log(process.versions.node);`);
				assert.equal((await run(node, ['parts.js'], project.dir)).stdout.trim(), version);
			});
		});
	}
});

const namesIn = (tarball: string) =>
	execFileSync('tar', ['--list', '--file', tarball], { encoding: 'utf8' }).trim().split('\n');

describe('what npm publishes', () => {
	test('is ready for provenance: licence, files and publishConfig', () => {
		assert.deepEqual([gate.license, manifest.license], ['MIT', 'MIT']);
		assert.equal(gate.version, manifest.version);
		assert.ok(existsSync(join(ROOT, 'LICENSE')));
		for (const { publishConfig } of [gate, manifest])
			assert.deepEqual(publishConfig, { access: 'public', provenance: true });
		assert.deepEqual(manifest.files, [
			'deploy/systemd',
			'dist',
			'dist-streaming',
			'schema',
			'man',
			'README.md',
			'CHANGELOG.md',
			'LICENSE',
		]);
		// Its address is that of the repository that publishes: release.yml writes it in before `npm publish`.
		const steps = readFileSync(join(ROOT, '.github/workflows/release.yml'), 'utf8');
		assert.match(
			steps,
			/id-token: write.*npm pkg set .*repository\.type=git repository\.url=.*run: npm publish --workspace packages\/gate --workspace packages\/proxy\n/s,
		);
	});

	test('of the gate is its built files and their documentation', () => {
		const outside = namesIn(packed.gate).filter((name) => !name.startsWith('package/dist/'));
		assert.deepEqual(
			outside.sort(),
			['CHANGELOG.md', 'LICENSE', 'README.md', 'package.json'].map((name) => `package/${name}`),
		);
		assert.ok(statSync(packed.gate).size < MAX_GATE_BYTES, `${statSync(packed.gate).size} bytes`);
	});

	test('of the proxy is its built files, their documentation, and the licences of bundled packages', () => {
		const names = namesIn(packed.proxy);
		const outside = names.filter((name) => !/^package\/dist(?:-streaming)?\//.test(name)).sort();
		assert.deepEqual(
			outside,
			[
				...[
					'CHANGELOG.md',
					'LICENSE',
					'README.md',
					'deploy/systemd/edge.service',
					'man/proxy-streaming.1',
					'man/proxy.1',
				],
				...['package.json', 'schema/config.schema.json'],
			].map((name) => `package/${name}`),
		);
		const read = (name: string) =>
			execFileSync('tar', ['--extract', '--to-stdout', '--file', packed.proxy, `package/${name}`], {
				encoding: 'utf8',
			});
		for (const folder of ['dist', 'dist-streaming'])
			assert.match(read(`${folder}/THIRD_PARTY_LICENSES.txt`), /@peculiar\/x509 [\d.]+ \(MIT\)/);
		assert.equal(read('LICENSE'), readFileSync(join(ROOT, 'LICENSE'), 'utf8'));
	});

	test('has few and small dependencies', async () => {
		const { dir } = await createProject([packed.proxy], []);
		const [bytes] = execFileSync('du', ['--bytes', '--summarize', 'node_modules'], {
			cwd: dir,
			encoding: 'utf8',
		}).split('\t');
		assert.ok(Number(bytes) < MAX_INSTALLED_BYTES, `${bytes} bytes`);
	});
});
