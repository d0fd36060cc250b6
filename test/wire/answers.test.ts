/**
 * The proxy's own answers byte for byte, and which of
 * them wins where several would do.
 */
import { deepEqual, equal, match } from 'node:assert/strict';
import { STATUS_CODES } from 'node:http';
import { after, describe, test } from 'node:test';
import { heldBody, inPieces } from '../fixtures/bodies.ts';
import { h1Raw, PROTOCOLS, type RequestOptions, request } from '../fixtures/clients.ts';
import { assertGrpcAnswer, assertOwnAnswer } from '../fixtures/own-answer.ts';
import { testPki } from '../fixtures/pki.ts';
import type { LogLine } from '../fixtures/program.ts';
import { BODY_MODE } from '../fixtures/proxy.ts';
import { type Lane, startLanes } from '../fixtures/stage.ts';

const COLLECTED = BODY_MODE === 'collected';
const LIMIT = 1000;

const pki = await testPki();
const edge = await startLanes({
	lanes: 24,
	log: { access: 'all' },
	config: { tenant_rps: 1, default_cooldown_secs: 3600 },
	limits: {
		max_request_body_bytes: LIMIT,
		max_buffered_bytes: 1_000_000,
		// Long enough for each request that is not late on purpose, on a busy machine, too.
		request_body_timeout_secs: 2,
		upstream_timeout_secs: 2.4,
	},
});
after(() => edge.close());
const { proxy } = edge;

let tenants = 0;
const freshToken = () => pki.token(`tenant-${++tenants}`);

/** A token whose tenant has had its one request of this second. */
async function exhaustedToken(): Promise<string> {
	const token = freshToken();
	equal((await edge.request('h2', { path: '/nowhere', token })).status, 404);
	return token;
}

/** A tenant has a request again after a second: a machine that is slower than that gets more tries to be over the limit. */
async function inTime(run: () => Promise<void>, tries = 10): Promise<void> {
	for (let left = tries - 1; ; left--) {
		try {
			return await run();
		} catch (error) {
			if (left === 0) throw error;
		}
	}
}

async function openLane(): Promise<Lane> {
	const lane = edge.lane();
	lane.upstream.script = (exchange) => exchange.respond({ status: 503 });
	equal((await request('h2', proxy, { path: lane.path, token: freshToken() })).status, 503);
	return lane;
}

interface OwnResponse {
	readonly status: number;
	readonly body: string;
	/** What provokes it. */
	readonly request: () => Promise<RequestOptions>;
	/** What it counts in addition to its status. */
	readonly also?: Readonly<Record<string, number>>;
	/** It has been given after an upstream was chosen. */
	readonly atUpstream?: boolean;
}

const tooLong = Buffer.alloc(LIMIT + 1);
const laneWith = async (script: Lane['upstream']['script']): Promise<RequestOptions> => {
	const lane = edge.lane();
	lane.upstream.script = script;
	return { path: lane.path };
};

const ANSWERS: OwnResponse[] = [
	{
		status: 401,
		body: 'unauthorized',
		request: async () => ({ token: null }),
		also: { missing: 1 },
	},
	{
		status: 429,
		body: 'rate limited',
		request: async () => ({ token: await exhaustedToken() }),
		also: { 'rate limited': 1 },
	},
	{ status: 400, body: 'bad path', request: async () => ({ path: '/a/../b' }) },
	{ status: 404, body: 'no route', request: async () => ({ path: '/nowhere' }) },
	{
		status: 413,
		body: 'payload too large',
		request: async () => ({ method: 'POST', path: edge.lane().path, body: tooLong }),
		atUpstream: !COLLECTED,
	},
	{
		status: 502,
		body: 'bad gateway',
		request: () => laneWith((exchange) => exchange.reset()),
		atUpstream: true,
	},
	{
		status: 503,
		body: 'upstream unavailable',
		request: async () => ({ path: (await openLane()).path }),
		atUpstream: true,
	},
	{
		status: 504,
		body: 'upstream timeout',
		request: () => laneWith((exchange) => exchange.stall()),
		atUpstream: true,
	},
	...(COLLECTED
		? [
				{
					status: 408,
					body: 'slow client',
					request: async () => ({ method: 'POST', path: edge.lane().path, body: heldBody('half') }),
				},
				{
					status: 503,
					body: 'overloaded',
					request: () => laneWith((exchange) => exchange.respond({ body: Buffer.alloc(1_100_000) })),
					atUpstream: true,
				},
			]
		: []),
];

for (const protocol of PROTOCOLS) {
	describe(`own answers over ${protocol}`, () => {
		for (const { status, body, request: provoke, also = {}, atUpstream = false } of ANSWERS) {
			const kind = Object.keys(also)[0] ?? '';
			test(`${status} "${body}" ${kind} is exact, and counted once`, async () => {
				const once = async () => {
					const options = { token: freshToken(), ...(await provoke()) };
					const counted = await edge.during(async () => {
						assertOwnAnswer(await request(protocol, proxy, options), status, body);
					});
					deepEqual(counted, { [atUpstream ? `${status} upstream` : status]: 1, ...also });
				};
				await (status === 429 ? inTime(once) : once());
			});
		}

		// One without an upstream and one with it: unit/gates/grpc.test.ts has the status of every refusal.
		for (const { status, body, request: provoke, also = {}, atUpstream = false } of ANSWERS) {
			if (status !== 404 && status !== 502) continue;
			const kind = Object.keys(also)[0] ?? '';
			test(`${status} "${body}" ${kind} to a gRPC call is a status of gRPC, counted and logged as ${status}`, async () => {
				const options = { method: 'POST', token: freshToken(), ...(await provoke()) };
				let from = 0;
				const counted = await edge.during(async () => {
					from = proxy.logs.length;
					const headers = { ...options.headers, 'content-type': 'application/grpc+proto' };
					assertGrpcAnswer(await request(protocol, proxy, { ...options, headers }), status, body);
				});
				deepEqual(counted, { [atUpstream ? `${status} upstream` : status]: 1, ...also });
				const isLine = (line: LogLine) => line.target === 'proxy::access' && line.status === status;
				equal((await proxy.waitForLog(isLine, undefined, from)).bytes_out, 0);
			});
		}
	});
}

