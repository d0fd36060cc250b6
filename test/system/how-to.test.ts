/** Pages of docs/how-to/, typed as a reader does: their output is what the pages say. */
import { spawnSync } from 'node:child_process';
import { describe, test } from 'node:test';
import { blockNamed } from '../fixtures/doc-blocks.ts';
import { typeBlocks } from '../fixtures/typed-page.ts';

const ISSUER = [
	blockNamed('an issuer of your own, key'),
	blockNamed('an issuer of your own, configuration'),
	blockNamed('an issuer of your own, token'),
	blockNamed('an issuer of your own, verdict'),
];
const SECOND = [blockNamed('a second environment, folders'), blockNamed('a second environment, proof')];

const missing = ['bash', 'openssl'].find((name) => spawnSync(name, ['--version']).error !== undefined);

describe('how-to pages that are typed', { skip: missing && `not installed: ${missing}` }, () => {
	test('an issuer of your own: a token of a script passes', async () => {
		await typeBlocks(ISSUER, ['3000']);
	});

	test('a second environment: its tokens are refused by the first', async () => {
		await typeBlocks(SECOND, ['3000']);
	});
});
