import { randomBytes } from 'node:crypto';
import type { TunnelEnd } from '../../memory/stats.ts';
import { Reservation } from '../body/buffered-bytes.ts';
import { countGiven, countReceived } from '../request/context.ts';
import type { Carrier, TunnelRequest } from '../request/contract.ts';
import type { WebSocketRoute } from '../routes/route.ts';
import { closeFrame } from './close-frame.ts';
import { Direction } from './direction.ts';
import { FrameFollower } from './frame-follower.ts';
import { type MessageSink, PacedMessages } from './paced-messages.ts';

/**
 * A WebSocket between a client and an upstream, from the answer to its handshake to its end. Bytes pass as they come, each side read only
 * as fast as the other one takes them. Its request is under way until then.
 *
 * `open`: bytes pass. `closing`: the proxy has ended it, and each side has a moment to end in good order. `over`: it is no more.
 */
export class Tunnel implements Carrier, MessageSink {
	/** Wall-clock seconds at which its token is worth nothing any more; infinite where that does not matter. */
	readonly endsAt: number;
	readonly request: TunnelRequest;
	readonly #route: WebSocketRoute;
	readonly #toClient: Direction;
	readonly #toUpstream: Direction;
	#state: 'open' | 'closing' | 'over' = 'open';
	/** `undefined`: nobody has begun to end it. */
	#why: TunnelEnd | undefined = undefined;
	#clientEnded = false;
	#upstreamEnded = false;
	/** The client has all that it was given, its end included. */
	#clientHasAll = false;
	/** The upstream does not take more at the moment. */
	#isUpstreamFull = false;
	/** `undefined`: the route does not say how many messages a client may send. */
	readonly #paced: PacedMessages | undefined;
	/** Memory that the client's connection holds while the upstream does not take it. */
	#held: Reservation | undefined = undefined;

