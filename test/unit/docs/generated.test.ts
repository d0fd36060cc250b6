import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { ACCESS_MEMBERS, accessLine } from '../../../packages/proxy/src/data/records/access-line.ts';
import type { RequestRecord } from '../../../packages/proxy/src/data/records/request-record.ts';
import { fill, generatedFiles } from '../../../tools/docs/files.ts';
import { ROOT, readPage } from '../../fixtures/doc-blocks.ts';

describe('what is made from the code', () => {
	for (const { path, text } of generatedFiles(ROOT)) {
		it(`${path} is as npm run docs would make it`, () => {
			assert.equal(readFileSync(join(ROOT, path), 'utf8'), text, 'run npm run docs');
		});
	}

	it('stands between markers, each of which is known and needed', () => {
		const page = 'a\n<!-- made from the code: x -->\nold\n<!-- end -->\nb\n';
		const filled = 'a\n<!-- made from the code: x -->\n\nnew\n\n<!-- end -->\nb\n';
		assert.equal(fill(page, { x: () => 'new' }, 'p'), filled);
		assert.equal(fill(filled, { x: () => 'new' }, 'p'), filled);
		assert.throws(() => fill(page, { x: () => '', y: () => '' }, 'p'), /p: no marker for y/);
		assert.throws(() => fill(page, {}, 'p'), /p: nothing is made for the marker x/);
	});
});

describe('docs/reference/logs.md', () => {
	it('has every member of an access line, in its order', () => {
		const record = {
			status: 200,
			grpcStatus: 0,
			refusal: { body: 'x' },
			tenant: 't',
			route: { prefix: '/' },
			upstream: { authority: 'a:1' },
			ending: 'broken off',
			tunnelEnd: 'idle',
			queuedMs: 1,
			attempts: 1,
			correlation: { traceId: '0', requestId: '0' },
			method: 'GET',
			path: '/',
			// ClientConnection.logMembers.
			connectionMembers: ',"protocol":"h2","tls":"TLSv1.3","client":"192.0.2.1","client_subject":"","client_sha256":""',
			bytesIn: 0,
			bytesOut: 0,
			duration: 1,
			bodyDuration: 1,
			upstreamDuration: 1,
		};
		const line = JSON.parse(accessLine(record as unknown as RequestRecord, 0));
		assert.deepEqual(Object.keys(line), Object.keys(ACCESS_MEMBERS));
	});

	it('has every constant reason of the source', () => {
		const sources = globSync('packages/*/src/{gates,identity,data,shared}/**/*.ts', { cwd: ROOT }).map((path) =>
			readFileSync(join(ROOT, path), 'utf8'),
		);
		const all = (pattern: RegExp) =>
			sources.flatMap((text) => Array.from(text.matchAll(pattern), ([, a, b]) => a ?? b!));
		const causes = Array.from(
			readPage('packages/gate/src/words/causes.ts').matchAll(/\['E[A-Z_]+', '([a-z ]+)'\]/g),
			([, cause]) => cause!,
		);
		const reasons = [
			...all(/\.because\((?:'([^']+)'|"([^"]+)")\)/g),
			...all(/new ProtocolError\('([^']+)'\)/g),
			...causes,
		];
		const page = readPage('docs/reference/logs.md');
		assert.ok(reasons.length > 100);
		assert.deepEqual(
			reasons.filter((reason) => !page.includes(`\`${reason}\``)),
			[],
		);
	});
});
