import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { join, posix, resolve } from 'node:path';
import { describe, test } from 'node:test';
import { readModule } from '../../../tools/checks/source.ts';

const root = resolve(import.meta.dirname, '../../..');

/** What is loaded with a module, without what it imports when it is called. */
function loadedWith(...paths: string[]): { modules: string[]; builtins: string[] } {
	const modules = new Set<string>();
	const builtins = new Set<string>();
	const visit = (path: string) => {
		if (modules.has(path)) return;
		modules.add(path);
		for (const { specifier, typeOnly, dynamic } of readModule(path, readFileSync(join(root, path), 'utf8')).imports) {
			if (typeOnly || dynamic) continue;
			if (specifier.startsWith('.')) visit(posix.join(posix.dirname(path), specifier));
			else builtins.add(specifier);
		}
	};
	for (const path of paths) visit(path);
	return { modules: [...modules].sort(), builtins: [...builtins].sort() };
}

test('nothing of OpenTelemetry is loaded without [trace], and nothing of it by a worker', () => {
	for (const start of ['src/cli/serve.ts', 'src/data/worker.ts']) {
		const { modules, builtins } = loadedWith(start);
		assert.deepEqual(
			builtins.filter((name) => name.startsWith('@opentelemetry/')),
			[],
		);
		assert.ok(!modules.includes('src/control/trace/tracing.ts'), start);
	}
	// That is where it is asked for, and only there.
	const users = globSync('src/**/*.ts', { cwd: root }).filter((path) =>
		readModule(path, readFileSync(join(root, path), 'utf8')).imports.some(
			({ specifier, typeOnly }) => !typeOnly && specifier.startsWith('@opentelemetry/'),
		),
	);
	assert.deepEqual(users, ['src/control/trace/tracing.ts']);
});

describe('the table of commands', () => {
	test('loads no command: only descriptions, and readers of values', () => {
		const { modules, builtins } = loadedWith('src/cli/commands.ts', 'src/cli/arguments.ts');
		const others = modules.filter((path) => !/^src\/cli\/(commands\/[a-z-]+|[a-z-]+)\.ts$/.test(path));
		const readers = [
			'src/config/authority.ts',
			'src/config/units.ts',
			'src/config/upstream.ts',
			'src/config/wording.ts',
			'src/shared/suggest.ts',
		];
		assert.deepEqual(others, readers);
		assert.deepEqual(
			modules.filter((path) => /src\/cli\/(check|help|serve|environment|version)\.ts/.test(path)),
			[],
		);
		assert.deepEqual(builtins, ['node:net', 'node:util']);
	});

	test('starts a health check with nothing that is slow to load, because it runs every few seconds', () => {
		const { modules, builtins } = loadedWith('src/cli/running/healthcheck.ts');
		assert.deepEqual(modules, [
			'src/cli/command.ts',
			'src/cli/running/healthcheck.ts',
			'src/cli/running/metrics-client.ts',
		]);
		assert.deepEqual(builtins, ['node:net']);
	});
});
