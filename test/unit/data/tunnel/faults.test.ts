/** Errors of our own in the callbacks of WebSockets: each costs its own tunnel, and no other one. */
import { deepEqual, equal, match } from 'node:assert/strict';
import { describe, it, type TestContext } from 'node:test';
import { UNLIMITED } from '../../../../packages/gate/src/gates/quota.ts';
import type { RevokedTokens } from '../../../../packages/gate/src/identity/revocations.ts';
import * as collected from '../../../../packages/proxy/src/data/body/collected.ts';
import { Http1Front } from '../../../../packages/proxy/src/data/http1/front.ts';
import { Direction } from '../../../../packages/proxy/src/data/tunnel/direction.ts';
import { Tunnel } from '../../../../packages/proxy/src/data/tunnel/tunnel.ts';
import { acceptOf } from '../../../../packages/proxy/src/gates/web-socket.ts';
import { Edge, LIMITED } from '../fixtures/fake-edge.ts';
import { settle } from '../fixtures/fake-plane.ts';
import type { FakeSocket } from '../fixtures/fake-upstream.ts';
import { Http1Client } from '../fixtures/http1-client.ts';
import { frame } from './fixtures/frames.ts';

const IDLE_MS = 20_000;
const HANDSHAKE = [
	'GET / HTTP/1.1\r\nhost: a\r\nauthorization: tenant\r\nconnection: upgrade\r\nupgrade: websocket',
	'sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n',
].join('\r\n');
const FROM_CLIENT = frame({ first: 0x82, payload: 'up' });
const FROM_UPSTREAM = frame({ first: 0x82, payload: 'down', masked: false });

const injected = () => {
	throw new Error('injected');
};

/** One worker whose only route takes WebSockets, over HTTP/1.1. */
class TunnelEdge {
	readonly edge = new Edge(collected, 1, { ...LIMITED, maxRequests: 2 });
	readonly #front: Http1Front;

	/** @param endsAt when all tokens expire, in wall-clock seconds. */
	constructor(endsAt = Number.POSITIVE_INFINITY) {
		const { plane } = this.edge;
		plane.takesWebSockets = true;
		const principal = { tenantHeader: '', tenantKey: 1n, quota: UNLIMITED, leewaySeconds: 0, claims: { exp: endsAt } };
		const authenticate = (tenant: string) => ({ tenant, ...principal });
		Object.assign(plane, { authenticator: { authenticate, isRevoked: () => false } });
		const [idle, halfEnded] = [plane.deadlines.lasting(IDLE_MS), plane.deadlines.lasting(IDLE_MS)];
		const looks = plane.deadlines.lasting(1_000);
		this.edge.changeRoute({ webSocket: { endsAtExpiry: true, messagesPerSec: undefined, idle, halfEnded, looks } });
		this.#front = new Http1Front(plane);
	}

