import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import type { ConfigFiles } from '../../../../packages/proxy/src/config/config.ts';
import { Findings } from '../../../../packages/proxy/src/control/files/findings.ts';
import { judgeStoreFiles } from '../../../../packages/proxy/src/control/files/store-files.ts';
import { judgeTraceFiles, readHeaderLines } from '../../../../packages/proxy/src/control/files/trace-files.ts';
import { temporaryFolder, testPki } from '../../../fixtures/pki.ts';

const SECRET = 'hunter2';
const pki = await testPki();
const folder = temporaryFolder('secret-files');
const file = (name: string, text: string) => {
	writeFileSync(join(folder, name), text);
	return join(folder, name);
};
const found = (lines: ConfigFiles['lines'], names: Pick<ConfigFiles, 'limiter' | 'trace'>) =>
	new Findings({ path: 'c.toml', lines, tls: {}, jwt: {}, issuerFiles: [], ...names });

describe('the files of [limiter]', () => {
	const judge = async (limiter: NonNullable<ConfigFiles['limiter']>) => {
		const findings = found({ 'limiter.password_path': 7 }, { limiter });
		return { store: await judgeStoreFiles(findings), problems: findings.problems };
	};

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

describe('the file of header fields', () => {
	it('is lines of name and value, with comments', () => {
		const lines = `# a comment\n\nAuthorization: Bearer ${SECRET}:x \r\nx-scope:edge\n`;
		assert.deepEqual(readHeaderLines(lines), { authorization: `Bearer ${SECRET}:x`, 'x-scope': 'edge' });
		assert.deepEqual(readHeaderLines(''), {});
	});

	for (const [lines, message] of [
		[`x: 1\n${SECRET}`, /line 2; write each as "name: value"/],
		[`a b: ${SECRET}`, /line 1/],
		[`x:`, /line 1/],
		[`x: ${SECRET}\x00`, /line 1/],
		[`Content-Type: ${SECRET}`, /line 1 a field that the exporter sets; remove it/],
		[`x: 1\nX: ${SECRET}`, /line 2 a duplicate field/],
	] as const) {
		it(`names the line that is wrong, and nothing of it: ${JSON.stringify(lines)}`, () => {
			assert.throws(
				() => readHeaderLines(lines),
				(error: Error) => message.test(error.message) && !error.message.includes(SECRET),
			);
		});
	}
});

describe('the files of [trace]', () => {
	const judge = async (trace: NonNullable<ConfigFiles['trace']>) => {
		const findings = found({ 'trace.headers_path': 7 }, { trace });
		return { trace: await judgeTraceFiles(findings), problems: findings.problems };
	};

	it('are read if they are named', async () => {
		assert.deepEqual((await judge({})).trace, { ca: undefined, headers: {} });
		const headersPath = file('headers', `authorization: ${SECRET}\n`);
		const { trace } = await judge({ caPath: pki.caPath, headersPath });
		assert.deepEqual(trace.headers, { authorization: SECRET });
		assert.match(trace.ca ?? '', /BEGIN CERTIFICATE/);
	});

	it('are all judged, at the keys that name them', async () => {
		const { problems } = await judge({ caPath: file('ca', 'x'), headersPath: join(folder, 'none') });
		assert.deepEqual(
			problems.map(({ key, line }) => [key, line]),
			[
				['trace.ca_path', undefined],
				['trace.headers_path', 7],
			],
		);
	});
});
