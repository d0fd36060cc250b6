/** Paths that are refused, and paths that are forwarded byte for byte. */
import { deepEqual, equal } from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { type Connection, connect, PROTOCOLS, request } from '../fixtures/clients.ts';
import { assertOwnAnswer } from '../fixtures/own-answer.ts';
import { startLanes } from '../fixtures/stage.ts';

const edge = await startLanes({
	routes: [
		{ prefix: '/' },
		{ prefix: '/admin', scopes: ['admin'] },
		{ prefix: '/api' },
		{ prefix: '/api/admin', scopes: ['admin'] },
		{ prefix: '/Files', scopes: ['admin'], case_insensitive: true },
	],
});
after(() => edge.close());
const lane = edge.lane();

/** Next to routes with rules, to an upstream that decodes, cuts parameters, merges slashes or ignores letter case. */
const LEADS_ELSEWHERE = ['/%61dmin/x', '/admin;a=1/x', '/api//admin/x', '/files/x'];

/** Refused paths are in http1-hostile and http2-hostile; every rule is in unit/gates/path.test.ts. */
const PASSING = ['//x', '/%2e%2e%2e', '/x%2fy', '?x=/../..', '/:@!$&\'()*+,;="<>[]^`{|}~'];

for (const protocol of PROTOCOLS) {
	describe(`the path over ${protocol}`, () => {
		let client: Connection;
		before(async () => {
			client = await connect(protocol, edge.proxy);
			// A connection without a first request is soon closed, and on a busy machine many tests come before its turn.
			await client.request({ path: lane.path });
		});
		after(() => client.close());

		test('what is refused by no rule is forwarded byte for byte', async () => {
			const sent = [...PASSING.map((rest) => lane.path + rest), '/x%2fadmin', '/api/x//admin;v=1', '/FILE'];
			for (const path of sent) {
				equal((await client.request({ path })).status, 200, path);
				equal(lane.upstream.requests.at(-1)!.target, path);
			}
		});

		test('what could lead to another route is refused: an upstream may serve what that protects', async () => {
			for (const path of LEADS_ELSEWHERE) {
				const counted = await edge.during(async () => {
					assertOwnAnswer(await request(protocol, edge.proxy, { path }), 400, 'bad path');
				});
				deepEqual(counted, { 400: 1 }, path);
				equal(lane.upstream.bytesReceived, passed(), path);
			}
		});

		test('a path of 8000 characters is forwarded', async () => {
			const path = `${lane.path}/${'x'.repeat(8000)}`;
			equal((await client.request({ path })).status, 200);
			equal(lane.upstream.requests.at(-1)!.target, path);
		});
	});
}

/** Bytes of all that has been forwarded so far: whatever else has arrived, was refused and came all the same. */
function passed(): number {
	return lane.upstream.requests.reduce((sum, { raw }) => sum + raw.length, 0);
}
