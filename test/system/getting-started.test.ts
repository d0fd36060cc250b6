/** docs/getting-started.md and docs/operations.md, typed as somebody does who reads them: what they print is what the pages say. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { describe, test } from 'node:test';
import { blockNamed, blocksIn } from '../fixtures/doc-blocks.ts';
import { isAsExpected, typeBlocks } from '../fixtures/typed-page.ts';

const GETTING_STARTED = [
	blockNamed('getting started, certificates'),
	blockNamed('getting started, tokens'),
	blockNamed('getting started, two services and a configuration'),
	blockNamed('getting started, a first request'),
	blockNamed('getting started, a refusal, explained'),
	blockNamed('getting started, a service goes down'),
	blockNamed('getting started, down'),
];
const OPERATIONS = [
	blockNamed('operations, check'),
	blockNamed('operations, reload'),
	blockNamed('operations, server certificate'),
	blockNamed('operations, both client CAs'),
	blockNamed('operations, the old client CA goes'),
	blockNamed('operations, both issuer keys'),
	blockNamed('operations, the old issuer key goes'),
	blockNamed('operations, a tenant is refused'),
	blockNamed('operations, drain'),
];
const PORTS = ['3001', '3002', '8443', '9090'];

const missing = ['bash', 'openssl', 'curl'].find((name) => spawnSync(name, ['--version']).error !== undefined);

describe('pages that are typed', { skip: missing && `not installed: ${missing}` }, () => {
	test('in ten minutes: what a newcomer types leads to what the page says', async () => {
		const all = blocksIn('docs/getting-started.md').filter(({ language }) => language === 'sh');
		assert.deepEqual(all, GETTING_STARTED, 'all of its commands, in its order');
		await typeBlocks(GETTING_STARTED, PORTS);
	});

	test('operations: checks, reloads, rotations and the drain, on what getting-started has started', async () => {
		await typeBlocks([...GETTING_STARTED.slice(0, 4), ...OPERATIONS], PORTS);
	});
});

test('the comparison takes … for a part of a line or for whole lines, and nothing else', () => {
	assert.ok(isAsExpected('a\nb\nc\n', 'a\n…\nc\n'));
	assert.ok(isAsExpected('a\nc\n', 'a\n…\nc\n'));
	assert.ok(isAsExpected('took 5 ms (fast)\n', 'took … ms (fast)\n'));
	assert.ok(!isAsExpected('took 5\n6 ms\n', 'took … ms\n'));
	assert.ok(!isAsExpected('a\nb\n', 'a\n'));
	assert.ok(!isAsExpected('a.b\n', 'aXb\n'));
	assert.ok(!isAsExpected('a\n', 'a\nb\n…\n'));
});
