import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { accessSync, constants, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, type TestContext, test } from 'node:test';
import { build } from '../../../tools/build/bundle.ts';
import { licenceText } from '../../../tools/build/licences.ts';
import { fakePackage, SOURCES } from './fake-package.ts';

const BUILD = join(import.meta.dirname, '../../../tools/build.ts');

function run(...args: string[]): string {
	return execFileSync(process.execPath, args, { encoding: 'utf8' }).trim();
}

async function built(t: TestContext, files = {}, features: string[] = []) {
	const root = fakePackage(t, { ...SOURCES, ...files });
	const { chunks } = await build({ root, outDir: join(root, 'dist'), features });
	const read = (name: string) => readFileSync(join(root, 'dist', name), 'utf8');
	return { main: join(root, 'dist/main.js'), chunks, read, assets: join(root, 'dist/assets') };
}

describe('a build', () => {
	test('is an executable command in its body mode, in its threads too', async (t) => {
		for (const [features, mode] of [
			[[], 'collected'],
			[['boxed_body'], 'streaming'],
		] as const) {
			const { main } = await built(t, {}, [...features]);
			accessSync(main, constants.X_OK);
			assert.equal(run(main, '--version'), `fake 1.2.3 ${mode}`);
			assert.equal(run(main), `thread ${mode}`);
		}
	});

	test('bundles a development dependency with its licence, and loads it only if it is asked for', async (t) => {
		const { main, chunks, read } = await built(t);
		assert.equal(run(main, 'x509'), 'function');
		assert.match(read('THIRD_PARTY_LICENSES.txt'), /^pvtsutils [\d.]+ \(MIT\)$/m);
		const holdIt = chunks.filter(({ moduleIds }) => moduleIds.some((id) => id.includes('/node_modules/pvtsutils/')));
		assert.deepEqual(
			holdIt.map(({ name, isDynamicEntry }) => [name, isDynamicEntry]),
			[['lazy', true]],
		);
	});

	test('puts files that are read when it runs next to the bundle, those of packages with their licence', async (t) => {
		const cli = `import { readFileSync } from 'node:fs';
export const run = async () => console.log([
	readFileSync(new URL('./page.css', import.meta.url), 'utf8'),
	readFileSync(new URL(import.meta.resolve('uplot/dist/uPlot.min.css')), 'utf8').length > 0,
].join(' '));
`;
		const { main, read, assets } = await built(t, { 'src/cli.ts': cli, 'src/page.css': 'a{}' });
		assert.equal(run(main), 'a{} true');
		assert.deepEqual(readdirSync(assets).sort(), ['page.css', 'uPlot.min.css']);
		assert.match(read('THIRD_PARTY_LICENSES.txt'), /^uplot [\d.]+ \(MIT\)$/m);
	});

	test('refuses an import that leads nowhere, and a thread whose file cannot be read off the code', async (t) => {
		const thread = "const name = './data/worker'; export const bytes = new URL(name + '.ts', import.meta.url);";
		await assert.rejects(built(t, { 'src/lazy.ts': "import 'no-such-package';" }), /no-such-package/);
		await assert.rejects(built(t, { 'src/lazy.ts': thread }), /with a literal/);
	});
});

test('the command line of the build refuses an unknown feature, and features that npm kept for want of a --', () => {
	for (const [args, variables, message] of [
		[['--features', 'turbo'], {}, /features: boxed_body/],
		[[], { npm_config_features: 'boxed_body' }, /npm run build -- /],
	] as const) {
		const env = { ...process.env, ...variables };
		const { status, stderr } = spawnSync(process.execPath, [BUILD, ...args], { encoding: 'utf8', env });
		assert.equal(status, 2);
		assert.match(stderr, message);
	}
});

test('a bundled package of unknown licence stops the build', (t) => {
	const folder = fakePackage(t, { 'package.json': JSON.stringify({ name: 'secret', version: '1.0.0' }) });
	assert.throws(() => licenceText([folder]), /secret is bundled, and its licence is unknown/);
});
