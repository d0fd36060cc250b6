/** Paths that are refused, and paths that are forwarded byte for byte. */
import { deepEqual, equal } from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { type Connection, connect, h1Raw, PROTOCOLS, request } from '../fixtures/clients.ts';
import { assertOwnAnswer } from '../fixtures/own-answer.ts';
import { testPki } from '../fixtures/pki.ts';
import { startLanes } from '../fixtures/stage.ts';

const pki = await testPki();
const edge = await startLanes({
	lanes: 2,
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
const other = edge.lane();

/** Each follows the prefix of a route, so that it would be forwarded if it passed. One for each rule: all of them are in unit/gates/path.test.ts. */
const REFUSED = [
	'/..',
	'/x/./y',
	'/%2E%2e/x',
	'/x%2F..%2Fy',
	'/x\\y',
	'/..;x=1/y',
	'/%00',
	'/%u002e',
	'/x%252fy',
	'/x%2',
];

/** Next to routes with rules, to an upstream that decodes, cuts parameters, merges slashes or ignores letter case. */
const LEADS_ELSEWHERE = ['/%61dmin/x', '/admin;a=1/x', '/api//admin/x', '/files/x'];

const PASSING = [
	'',
	'//x',
	'/.well-known/x',
	'/%2e%2e%2e',
	'/x%2fy',
	'/x;a=..',
	'/%c3%a9',
	'?x=/../..',
	'/:@!$&\'()*+,;="<>[]^`{|}~',
];

for (const protocol of PROTOCOLS) {
	describe(`the path over ${protocol}`, () => {
		let client: Connection;
		before(async () => {
			client = await connect(protocol, edge.proxy);
			// A connection without a first request is soon closed, and on a busy machine many tests come before its turn.
			await client.request({ path: lane.path });
		});
		after(() => client.close());

		for (const rest of REFUSED) {
			test(`${rest} is refused, and no upstream hears of it`, async () => {
				const counted = await edge.during(async () => {
					assertOwnAnswer(await request(protocol, edge.proxy, { path: lane.path + rest }), 400, 'bad path');
				});
				deepEqual(counted, { 400: 1 });
				equal(lane.upstream.bytesReceived + other.upstream.bytesReceived, passed());
			});
		}

		for (const rest of PASSING) {
			test(`"${rest}" is forwarded byte for byte`, async () => {
				equal((await client.request({ path: lane.path + rest })).status, 200);
				equal(lane.upstream.requests.at(-1)!.target, lane.path + rest);
			});
		}

		for (const path of LEADS_ELSEWHERE) {
			test(`${path} is refused: an upstream may serve what another route protects`, async () => {
				const counted = await edge.during(async () => {
					assertOwnAnswer(await request(protocol, edge.proxy, { path }), 400, 'bad path');
				});
				deepEqual(counted, { 400: 1 });
				equal(lane.upstream.bytesReceived + other.upstream.bytesReceived, passed());
			});
		}

		for (const path of ['/x%2fadmin', '/api/x//admin;v=1', '/FILE']) {
			test(`${path} leads to one route by every reading, and is forwarded byte for byte`, async () => {
				equal((await client.request({ path })).status, 200);
				equal(lane.upstream.requests.at(-1)!.target, path);
			});
		}

		test('a path that begins with // is refused', async () => {
			assertOwnAnswer(await request(protocol, edge.proxy, { path: `//host${lane.path}` }), 400, 'bad path');
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

const authorization = `authorization: Bearer ${pki.token()}\r\n`;

for (const [target, forwarded] of [
	[`https://elsewhere.test${lane.path}/x?y=1`, `${lane.path}/x?y=1`],
	[`http://elsewhere.test:81${lane.path}`, lane.path],
	[`HTTPS://ELSEWHERE.test${lane.path}/X`, `${lane.path}/X`],
]) {
	test(`of the absolute form ${target} path and query are taken, and Host is the upstream's`, async () => {
		using raw = await h1Raw(edge.proxy);
		raw.send(`GET ${target} HTTP/1.1\r\nhost: elsewhere.test\r\n${authorization}\r\n`);
		equal((await raw.readResponse()).status, 200);
		equal(lane.upstream.requests.at(-1)!.target, forwarded);
		equal(lane.upstream.requests.at(-1)!.header('host'), lane.upstream.authority);
	});
}

test('the absolute form is held to the same rules for its path', async () => {
	using raw = await h1Raw(edge.proxy);
	raw.send(`GET https://elsewhere.test${lane.path}/../x HTTP/1.1\r\nhost: x\r\n${authorization}\r\n`);
	const answer = await raw.readResponse();
	equal(answer.status, 400);
	equal(String(answer.body), 'bad path');
});

for (const method of ['OPTIONS', 'GET']) {
	test(`${method} * is refused`, async () => {
		using raw = await h1Raw(edge.proxy);
		raw.send(`${method} * HTTP/1.1\r\nhost: x\r\n${authorization}\r\n`);
		equal((await raw.readResponse()).status, 400);
	});
}