	async open(): Promise<OpenTunnel> {
		const { plane, upstreams } = this.edge;
		const tunnel = new OpenTunnel(plane, { front: this.#front });
		tunnel.send(HANDSHAKE);
		await settle();
		const upstream = upstreams[0]!.sockets.at(-1)!;
		upstream.accept();
		// The proxy's own key.
		const accept = acceptOf(/sec-websocket-key: (.*)\r\n/i.exec(upstream.sent)![1]!);
		upstream.answer(
			`HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\nsec-websocket-accept: ${accept}\r\n\r\n`,
		);
		await settle();
		match(tunnel.received, /^HTTP\/1.1 101 /);
		tunnel.upstream = upstream;
		return tunnel;
	}

	/** Tunnels of this worker. */
	get tunnels(): number {
		return this.edge.plane.stats.read().tunnels.get('http/1.1')!;
	}
}

class OpenTunnel extends Http1Client {
	upstream!: FakeSocket;

	/** Bytes pass in both directions. */
	async assertPasses(): Promise<void> {
		this.socket.write(FROM_CLIENT);
		this.upstream.answer(FROM_UPSTREAM);
		await settle();
		equal(this.upstream.sent.endsWith(FROM_CLIENT.toString('latin1')), true);
		equal(this.received.endsWith(FROM_UPSTREAM.toString('latin1')), true);
	}
}

describe('an internal error in a callback of a tunnel', () => {
	/** What a socket or a deadline sets off, and the callback that throws then. */
	const entries: readonly (readonly [
		string,
		keyof Tunnel & `on${string}`,
		(tunnel: OpenTunnel, edge: Edge) => unknown,
	])[] = [
		['bytes of the client', 'onRequestBody', ({ socket }) => socket.write(FROM_CLIENT)],
		['the end of the client', 'onRequestEnd', ({ socket }) => socket.end()],
		['a client that takes more', 'onClientDrained', ({ served }) => served.emit('drain')],
		['bytes of the upstream', 'onBody', ({ upstream }) => upstream.answer(FROM_UPSTREAM)],
		['the end of the upstream', 'onEnd', ({ upstream }) => Object.assign(upstream, { readableEnded: true }).crash()],
		['a broken upstream', 'onUpstreamLost', ({ upstream }) => upstream.reset()],
		['an upstream that takes more', 'onWritable', ({ upstream }) => upstream.emit('drain')],
	];
	for (const [what, event, enter] of entries) {
		it(`an internal error at ${what} (${event}) ends only that tunnel`, async (t) => {
			const stage = new TunnelEdge();
			const [broken, other] = [await stage.open(), await stage.open()];
			t.mock.method(Tunnel.prototype, event, injected, { times: 1 });
			enter(broken, stage.edge);
			await settle();
			deepEqual([broken.served.destroyed, broken.upstream.destroyed, stage.tunnels], [true, true, 1]);
			await other.assertPasses();
			other.served.destroy();
			await settle();
			equal(stage.tunnels, 0);
			stage.edge.assertQuiet();
		});
	}

	it('an internal error at the deadline of a tunnel (onDeadline) ends only that tunnel', async (t) => {
		const stage = new TunnelEdge();
		const broken = await stage.open();
		await stage.edge.plane.pass(IDLE_MS / 2);
		const other = await stage.open();
		t.mock.method(Tunnel.prototype, 'onDeadline', injected, { times: 1 });
		await stage.edge.plane.pass(IDLE_MS / 2 + 2_000);
		deepEqual([broken.served.destroyed, broken.upstream.destroyed, stage.tunnels], [true, true, 1]);
		await other.assertPasses();
	});

	/** The first of two tunnels whose end throws. */
	async function twoTunnels(t: TestContext, endsAt?: number): Promise<[TunnelEdge, OpenTunnel[]]> {
		const stage = new TunnelEdge(endsAt);
		const both = [await stage.open(), await stage.open()];
		t.mock.method(Direction.prototype, 'close', injected, { times: 1 });
		return [stage, both];
	}
	const isCut = ({ received }: OpenTunnel) => !/\x88.\x03\xf0$/s.test(received);

	it('an internal error where a token expires leaves no tunnel open whose token expires too', async (t) => {
		const [stage, both] = await twoTunnels(t, 1);
		await stage.edge.plane.pass(2_000);
		deepEqual(both.map(isCut), [true, false]);
		await stage.edge.plane.pass(5_000);
		equal(stage.tunnels, 0);
		stage.edge.assertQuiet();
	});

	it('an internal error where a token is revoked leaves no tunnel open whose token is revoked too', async (t) => {
		const [stage, both] = await twoTunnels(t);
		stage.edge.plane.tunnels.endRevoked({ refuse: () => 'revoked' } as unknown as RevokedTokens);
		await settle();
		deepEqual(both.map(isCut), [true, false]);
		await stage.edge.plane.pass(5_000);
		equal(stage.tunnels, 0);
		stage.edge.assertQuiet();
	});
});
