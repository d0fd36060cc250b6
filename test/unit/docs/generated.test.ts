/** Generated pages and files are up to date, and the hand-written tables of reference pages agree with the code. */
import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { Ajv } from 'ajv';
import { grpcStatusOf } from '../../../packages/gate/src/gates/grpc.ts';
import * as rejections from '../../../packages/gate/src/gates/rejection.ts';
import { PROGRAMS } from '../../../packages/proxy/src/cli/command.ts';
import { configSchemaText, type JsonSchema, tableOf } from '../../../packages/proxy/src/config/json-schema.ts';
import { parseToml } from '../../../packages/proxy/src/config/toml.ts';
import { nodeWarnings } from '../../../packages/proxy/src/control/start-warnings.ts';
import { EXAMPLES } from '../../../tools/docs/configuration-examples.ts';
import { fill, generatedFiles } from '../../../tools/docs/files.ts';
import { ROOT, readPage } from '../../fixtures/doc-blocks.ts';

describe('generated text', () => {
	for (const { path, text } of generatedFiles(ROOT)) {
		it(`is up to date in ${path}`, () => assert.equal(readPage(path), text, 'run npm run docs'));
	}

	it('replaces the text between its markers, and needs a part for each marker and a marker for each part', () => {
		const page = 'a\n<!-- made from the code: x -->\nold\n<!-- end -->\nb\n';
		assert.equal(fill(page, { x: () => 'new' }, 'p'), page.replace('old', '\nnew\n'));
		assert.throws(() => fill(page, { x: () => '', y: () => '' }, 'p'), /p: no marker for y/);
		assert.throws(() => fill(page, {}, 'p'), /p: nothing is made for the marker x/);
	});

	it('of a man page is in the package of each program', () => {
		const { man, files } = JSON.parse(readPage('packages/proxy/package.json'));
		assert.deepEqual([man, files.includes('man')], [PROGRAMS.map((program) => `./man/${program}.1`), true]);
	});
});

describe('docs/reference/configuration.md', () => {
	it('has an example of each key that the schema accepts', () => {
		const schema: JsonSchema = JSON.parse(configSchemaText());
		const ajv = new Ajv({ strict: false });
		for (const [path, value] of Object.entries(EXAMPLES)) {
			const [key, ...tables] = path.split('.').reverse() as [string, ...string[]];
			const one = tableOf(schema, tables.reverse().join('.')).properties![key] as JsonSchema;
			const { [key]: example } = parseToml(`${key} = ${value}`, 'example').root as Record<string, unknown>;
			assert.ok(ajv.validate(one, example), `${path}: ${ajv.errorsText()}`);
			assert.ok(!ajv.validate(one, { no: [{}] }), path);
		}
	});
});

it('docs/reference/logs.md has every constant reason of the source', () => {
	const sources = globSync('packages/*/src/{gates,identity,data,shared}/**/*.ts', { cwd: ROOT }).map(readPage);
	const all = (pattern: RegExp, texts = sources) =>
		texts.flatMap((text) => Array.from(text.matchAll(pattern), ([, a, b]) => a ?? b!));
	const reasons = [
		...all(/\.because\((?:'([^']+)'|"([^"]+)")\)/g),
		...all(/new ProtocolError\('([^']+)'\)/g),
		...all(/\['E[A-Z_]+', '([a-z ]+)'\]/g, [readPage('packages/gate/src/words/causes.ts')]),
	];
	const page = readPage('docs/reference/logs.md');
	assert.ok(reasons.length > 100);
	assert.deepEqual(
		reasons.filter((reason) => !page.includes(`\`${reason}\``)),
		[],
	);
});

it('docs/reference/refusals.md has the status, body, gRPC status and retry-after of each refusal, and no other', () => {
	const page = readPage('docs/reference/refusals.md');
	const made = Object.values(rejections).filter((value) => value instanceof rejections.Rejection);
	const rows = Array.from(page.matchAll(/^\| (\d{3}) \| `([^`]+)` \| (.+) \|$/gm), ([, ...cells]) => cells);
	const keyOf = (status: unknown, body: unknown) => `${status} ${body}`;
	assert.deepEqual(
		new Set(rows.map(([status, body]) => keyOf(status, body))),
		new Set(made.map(({ status, body }) => keyOf(status, body))),
	);
	for (const { status, body, headers } of made.filter(({ headers }) => headers.includes('retry-after'))) {
		const [, , words] = rows.find(([listed, text]) => keyOf(listed, text) === keyOf(status, body))!;
		assert.match(words!, /`retry-after/, keyOf(headers, body));
	}
	const codes = Array.from(page.matchAll(/^\| (\d{3}(?:, \d{3})*) \| (\d+) `/gm)).flatMap(([, statuses, code]) =>
		statuses!.split(', ').map((status) => [Number(status), Number(code)] as const),
	);
	assert.deepEqual(
		new Map(codes.toSorted()),
		new Map(made.map((one) => [one.status, grpcStatusOf(one)] as const).toSorted()),
	);
});

it('docs/how-to/install.md, docs/reference/runtime.md, SECURITY.md and the Dockerfile name the first Node without a warning', () => {
	const [, least] = /^ARG NODE_VERSION=([\d.]+)$/m.exec(readFileSync(join(ROOT, 'Dockerfile'), 'utf8'))!;
	for (const page of ['docs/how-to/install.md', 'docs/reference/runtime.md', 'SECURITY.md']) {
		assert.match(readPage(page), new RegExp(`Node ${least} or later`), page);
	}
	const [major, minor, patch] = least!.split('.').map(Number);
	assert.deepEqual(nodeWarnings(least!), []);
	assert.equal(nodeWarnings(`${major}.${minor}.${patch! - 1}`).length, 1);
});
