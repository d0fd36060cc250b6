import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { accessSync, constants, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { build } from '../../../tools/build/bundle.ts';
import { withJavaScriptSpecifiers } from '../../../tools/build/declarations.ts';
import { licenceText } from '../../../tools/build/licences.ts';
import { entryPoints } from '../../../tools/build/manifest.ts';
import { fakePackage, SOURCES } from './fake-package.ts';

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

	test('with boxed_body is in streaming mode, in its threads too', async (t) => {
		const root = fakePackage(t, SOURCES);
		await build({ root, outDir: join(root, 'dist'), features: ['boxed_body'] });
		assert.equal(run(join(root, 'dist/main.js'), '--version'), 'fake 1.2.3 streaming');
		assert.equal(run(join(root, 'dist/main.js')), 'thread streaming');
	});

	test('bundles a development dependency beside its licence, and loads it only if it is asked for', async (t) => {
		const root = fakePackage(t, SOURCES);
		const { chunks } = await build({ root, outDir: join(root, 'dist'), features: [] });
		assert.equal(run(join(root, 'dist/main.js'), 'x509'), 'function');
		assert.match(readFileSync(join(root, 'dist/THIRD_PARTY_LICENSES.txt'), 'utf8'), /^pvtsutils [\d.]+ \(MIT\)$/m);
		const loadsIt = chunks.filter(({ imports }) => imports.includes('chunks/x509.js')).map(({ name }) => name);
		assert.deepEqual(loadsIt, ['lazy']);
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

	test('refuses an import that leads nowhere, and a thread whose file cannot be read off the code', async (t) => {
		const thread = "const name = './data/worker'; export const bytes = new URL(name + '.ts', import.meta.url);";
		for (const [text, message] of [
			["import 'no-such-package';", /no-such-package/],
			[thread, /with a literal/],
		] as const) {
			const root = fakePackage(t, { ...SOURCES, 'src/lazy.ts': text });
			await assert.rejects(build({ root, outDir: join(root, 'dist'), features: [] }), message);
		}
	});
});

describe('the command line of the build', () => {
	test('refuses an unknown feature with exit code 2 and the usage', () => {
		const { status, stderr } = spawnSync(process.execPath, [BUILD, '--features', 'turbo'], { encoding: 'utf8' });
		assert.equal(status, 2);
		assert.match(stderr, /features: boxed_body/);
	});

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
