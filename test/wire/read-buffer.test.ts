/**
 * All connections of a worker are read into one buffer. Bodies of two tenants come in pieces of any size, at the same time, to upstreams
 * that read slowly: each has to come back as it was. The harness overwrites every read after its callback (`poisoned_reads`).
 */
import { deepEqual, equal } from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Readable } from 'node:stream';
import { after, before, describe, test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import fc from 'fast-check';
import { countedBytes, inPieces } from '../fixtures/bodies.ts';
import { connect, h1Raw, PROTOCOLS, request } from '../fixtures/clients.ts';
import { startHttp2Upstream } from '../fixtures/h2-upstream.ts';
import { type TestPki, testPki } from '../fixtures/pki.ts';
import { type ProxyProcess, startProxy } from '../fixtures/proxy.ts';

const TENANTS = ['tenant-a', 'tenant-b'] as const;
const UPSTREAMS = ['http1', 'http2'] as const;

let pki: TestPki;
let proxy: ProxyProcess;
/** Until then, bodies for `/late` are not read. */
let gate = Promise.withResolvers<void>();
const closers: (() => Promise<unknown>)[] = [];

before(async () => {
	pki = await testPki();
	const http1 = createServer(async (request, response) => {
		response.end(await slowly(request, request.url!));
	});
	http1.listen(0, '127.0.0.1');
	await once(http1, 'listening');
	const http2 = await startHttp2Upstream({
		reads: slowly,
		script: (stream, _headers, body) => {
			body.then(
				(bytes) => {
					stream.respond({ ':status': 200 });
					stream.end(bytes);
				},
				() => {},
			);
		},
	});
	proxy = await startProxy({
		// One, so that all share its buffer.
		workers: 1,
		routes: [
			{ prefix: '/http1', upstream: `http://127.0.0.1:${(http1.address() as AddressInfo).port}` },
			{ prefix: '/http2', upstream: `h2c://${http2.authority}` },
		],
		config: { tenant_rps: 0 },
	});
	closers.push(
		() => proxy[Symbol.asyncDispose](),
		async () => http1.close().closeAllConnections(),
		() => http2.stop(),
	);
});
after(async () => {
	for (const close of closers) await close();
});

/** Reads a body with breaks. */
async function slowly(body: Readable, path: string): Promise<Buffer> {
	if (path.endsWith('/late')) await gate.promise;
	const pieces: Buffer[] = [];
	for await (const piece of body) {
		pieces.push(piece as Buffer);
		if (pieces.length % 3 === 0) await turn();
	}
	return Buffer.concat(pieces);
}

let bodies = 0;

/** Unlike any other. */
function uniqueBody(tenant: string, length: number): Buffer {
	const body = countedBytes(length);
	body.write(`${tenant} ${++bodies} `, 'latin1');
	for (let at = 64; at < length; at += 64) body.writeUInt8(bodies & 0xff, at);
	return body;
}

/** Where they differ, as a short text. */
function assertSame(received: Buffer, sent: Buffer, of: string): void {
	equal(received.length, sent.length, of);
	if (received.equals(sent)) return;
	const at = received.findIndex((byte, i) => byte !== sent[i]);
	const show = (bytes: Buffer) => bytes.toString('hex', at, at + 16);
	equal(`${show(received)} at ${at} of ${received.length}`, show(sent), of);
}

const BODY = fc.record({
	tenant: fc.constantFrom(...TENANTS),
	upstream: fc.constantFrom(...UPSTREAMS),
	length: fc.oneof(fc.nat(300), fc.nat(20_000), fc.nat(300_000)),
	declared: fc.boolean(),
	pieces: fc.array(fc.oneof(fc.integer({ min: 1, max: 100 }), fc.integer({ min: 1000, max: 20_000 })), {
		minLength: 1,
		maxLength: 4,
	}),
});

for (const protocol of PROTOCOLS) {
	describe(`bodies of two tenants at the same time, over ${protocol}`, () => {
		test('come back as they were, whatever their pieces are', async () => {
			const all = fc.array(BODY, { minLength: 2, maxLength: 8 });
			await fc.assert(
				fc.asyncProperty(all, async (all) => {
					const connections = await Promise.all(TENANTS.map(() => connect(protocol, proxy)));
					await Promise.all(
						all.map(async ({ tenant, upstream, length, declared, pieces }, i) => {
							const sent = uniqueBody(tenant, length);
							// Each tiny piece is a separate record.
							const sizes = pieces.map((size) => Math.max(size, Math.ceil(length / 500)));
							const answer = await connections[TENANTS.indexOf(tenant)]!.request({
								method: 'POST',
								path: `/${upstream}/${i}`,
								token: pki.token(tenant),
								body: inPieces(sent, ...sizes),
								headers: declared ? { 'content-length': `${length}` } : {},
							});
							equal(`${answer.status} ${answer.ended}`, '200 complete');
							assertSame(answer.body, sent, `${tenant} over ${upstream}`);
						}),
					);
					for (const connection of connections) await connection.close();
				}),
				{ numRuns: 8 },
			);
		});

		for (const upstream of UPSTREAMS) {
			test(`come back as they were, although their upstream over ${upstream} reads one only after the others`, async () => {
				gate = Promise.withResolvers();
				const late = TENANTS.map((tenant) => ({ tenant, sent: uniqueBody(tenant, 7_000_000) }));
				const answers = late.map(({ tenant, sent }) =>
					request(protocol, proxy, {
						method: 'POST',
						path: `/${upstream}/late`,
						token: pki.token(tenant),
						body: inPieces(sent, 50_000, 7, 3000),
					}),
				);
				for (let i = 0; i < 20; i++) {
					const sent = uniqueBody('tenant-c', 30_000);
					const answer = await request(protocol, proxy, { method: 'POST', path: '/http1/other', body: sent });
					assertSame(answer.body, sent, 'the others');
				}
				gate.resolve();
				for (const [i, { tenant, sent }] of late.entries()) assertSame((await answers[i]!).body, sent, tenant);
			});
		}
	});
}

test('pipelined requests of two tenants are answered in their order, wherever reads cut them', async () => {
	const sizes = fc.array(fc.oneof(fc.nat(40), fc.nat(5000), fc.nat(40_000)), { minLength: 2, maxLength: 6 });
	const cuts = fc.array(fc.integer({ min: 1, max: 20_000 }), { minLength: 1, maxLength: 5 });
	await fc.assert(
		fc.asyncProperty(sizes, cuts, async (sizes, cuts) => {
			const one = async (tenant: string) => {
				const sent = sizes.map((length) => uniqueBody(tenant, length));
				const head = (length: number) =>
					`POST /http1/${length} HTTP/1.1\r\nhost: test\r\nauthorization: Bearer ${pki.token(tenant)}\r\ncontent-length: ${length}\r\n\r\n`;
				const stream = Buffer.concat(sent.flatMap((body) => [Buffer.from(head(body.length)), body]));
				using raw = await h1Raw(proxy);
				const writing = (async () => {
					for await (const piece of inPieces(
						stream,
						...cuts.map((cut) => Math.max(cut, Math.ceil(stream.length / 200))),
					)) {
						raw.send(piece);
						await turn();
					}
				})();
				for (const body of sent) {
					const answer = await raw.readResponse();
					deepEqual(answer.status, 200);
					assertSame(answer.body, body, tenant);
				}
				await writing;
			};
			await Promise.all(TENANTS.map(one));
		}),
		{ numRuns: 8 },
	);
});