	/** @param hasExtensions that the two ends have agreed on. */
	constructor(request: TunnelRequest, route: WebSocketRoute, hasExtensions: boolean) {
		const { client, plane, identity } = request.context;
		const { leewaySeconds, claims } = identity!;
		this.request = request;
		this.#route = route;
		this.endsAt = route.endsAtExpiry ? claims.exp + leewaySeconds : Number.POSITIVE_INFINITY;
		this.#toClient = new Direction(new FrameFollower(false, hasExtensions), client);
		this.#toUpstream = new Direction(new FrameFollower(true, hasExtensions), {
			write: (bytes) => request.attempt!.connection?.write(bytes) ?? true,
			end: () => request.attempt!.connection?.finish(),
		});
		const { messagesPerSec, looks } = route;
		if (messagesPerSec !== undefined) {
			this.#paced = new PacedMessages(messagesPerSec, this.#toUpstream.follower, this, plane.clock, looks);
		}
		route.idle.add(request);
	}

	/** What has ended it. */
	get why(): TunnelEnd {
		return this.#why ?? 'client_lost';
	}

	// --- From the client to the upstream. ---

	onRequestBody(chunk: Buffer): void {
		countReceived(this.request.context, chunk.length);
		this.#moves();
		if (this.#paced === undefined || this.#state !== 'open') return this.#afterClient(this.#toUpstream.pass(chunk));
		this.#paced.pass(chunk);
		if (this.#paced.isHolding) this.request.context.client.pauseBody();
	}

	passMessages(bytes: Buffer): void {
		this.#afterClient(this.#toUpstream.write(bytes));
	}

	#afterClient(mayGoOn: boolean): void {
		if (this.#toUpstream.follower.hasClosed) this.#why ??= 'client';
		if (mayGoOn || this.#isUpstreamFull) return;
		this.#isUpstreamFull = true;
		this.request.context.client.pauseBody();
	}

	onCaughtUp(): void {
		if (this.#clientEnded) this.#endUpstream();
		else this.#resumeClient();
	}

	onWritable(): void {
		this.#isUpstreamFull = false;
		this.#resumeClient();
	}

	#resumeClient(): void {
		if (!this.#isUpstreamFull && !this.#isHolding) this.request.context.client.resumeBody();
	}

	get #isHolding(): boolean {
		return this.#paced?.isHolding === true;
	}

	/** The client sends nothing more. */
	onRequestEnd(): void {
		this.#clientEnded = true;
		this.#why ??= 'client';
		this.#moves();
		if (!this.#isHolding) this.#endUpstream();
	}

	#endUpstream(): void {
		this.#toUpstream.end();
		this.#endIfOver();
	}

	/** Memory of the connection's, but the tenant's doing: it pays for it as for a body. */
	onBodyHeld(bytes: number): void {
		if (this.request.context.client.hasEnded) {
			this.#why ??= 'client';
			this.#moves();
		}
		if (bytes === 0) return this.#held?.release();
		const { plane, identity } = this.request.context;
		this.#held ??= new Reservation(plane.bufferedBytes, identity!.tenantKey);
		if (this.#held.resize(bytes) !== undefined) this.close('no_memory');
	}

	// --- From the upstream to the client. ---

	onBody(chunk: Buffer): void {
		const { context, attempt } = this.request;
		countGiven(context, chunk.length);
		this.#moves();
		const mayGoOn = this.#toClient.pass(chunk);
		if (this.#toClient.follower.hasClosed) this.#why ??= 'upstream';
		if (!mayGoOn) attempt!.connection?.pause();
	}

	onClientDrained(): void {
		this.#moves();
		this.request.attempt!.connection?.resume();
	}

	/** The upstream sends nothing more. Without a Close the client would take that for a broken connection, so it is told. */
	onEnd(): void {
		this.#upstreamEnded = true;
		this.#moves();
		// Behind the client's own end it is the answer to that.
		const isAnswer = this.#clientEnded || this.#toUpstream.follower.hasClosed;
		if (isAnswer || this.#toClient.follower.hasClosed || !this.#toClient.follower.isBetweenFrames) {
			this.#why ??= 'upstream';
			this.#toClient.end();
		} else {
			this.#why ??= 'upstream_lost';
			this.#toClient.close(closeFrame(CODES.upstream_lost, undefined));
		}
		this.#endIfOver();
	}

	/** The client has all that it was given, its end included. */
	onClientHasAll(): void {
		this.#clientHasAll = true;
		this.#endIfOver();
	}

	#endIfOver(): void {
		if (!this.#clientEnded || !this.#upstreamEnded || !this.#clientHasAll || this.#state === 'over') return;
		this.#state = 'over';
		this.request.closeTunnel();
	}

	// --- How it ends. ---

	/** Ends it, with a Close to each side where one may stand (RFC 6455 section 5.5.1). Where it is ending already, nothing happens. */
	close(why: TunnelClose): void {
		if (this.#state !== 'open') return;
		this.#state = 'closing';
		this.#why ??= why;
		const { context, attempt } = this.request;
		context.plane.deadlines.linger.add(this.request);
		this.#paced?.drop();
		this.#toUpstream.close(closeFrame(CODE.goingAway, randomBytes(4)));
		this.#toClient.close(closeFrame(CODES[why], undefined));
		// What a side that has ended still gets is read and dropped. A frame that is under way ends as fast as it is taken.
		if (this.#toClient.hasEnded) attempt!.connection?.resume();
		if (this.#toUpstream.hasEnded || !this.#isUpstreamFull) context.client.resumeBody();
		if (this.#toClient.follower.isLost) this.#cut();
	}

	/** Its connection to the upstream is broken. The client is told now, or cut off. */
	onUpstreamLost(): void {
		this.#upstreamEnded = true;
		this.close('upstream_lost');
		if (this.#toClient.hasEnded) this.#endIfOver();
		else this.#cut();
	}

	/** Something of ours has thrown; the client is cut off. */
	onFault(error: unknown): void {
		this.#why = 'internal_error';
		this.request.onFault(error);
	}

	/** Bytes have moved, or a side has ended. */
	#moves(): void {
		if (this.#state !== 'open') return;
		const { idle, halfEnded } = this.#route;
		(this.#hasHalfEnded ? halfEnded : idle).add(this.request);
	}

	get #hasHalfEnded(): boolean {
		return this.#clientEnded || this.#upstreamEnded || this.request.context.client.hasEnded;
	}

	/** Of the request: nothing has moved for too long, or the moment is over in which its ends could end in good order. */
	onDeadline(): void {
		if (this.#state === 'closing') this.#cut();
		// The client's messages wait here, for their time. Whoever has sent more of them than it may, and has left, keeps no tunnel by that.
		else if (this.#isHolding && !this.#hasHalfEnded) this.#moves();
		else this.close('idle');
	}

	/** Whoever has not been told of the end is cut off. */
	#cut(): void {
		if (this.#state === 'over') return;
		this.#state = 'over';
		if (this.#toClient.hasEnded) this.request.closeTunnel();
		else this.request.context.client.reset();
	}

	release(): void {
		this.#state = 'over';
		this.#paced?.drop();
		this.#held?.release();
	}
}

/** Status codes (RFC 6455 section 7.4.1, and the registry that it has made). */
const CODE = { goingAway: 1001, policy: 1008, internalError: 1011, tryAgainLater: 1013 } as const;

/** What the client is told where the proxy ends its tunnel. */
const CODES = {
	drain: CODE.goingAway,
	age: CODE.goingAway,
	idle: CODE.goingAway,
	token_expired: CODE.policy,
	expired: CODE.policy,
	ca_removed: CODE.policy,
	revoked: CODE.policy,
	upstream_lost: CODE.internalError,
	no_memory: CODE.tryAgainLater,
} as const satisfies Partial<Record<TunnelEnd, number>>;

/** Why the proxy ends a tunnel. */
export type TunnelClose = keyof typeof CODES;
