/** docs/reference/configuration.md: every key has a section of its own, with an example that the schema accepts. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Ajv } from 'ajv';
import { configSchemaText, type JsonSchema, tableOf } from '../../../packages/proxy/src/config/json-schema.ts';
import { KEYS } from '../../../packages/proxy/src/config/schema.ts';
import { parseToml } from '../../../packages/proxy/src/config/toml.ts';
import { EXAMPLES } from '../../../tools/docs/configuration-examples.ts';
import { readPage } from '../../fixtures/doc-blocks.ts';

const schema: JsonSchema = JSON.parse(configSchemaText());
const ajv = new Ajv({ strict: false });

describe('docs/reference/configuration.md', () => {
	const page = readPage('docs/reference/configuration.md');

	for (const [path, value] of Object.entries(EXAMPLES)) {
		it(`${path}: the schema accepts the example, and refuses a value of another kind`, () => {
			const [key, ...tables] = path.split('.').reverse() as [string, ...string[]];
			const one = tableOf(schema, tables.reverse().join('.')).properties![key] as JsonSchema;
			const { [key]: example } = parseToml(`${key} = ${value}`, 'example').root as Record<string, unknown>;
			assert.ok(ajv.validate(one, example), ajv.errorsText());
			assert.ok(!ajv.validate(one, { no: [{}] }));
			assert.ok(page.includes(`\n#### \`${path}\`\n`));
		});
	}

	it('calls a list of whole numbers what it is, with its bounds', () => {
		const [, section] = page.split('\n#### `breaker.grpc_statuses`\n');
		assert.match(section!, /^- List of whole numbers, each 1 to 16\. /m);
	});

	it('names every key of every table', () => {
		for (const [table, keys] of KEYS) {
			const heading = table === '' ? '### Above the first table' : new RegExp(`^### \`\\[+${table}\\]+\`$`, 'm');
			const start = page.search(heading);
			assert.ok(start > 0, table);
			const [section] = page.slice(start + 4).split('\n### ');
			for (const key of keys) {
				if (table === '' && KEYS.has(key)) continue;
				assert.ok(section!.includes(`[\`${key}\`](#`), `${table}: ${key}`);
			}
		}
	});
});