describe('own answers on the wire of HTTP/1.1', () => {
	const head = (line: string, ...more: string[]) =>
		[line, 'host: x', `authorization: Bearer ${freshToken()}`, ...more, '', ''].join('\r\n');
	const NO_TOKEN = 'GET / HTTP/1.1\r\nhost: x\r\n\r\n';

	/** All that the server says, with the date taken out. */
	const exchange = async (bytes: string): Promise<string> => {
		using raw = await h1Raw(proxy);
		raw.send(bytes);
		const text = (await raw.readResponse()).raw;
		match(text, /\r\n[Dd]ate: \w{3}, \d{2} \w{3} \d{4} \d{2}:\d{2}:\d{2} GMT\r\n/);
		return text.replace(/\r\ndate: [^\r]*/i, '').toLowerCase();
	};
	const expected = (status: number, length: number, connection: string, ...more: string[]) =>
		[
			`HTTP/1.1 ${status} ${STATUS_CODES[status]}`,
			...more,
			'content-type: text/plain; charset=utf-8',
			`content-length: ${length}`,
			`connection: ${connection}`,
			'',
			'',
		]
			.join('\r\n')
			.toLowerCase();

	const TEXTS: [what: string, sent: () => string, wanted: string][] = [
		['401 keeps the connection', () => NO_TOKEN, expected(401, 12, 'keep-alive', 'www-authenticate: Bearer')],
		['400 to a bad path closes the connection', () => head('GET /.. HTTP/1.1'), expected(400, 8, 'close')],
		[
			'501 to CONNECT stays HTTP, also with the content type of gRPC: 2xx would be a tunnel',
			() => head('CONNECT x:443 HTTP/1.1', 'content-type: application/grpc'),
			expected(501, 35, 'close'),
		],
	];
	for (const [what, sent, wanted] of TEXTS) test(what, async () => equal(await exchange(sent()), wanted));
});

describe('the order of the gates', () => {
	/** Names of a lane whose breaker is open, and of a tenant that has used up its limit. */
	let open: Lane;
	const nowhere = '/nowhere';

	interface Clash {
		readonly what: string;
		readonly options: () => Promise<RequestOptions> | RequestOptions;
		readonly collected: readonly [number, string];
		readonly streaming?: readonly [number, string];
		readonly only?: 'h1';
	}
	const upgrade = { connection: 'upgrade', upgrade: 'websocket' };
	const CLASHES: Clash[] = [
		{
			what: 'no token wins over all that is wrong with the rest',
			options: () => ({ token: null, method: 'TRACE', path: '/nowhere/..', body: tooLong }),
			collected: [401, 'unauthorized'],
		},
		{
			what: 'the limit of the tenant wins over a bad path, a bad method and a body too large',
			options: async () => ({ token: await exhaustedToken(), method: 'TRACE', path: '/x/..', body: tooLong }),
			collected: [429, 'rate limited'],
		},
		{
			what: 'a bad path wins over a bad method and a body too large',
			options: () => ({ method: 'TRACE', path: '/nowhere/..', body: tooLong }),
			collected: [400, 'bad path'],
		},
		{
			what: 'an upgrade wins over TRACE, a body too large and a missing route',
			options: () => ({ method: 'TRACE', path: nowhere, headers: upgrade, body: tooLong }),
			collected: [501, 'protocol upgrades are not supported'],
			only: 'h1',
		},
		{
			what: 'TRACE wins over a body too large and a missing route',
			options: () => ({ method: 'TRACE', path: nowhere, body: tooLong }),
			collected: [405, 'method not allowed'],
		},
		{
			what: 'a declared length too large and a missing route: the mode decides',
			options: () => ({ method: 'POST', path: nowhere, body: tooLong }),
			collected: [413, 'payload too large'],
			streaming: [404, 'no route'],
		},
		{
			what: 'an undeclared body too large and an open breaker: the mode decides',
			options: () => ({ method: 'POST', path: open.path, body: inPieces(tooLong, 100) }),
			collected: [413, 'payload too large'],
			streaming: [503, 'upstream unavailable'],
		},
		{
			what: 'a good request meets the open breaker last',
			options: () => ({ method: 'POST', path: open.path, body: Buffer.alloc(LIMIT) }),
			collected: [503, 'upstream unavailable'],
		},
	];

	test('failures open the breaker of the lane', async () => {
		open = await openLane();
	});

	for (const protocol of PROTOCOLS) {
		for (const { what, options, collected, streaming = collected, only } of CLASHES) {
			if (only !== undefined && only !== protocol) continue;
			test(`${what}, over ${protocol}`, async () => {
				const seen = open.upstream.requests.length;
				const once = async () => {
					const answer = await request(protocol, proxy, { token: freshToken(), ...(await options()) });
					assertOwnAnswer(answer, ...(COLLECTED ? collected : streaming));
				};
				await (collected[0] === 429 ? inTime(once) : once());
				equal(open.upstream.requests.length, seen);
			});
		}
	}
});
