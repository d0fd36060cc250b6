import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { join, posix, resolve } from 'node:path';
import { describe, test } from 'node:test';
import { readModule } from '../../../tools/checks/source.ts';

const root = resolve(import.meta.dirname, '../../..');

const GATE = '@mtls-edge-proxy/gate/';

/** What is loaded with a module, without what it imports when it is called. */
function loadedWith(...paths: string[]): { modules: string[]; builtins: string[] } {
	const modules = new Set<string>();
	const builtins = new Set<string>();
	const visit = (path: string) => {
		if (modules.has(path)) return;
		modules.add(path);
		for (const { specifier, typeOnly, dynamic } of readModule(path, readFileSync(join(root, path), 'utf8')).imports) {
			if (typeOnly || dynamic) continue;
			if (specifier.startsWith(GATE)) visit(specifier.replace(GATE, 'packages/gate/src/'));
			else if (specifier.startsWith('.')) visit(posix.join(posix.dirname(path), specifier));
			else builtins.add(specifier);
		}
	};
	for (const path of paths) visit(path);
	return { modules: [...modules].sort(), builtins: [...builtins].sort() };
}

test('nothing of OpenTelemetry is loaded without [trace], and nothing of it by a worker', () => {
	for (const start of ['packages/proxy/src/cli/serve.ts', 'packages/proxy/src/data/worker.ts']) {
		const { modules, builtins } = loadedWith(start);
		assert.deepEqual(
			builtins.filter((name) => name.startsWith('@opentelemetry/')),
			[],
		);
		assert.ok(!modules.includes('packages/proxy/src/control/trace/tracing.ts'), start);
	}
	// That is where it is asked for, and only there.
	const users = globSync('packages/*/src/**/*.ts', { cwd: root }).filter((path) =>
		readModule(path, readFileSync(join(root, path), 'utf8')).imports.some(
			({ specifier, typeOnly }) => !typeOnly && specifier.startsWith('@opentelemetry/'),
		),
	);
	assert.deepEqual(users, ['packages/proxy/src/control/trace/tracing.ts']);
});

describe('the table of commands', () => {
	test('loads no command: only descriptions, and readers of values', () => {
		const { modules, builtins } = loadedWith(
			'packages/proxy/src/cli/commands.ts',
			'packages/proxy/src/cli/arguments.ts',
		);
		const others = modules.filter((path) => !/^packages\/proxy\/src\/cli\/(commands\/[a-z-]+|[a-z-]+)\.ts$/.test(path));
		const readers = [
			'packages/proxy/src/config/authority.ts',
			'packages/proxy/src/config/units.ts',
			'packages/proxy/src/config/upstream.ts',
			'packages/proxy/src/config/wording.ts',
			'packages/gate/src/words/suggest.ts',
		];
		assert.deepEqual(others, readers.sort());
		assert.deepEqual(
			modules.filter((path) => /src\/cli\/(check|help|serve|environment|version)\.ts/.test(path)),
			[],
		);
		assert.deepEqual(builtins, ['node:net', 'node:util']);
	});

	test('starts a health check with nothing that is slow to load, because it runs every few seconds', () => {
		const { modules, builtins } = loadedWith('packages/proxy/src/cli/running/healthcheck.ts');
		assert.deepEqual(modules, [
			'packages/proxy/src/cli/command.ts',
			'packages/proxy/src/cli/running/healthcheck.ts',
			'packages/proxy/src/cli/running/metrics-client.ts',
		]);
		assert.deepEqual(builtins, ['node:net']);
	});
});
