import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { Findings } from '../../../../packages/proxy/src/control/files/findings.ts';
import { judgeTraceFiles, readHeaderLines } from '../../../../packages/proxy/src/control/files/trace-files.ts';
import { temporaryFolder, testPki } from '../../../fixtures/pki.ts';

const SECRET = 'hunter2';
const pki = await testPki();
const folder = temporaryFolder('trace-files');
const file = (name: string, text: string) => {
	writeFileSync(join(folder, name), text);
	return join(folder, name);
};
const judge = async (trace: { caPath?: string; headersPath?: string }) => {
	const lines = { 'trace.headers_path': 7 };
	const found = new Findings({ path: 'c.toml', lines, tls: {}, jwt: {}, issuerFiles: [], trace });
	return { trace: await judgeTraceFiles(found), problems: found.problems };
};

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
