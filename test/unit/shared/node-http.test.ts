import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';

const SOURCES = join(import.meta.dirname, '../../../packages/proxy/src');

test('no module of the proxy imports node:http but for its types, since that would load fetch into each thread', () => {
	const imports = globSync('**/*.ts', { cwd: SOURCES }).filter((file) =>
		/^import (?!type ).* from 'node:http';$/m.test(readFileSync(join(SOURCES, file), 'utf8')),
	);
	assert.deepEqual(imports, []);
});
