import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { accessSync, constants, existsSync, globSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { build } from '../../../tools/build/bundle.ts';
import { withJavaScriptSpecifiers } from '../../../tools/build/declarations.ts';
import { parseFeatures } from '../../../tools/build/features.ts';
import { bundledPackages, licenceText } from '../../../tools/build/licences.ts';
import { commands, entryPoints, isExternal } from '../../../tools/build/manifest.ts';
import { fakePackage, MANIFEST, SOURCES } from './fake-package.ts';

const BUILD = join(import.meta.dirname, '../../../tools/build.ts');

function run(...args: string[]): string {
	return execFileSync(process.execPath, args, { encoding: 'utf8' }).trim();
}

describe('a build', () => {
	test('without features is an executable command in collected mode', async (t) => {
		const root = fakePackage(t, SOURCES);
		await build({ root, outDir: join(root, 'dist'), features: [] });
		const main = join(root, 'dist/main.js');
		accessSync(main, constants.X_OK);
		assert.equal(run(main, '--version'), 'fake 1.2.3 collected');
	});

	test('of dist-streaming has the commands of that folder, and no declarations', async (t) => {
		const root = fakePackage(t, SOURCES);
		const outDir = join(root, 'dist-streaming');
		await build({ root, outDir, features: ['boxed_body'], artefact: 'dist-streaming' });
		assert.equal(run(join(outDir, 'main.js'), '--version'), 'fake 1.2.3 streaming');
		assert.deepEqual(globSync('**/*.d.ts', { cwd: outDir }), []);
	});

	test('with boxed_body is in streaming mode, in its threads too', async (t) => {
		const root = fakePackage(t, SOURCES);
		await build({ root, outDir: join(root, 'dist'), features: ['boxed_body'] });
		assert.equal(run(join(root, 'dist/main.js'), '--version'), 'fake 1.2.3 streaming');
		assert.equal(run(join(root, 'dist/main.js')), 'thread streaming');
	});

	test('bundles a development dependency beside its licence, and loads it only where it is asked for', async (t) => {
		const root = fakePackage(t, SOURCES);
		const { chunks } = await build({ root, outDir: join(root, 'dist'), features: [] });
		assert.equal(run(join(root, 'dist/main.js'), 'x509'), 'function');
		assert.match(readFileSync(join(root, 'dist/THIRD_PARTY_LICENSES.txt'), 'utf8'), /^pvtsutils [\d.]+ \(MIT\)$/m);
		const loadsIt = chunks.filter(({ imports }) => imports.includes('chunks/x509.js')).map(({ name }) => name);
		assert.deepEqual(loadsIt, ['lazy']);
	});

	test('leaves what npm installs with the package outside', async (t) => {
		const manifest = { ...MANIFEST, dependencies: { pvtsutils: '1' } };
		const root = fakePackage(t, { ...SOURCES, 'package.json': JSON.stringify(manifest) });
		const { chunks } = await build({ root, outDir: join(root, 'dist'), features: [] });
		assert.deepEqual(chunks.find(({ name }) => name === 'lazy')?.imports, ['pvtsutils']);
		assert.equal(existsSync(join(root, 'dist/THIRD_PARTY_LICENSES.txt')), false);
	});

	test('puts files that are read when it runs beside the bundle, those of packages with their licence', async (t) => {
		const cli = `import { readFileSync } from 'node:fs';
export const run = async () => console.log([
	readFileSync(new URL('./page.css', import.meta.url), 'utf8'),
	readFileSync(new URL(import.meta.resolve('uplot/dist/uPlot.min.css')), 'utf8').length > 0,
].join(' '));
`;
		const root = fakePackage(t, { ...SOURCES, 'src/cli.ts': cli, 'src/page.css': 'a{}' });
		await build({ root, outDir: join(root, 'dist'), features: [] });
		assert.equal(run(join(root, 'dist/main.js')), 'a{} true');
		assert.deepEqual(readdirSync(join(root, 'dist/assets')).sort(), ['page.css', 'uPlot.min.css']);
		assert.match(readFileSync(join(root, 'dist/THIRD_PARTY_LICENSES.txt'), 'utf8'), /^uplot [\d.]+ \(MIT\)$/m);
	});

	test('removes what an earlier one left', async (t) => {
		const root = fakePackage(t, { ...SOURCES, 'dist/stale.js': '' });
		await build({ root, outDir: join(root, 'dist'), features: [] });
		assert.equal(existsSync(join(root, 'dist/stale.js')), false);
	});

	test('writes each export with its declarations, which name files that exist', async (t) => {
		const exports = { './embed/node': { types: './dist/embed/node.d.ts', default: './dist/embed/node.js' } };
		const root = fakePackage(t, {
			...SOURCES,
			'package.json': JSON.stringify({ ...MANIFEST, exports }),
			'tsconfig.json': readFileSync(join(import.meta.dirname, '../../../tsconfig.json'), 'utf8'),
			'tsconfig.declarations.json': readFileSync(
				join(import.meta.dirname, '../../../packages/gate/tsconfig.declarations.json'),
				'utf8',
			).replace('../../tsconfig.json', './tsconfig.json'),
			'src/gates/claims.ts': 'export interface Claims { readonly sub: string }\n',
			'src/embed/node.ts': `import type { Claims } from '../gates/claims.ts';
export function claims(): Claims { return { sub: 'a' }; }
`,
		});
		await build({ root, outDir: join(root, 'dist'), features: [] });
		assert.match(readFileSync(join(root, 'dist/embed/node.d.ts'), 'utf8'), /from '\.\.\/gates\/claims\.js'/);
		assert.ok(existsSync(join(root, 'dist/gates/claims.d.ts')));
		assert.equal(
			run('-p', `import('${join(root, 'dist/embed/node.js')}').then((m) => console.log(m.claims().sub)); ''`),
			'a',
		);
	});

	for (const { what, file, text, message } of [
		{
			what: 'an import that leads nowhere',
			file: 'src/lazy.ts',
			text: "import 'no-such-package';",
			message: /no-such-package/,
		},
		{
			what: 'a thread whose file cannot be read off the code',
			file: 'src/lazy.ts',
			text: "const name = './data/worker'; export const bytes = new URL(name + '.ts', import.meta.url);",
			message: /with a literal/,
		},
		{
			what: 'a command without its first line',
			file: 'src/main.ts',
			text: "await import('./cli.ts');",
			message: /must begin with #!/,
		},
		{
			what: 'an entry point without a source',
			file: 'package.json',
			text: JSON.stringify({ ...MANIFEST, exports: './dist/gone.js' }),
			message: /publishes src\/gone\.ts, which does not exist/,
		},
	]) {
		test(`refuses ${what}`, async (t) => {
			const root = fakePackage(t, SOURCES);
			writeFileSync(join(root, file), text);
			await assert.rejects(build({ root, outDir: join(root, 'dist'), features: [] }), message);
		});
	}
});

describe('the command line of the build', () => {
	test('takes features in one list and in several', () => {
		assert.deepEqual(parseFeatures(['boxed_body,boxed_body', 'boxed_body']), ['boxed_body']);
		assert.deepEqual(parseFeatures([]), []);
	});

	for (const args of [['--features', 'turbo'], ['--features', ''], ['boxed_body'], ['--feature', 'boxed_body']]) {
		test(`refuses ${JSON.stringify(args)} with exit code 2 and the usage`, () => {
			const { status, stderr } = spawnSync(process.execPath, [BUILD, ...args], { encoding: 'utf8' });
			assert.equal(status, 2);
			assert.match(stderr, /features: boxed_body/);
		});
	}

	test('refuses features that npm kept to itself, for want of a --', () => {
		const env = { ...process.env, npm_config_features: 'boxed_body' };
		const { status, stderr } = spawnSync(process.execPath, [BUILD], { encoding: 'utf8', env });
		assert.equal(status, 2);
		assert.match(stderr, /npm run build -- /);
	});
});

test('entry points are what bin and exports publish', () => {
	const exports = { './embed': { types: './dist/embed/index.d.ts', default: './dist/embed/index.js' } };
	assert.deepEqual(entryPoints({ name: 'a', version: '1', bin: { proxy: 'dist/main.js' }, exports }), {
		main: 'src/main.ts',
		'embed/index': 'src/embed/index.ts',
	});
	assert.throws(() => entryPoints({ name: 'a', version: '1', bin: { proxy: 'src/main.js' } }), /src\/main\.js/);
});

test('each artefact has the entry points that name its folder', () => {
	const bin = { a: 'dist/main.js', b: 'dist-streaming/main.js' };
	const manifest = { name: 'a', version: '1', bin, exports: './dist/lib.js' };
	assert.deepEqual(entryPoints(manifest), { main: 'src/main.ts', lib: 'src/lib.ts' });
	assert.deepEqual(entryPoints(manifest, 'dist-streaming'), { main: 'src/main.ts' });
	assert.deepEqual([commands(manifest), commands(manifest, 'dist-streaming')], [['main'], ['main']]);
});

test('a package stays outside with its subpaths, and no other one whose name begins alike', () => {
	const manifest = { name: 'a', version: '1', dependencies: { zod: '4' }, peerDependencies: { hono: '4' } };
	for (const name of ['zod', 'zod/mini', 'hono/tiny', 'node:fs']) assert.equal(isExternal(manifest, name), true, name);
	for (const name of ['zodiac', './zod.ts', '#body', 'jose']) assert.equal(isExternal(manifest, name), false, name);
});

test('the packages of bundled modules are found below scopes and in nested node_modules', () => {
	const ids = ['/r/src/a.ts', '/r/node_modules/@s/p/lib/x.js', '/r/node_modules/a/node_modules/b/i.js', '\0virtual'];
	assert.deepEqual(bundledPackages(ids), ['/r/node_modules/@s/p', '/r/node_modules/a/node_modules/b']);
});

test('a bundled package of unknown licence stops the build', (t) => {
	const folder = fakePackage(t, { 'package.json': JSON.stringify({ name: 'secret', version: '1.0.0' }) });
	assert.throws(() => licenceText([folder]), /secret is bundled, and its licence is unknown/);
});

test('declarations refer to .js files in every way of importing, and leave other text alone', () => {
	assert.equal(
		withJavaScriptSpecifiers(
			`import type { A } from './a.ts';\nexport * from "../b.ts";\ntype C = import('./c.ts').C; // see x.ts`,
		),
		`import type { A } from './a.js';\nexport * from "../b.js";\ntype C = import('./c.js').C; // see x.ts`,
	);
});
