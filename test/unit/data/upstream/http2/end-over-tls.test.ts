/** The end of an HTTP/2 connection over TLS, as its records show it. Those of TLS 1.2 name their type. */
import { deepEqual, equal } from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Server } from 'node:net';
import { after, describe, it } from 'node:test';
import { createServer as createTlsServer } from 'node:tls';
import { systemClock } from '../../../../../packages/gate/src/shared/clock.ts';
import * as collected from '../../../../../packages/proxy/src/data/body/collected.ts';
import type { Endpoint } from '../../../../../packages/proxy/src/data/upstream/endpoint.ts';
import { transportsOf } from '../../../../../packages/proxy/src/data/upstream/transport.ts';
import { DEFAULT_BALANCING } from '../../../../../packages/proxy/src/gates/balancing/settings.ts';
import type { EndpointSeed } from '../../../../../packages/proxy/src/shared/messages.ts';
import {
	FLAG,
	FRAME,
	type Frame,
	FrameReader,
	headersFrame,
	PREFACE,
	settingsFrame,
} from '../../../../fixtures/h2-frames.ts';
import { testPki } from '../../../../fixtures/pki.ts';
import { until } from '../../../../fixtures/wait.ts';
import { type Client, Edge } from '../../fixtures/fake-edge.ts';
import type { FakeUpstream } from '../../fixtures/fake-upstream.ts';

const APPLICATION_DATA = 23;
const ALERT = 21;
const OK = [[':status', '200']] as const;

const { ca, server: identity } = await testPki();
const goaways: Frame[] = [];
/** Answers a request without a body, and sends something else than HTTP/2 if there is one. */
const upstream = createTlsServer(
	{ cert: identity.certPem, key: identity.keyPem, maxVersion: 'TLSv1.2', ALPNProtocols: ['h2'] },
	(socket) => {
		const frames = new FrameReader();
		let preface = PREFACE.length;
		socket.write(settingsFrame());
		socket.on('error', () => {});
		socket.on('data', (bytes: Buffer) => {
			const received = frames.push(bytes.subarray(preface));
			preface = Math.max(0, preface - bytes.length);
			goaways.push(...received.filter(({ type }) => type === FRAME.GOAWAY));
			const head = received.find(({ type }) => type === FRAME.HEADERS);
			if (head === undefined) return;
			socket.write((head.flags & FLAG.END_STREAM) !== 0 ? headersFrame(head.streamId, OK) : Buffer.alloc(1_000, 'x'));
		});
	},
);
/** Types of the records that the proxy has sent. */
let records: number[] = [];
let open = 0;
const relay = createServer((client) => {
	const server = connect(portOf(upstream), '127.0.0.1');
	let bytes = Buffer.alloc(0);
	records = [];
	open++;
	client.on('data', (piece: Buffer) => {
		for (bytes = Buffer.concat([bytes, piece]); bytes.length >= 5 && bytes.length >= 5 + bytes.readUInt16BE(3); ) {
			records.push(bytes[0]!);
			bytes = bytes.subarray(5 + bytes.readUInt16BE(3));
		}
	});
	client.pipe(server).pipe(client);
	client.on('error', () => {}).on('close', () => open--);
	server.on('error', () => {});
});

function portOf(server: Pick<Server, 'address'>): number {
	return (server.address() as AddressInfo).port;
}

for (const server of [upstream, relay]) {
	server.listen(0, '127.0.0.1');
	await once(server, 'listening');
}
after(() => {
	for (const server of [upstream, relay]) server.close();
});

/** A request to it, and the address that it went to. */
async function ask(body?: string): Promise<{ client: Client; endpoint: Endpoint }> {
	const edge = new Edge(collected, 1, undefined, 'h2');
	edge.use(edge.upstreams, { limits: undefined, pending: undefined });
	const [{ upstream: endpoint }] = edge.upstreams as [FakeUpstream];
	const tls = { ca: ca.certPem, cert: undefined, key: undefined, serverName: undefined, minVersion: undefined };
	const place = { host: '127.0.0.1', port: portOf(relay), protocol: 'h2' };
	const seed = { ...place, breakerId: 1, idleTimeoutMs: 1_000_000 } as EndpointSeed;
	const [real] = transportsOf(
		{
			endpoints: [seed],
			upstreams: [
				{ name: 'a', tls: { ...tls, verify: true }, endpoints: [0], weights: [1], balancing: DEFAULT_BALANCING },
			],
		},
		() => undefined,
		systemClock(process.hrtime.bigint()),
	);
	endpoint.use(real!, seed);
	const client = await edge.ask('tenant', body);
	await until(() => client.status !== 0, 'a response');
	return { client, endpoint };
}

describe('the end of an HTTP/2 connection over TLS', () => {
	for (const [what, body, status] of [
		['idle', undefined, 200],
		['after a protocol error', 'body', 502],
	] as const) {
		it(`is a GOAWAY and a close_notify: ${what}`, async () => {
			goaways.length = 0;
			const { client, endpoint } = await ask(body);
			equal(client.status, status);
			endpoint.pool.closeIdle();
			await until(() => open === 0, 'the end');
			deepEqual(records.slice(-2), [APPLICATION_DATA, ALERT]);
			equal(goaways.length, 1);
		});
	}
});
