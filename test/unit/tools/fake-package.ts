import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import type { TestContext } from 'node:test';

const NODE_MODULES = join(import.meta.dirname, '../../../node_modules');

export const MANIFEST = {
	name: 'fake',
	version: '1.2.3',
	type: 'module',
	bin: { proxy: 'dist/main.js', 'proxy-streaming': 'dist-streaming/main.js' },
	files: ['dist', 'dist-streaming'],
	imports: { '#body': { boxed_body: './src/body/streaming.ts', default: './src/body/collected.ts' } },
};

/** The smallest package with everything that a build has to cope with: a command, a thread, `#body`, a bundled library. */
export const SOURCES = {
	'package.json': JSON.stringify(MANIFEST),
	'src/main.ts': `#!/usr/bin/env node
process.on('SIGUSR1', () => {});
await (await import('./cli.ts')).run(process.argv.slice(2));
`,
	'src/cli.ts': `import { Worker } from 'node:worker_threads';
import { bodyMode } from '#body';
export async function run(args: string[]): Promise<void> {
	if (args[0] === '--version') return console.log('fake 1.2.3 ' + bodyMode);
	if (args[0] === 'x509') return console.log(typeof (await import('./lazy.ts')).bytes);
	new Worker(new URL('./data/worker.ts', import.meta.url)).on('message', console.log);
}
`,
	'src/lazy.ts': "export { BufferSourceConverter as bytes } from 'pvtsutils';\n",
	'src/data/worker.ts': `import { parentPort } from 'node:worker_threads';
import { bodyMode } from '#body';
parentPort?.postMessage('thread ' + bodyMode);
`,
	'src/body/collected.ts': "export const bodyMode = 'collected';\n",
	'src/body/streaming.ts': "export const bodyMode = 'streaming';\n",
};

/** A folder with these files and the repository's node_modules; removed after the test. */
export function fakePackage(
	t: TestContext,
	files: Readonly<Record<string, string>>,
	{ linksModules = true } = {},
): string {
	const root = realpathSync(mkdtempSync(join(tmpdir(), 'fake-package-')));
	t.after(() => rmSync(root, { recursive: true }));
	for (const [name, text] of Object.entries(files)) {
		mkdirSync(dirname(join(root, name)), { recursive: true });
		writeFileSync(join(root, name), text);
	}
	if (linksModules) symlinkSync(NODE_MODULES, join(root, 'node_modules'));
	return root;
}
