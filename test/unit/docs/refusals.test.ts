/** docs/reference/refusals.md has the answers of the proxy's own, and docs/how-to/install.md the Node that the start does not warn of. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { grpcStatusOf } from '../../../packages/gate/src/gates/grpc.ts';
import * as rejections from '../../../packages/gate/src/gates/rejection.ts';
import { nodeWarnings } from '../../../packages/proxy/src/control/start-warnings.ts';
import { readPage } from '../../fixtures/doc-blocks.ts';

describe('docs/reference/refusals.md', () => {
	const rows = Array.from(readPage('docs/reference/refusals.md').matchAll(/^\| (\d{3}) \| `([^`]+)` \| (.+) \|$/gm));

	it('has each status and body that packages/gate/src/gates/rejection.ts has, and no other', () => {
		const made = Object.values(rejections)
			.filter((value) => value instanceof rejections.Rejection)
			.map(({ status, body }) => `${status} ${body}`);
		const listed = rows.map(([, status, body]) => `${status} ${body}`);
		assert.deepEqual(new Set(listed), new Set(made));
	});

	it('has the status of gRPC that packages/gate/src/gates/grpc.ts has for each status', () => {
		const page = readPage('docs/reference/refusals.md');
		const listed = Array.from(page.matchAll(/^\| (\d{3}(?:, \d{3})*) \| (\d+) `/gm)).flatMap(([, statuses, code]) =>
			statuses!.split(', ').map((status) => [Number(status), Number(code)]),
		);
		const made = Object.values(rejections)
			.filter((value) => value instanceof rejections.Rejection)
			.map((refusal) => [refusal.status, grpcStatusOf(refusal)] as const);
		assert.deepEqual(new Map(listed as [number, number][]), new Map(made.toSorted(([a], [b]) => a - b)));
	});

	it('says retry-after if a refusal has one, or a limit makes it', () => {
		const retried = Object.values(rejections)
			.filter((value) => value instanceof rejections.Rejection)
			.filter(({ headers }) => headers.includes('retry-after'));
		for (const { status, body } of retried) {
			const [, , , words] = rows.find(([, listed, text]) => listed === `${status}` && text === body)!;
			assert.match(words!, /`retry-after/, `${status} ${body}`);
		}
	});
});

describe('docs/how-to/install.md', () => {
	const [, least] = /Run the proxy on \*\*Node ([\d.]+) or later\*\*/.exec(readPage('docs/how-to/install.md'))!;

	it('names the first Node that no start warns of', () => {
		assert.deepEqual(nodeWarnings(least!), []);
		const [major, minor, patch] = least!.split('.').map(Number);
		assert.equal(nodeWarnings(`${major}.${minor}.${patch! - 1}`).length, 1);
	});

	it('names it as docs/reference/runtime.md, SECURITY.md and the Dockerfile do', () => {
		for (const page of ['docs/reference/runtime.md', 'SECURITY.md'])
			assert.match(readPage(page), new RegExp(`Node ${least} or later`));
		assert.match(readPage('Dockerfile'), new RegExp(`^ARG NODE_VERSION=${least}$`, 'm'));
	});
});
