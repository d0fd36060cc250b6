import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import type { ConfigFiles } from '../../../../packages/proxy/src/config/config.ts';
import { Findings } from '../../../../packages/proxy/src/control/files/findings.ts';
import { judgeStoreFiles } from '../../../../packages/proxy/src/control/files/store-files.ts';
import { temporaryFolder, testPki } from '../../../fixtures/pki.ts';

const SECRET = 'hunter2';
const pki = await testPki();
const folder = temporaryFolder('store-files');
const file = (name: string, text: string) => {
	writeFileSync(join(folder, name), text);
	return join(folder, name);
};
const judge = async (limiter: NonNullable<ConfigFiles['limiter']>) => {
	const lines = { 'limiter.password_path': 7 };
	const found = new Findings({ path: 'c.toml', lines, tls: {}, jwt: {}, issuerFiles: [], limiter });
	return { store: await judgeStoreFiles(found), problems: found.problems };
};

describe('the files of [limiter]', () => {
	it('are read if they are named', async () => {
		const nothing = {
			password: undefined,
			sentinelPassword: undefined,
			secret: undefined,
			ca: undefined,
			identity: undefined,
		};
		assert.deepEqual((await judge({})).store, nothing);
		const { store, problems } = await judge({
			passwordPath: file('password', `${SECRET}\n`),
			sentinelPasswordPath: file('sentinel', ` ${SECRET} `),
			caPath: pki.caPath,
			certPath: pki.server.certPath,
			keyPath: pki.server.keyPath,
		});
		assert.deepEqual(problems, []);
		assert.equal(store.password, SECRET);
		// Blanks may be part of a password.
		assert.equal(store.sentinelPassword, ` ${SECRET} `);
		assert.equal(store.identity?.key, readFileSync(pki.server.keyPath, 'utf8'));
	});

	for (const [what, limiter, message] of [
		['a missing password', { passwordPath: join(folder, 'nowhere') }, /cannot be read/],
		['an empty password', { passwordPath: file('empty', '\n') }, /is empty/],
		['a short secret', { secretPath: file('secret', SECRET) }, /has fewer than 32 characters; fill it from a random/],
		['two lines', { passwordPath: file('two', `user\n${SECRET}\n`) }, /has several lines/],
		['a CA that is none', { caPath: file('ca', SECRET) }, /contains no PEM certificate/],
		[
			'a key that is none',
			{ certPath: pki.server.certPath, keyPath: file('key', SECRET) },
			/contains no PEM private key/,
		],
		["another's key", { certPath: pki.caPath, keyPath: pki.server.keyPath }, /does not match the first certificate/],
	] as const) {
		it(`are refused with the remedy: ${what}`, async () => {
			const { problems } = await judge(limiter);
			assert.equal(problems.length, 1);
			assert.match(problems[0]!.message, message);
			assert.ok(!problems[0]!.message.includes(SECRET));
		});
	}

	it('are named with the line of their key', async () => {
		const { problems } = await judge({ passwordPath: join(folder, 'nowhere') });
		assert.equal(problems[0]?.line, 7);
		assert.equal(problems[0]?.key, 'limiter.password_path');
	});
});
