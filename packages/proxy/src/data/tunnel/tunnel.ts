import { randomBytes } from 'node:crypto';
import type { TunnelEnd } from '../../memory/worker-stats.ts';
import { HeldBytes } from '../body/held-bytes.ts';
import { endOwner } from '../loop/faults.ts';
import { countGiven, countReceived } from '../request/context.ts';
import type { Carrier } from '../request/contract.ts';
import type { Exchange } from '../request/exchange.ts';
import type { WebSocketRoute } from '../routes/route.ts';
import { closeFrame, Direction } from './direction.ts';
import { FrameFollower } from './frame-follower.ts';
import { type MessageSink, PacedMessages } from './paced-messages.ts';

/**
 * A WebSocket between a client and an upstream, from the response to its handshake to its end. Bytes pass as they come; each side is read only
 * as fast as the other takes them. The request stays in flight until the end.
 *
 * `open`: bytes pass. `closing`: the proxy has ended it, and each side has a moment to end cleanly. `over`: both sides are done.
 */
export class Tunnel implements Carrier, MessageSink {
	/** Wall-clock seconds at which its token expires; infinite if that does not matter. */
	readonly endsAt: number;
	readonly request: Exchange;
	readonly #route: WebSocketRoute;
	readonly #toClient: Direction;
	readonly #toUpstream: Direction;
	#state: 'open' | 'closing' | 'over' = 'open';
	/** `undefined`: no end has begun. */
	#why: TunnelEnd | undefined = undefined;
	#clientEnded = false;
	#upstreamEnded = false;
	/** The client has all that it was given, its end included. */
	#clientHasAll = false;
	/** The upstream takes no more at the moment. */
	#isUpstreamFull = false;
	/** `undefined`: the route does not limit messages. */
	readonly #paced: PacedMessages | undefined;
	/** Bytes that wait; `undefined`: none have. */
	#heldBytes: HeldBytes | undefined = undefined;

	/** @param hasExtensions whether the two ends have agreed on extensions. */
	constructor(request: Exchange, route: WebSocketRoute, hasExtensions: boolean) {
		const { client, plane, principal } = request.context;
		const { leewaySeconds, claims } = principal!;
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

	/** The cause of its end. */
	get why(): TunnelEnd {
		return this.#why ?? 'client_lost';
	}

	// --- From the client to the upstream. ---

	onRequestBody(chunk: Buffer): void {
		countReceived(this.request.context, chunk.length);
		this.#moves();
		const { follower } = this.#toUpstream;
		const { frames } = follower;
		this.#passToUpstream(chunk);
		this.request.context.client.connection.spend((follower.frames - frames) / FRAMES_PER_TOKEN);
	}

	#passToUpstream(chunk: Buffer): void {
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
		if (!this.#isUpstreamFull && !this.#isHolding()) this.request.context.client.resumeBody();
	}

	#isHolding(): boolean {
		return this.#paced?.isHolding === true;
	}

	/** The client sends nothing more. */
	onRequestEnd(): void {
		this.#clientEnded = true;
		this.#why ??= 'client';
		this.#moves();
		if (!this.#isHolding()) this.#endUpstream();
	}

	#endUpstream(): void {
		this.#toUpstream.end();
		this.#endIfOver();
	}

	onBodyHeld(bytes: number): void {
		if (this.request.context.client.hasEnded) {
			this.#why ??= 'client';
			this.#moves();
		}
		this.#held.hold('upload', bytes);
	}

	onUploadHeld(bytes: number): void {
		this.#held.hold('upstream upload', bytes);
	}

	get #held(): HeldBytes {
		this.#heldBytes ??= new HeldBytes(this.request, () => this.close('no_memory'));
		return this.#heldBytes;
	}

	// --- From the upstream to the client. ---

	onResponseHeld(bytes: number): void {
		this.#held.hold('response', bytes);
	}

	onBody(chunk: Buffer): void {
		const { context, attempt } = this.request;
		countGiven(context, chunk.length);
		this.#moves();
		const mayGoOn = this.#toClient.pass(chunk);
		if (this.#toClient.follower.hasClosed) this.#why ??= 'upstream';
		if (mayGoOn) return;
		this.#held.onClientFull();
		attempt!.connection?.pause();
	}

	onClientDrained(): void {
		this.#heldBytes?.onClientDrained();
		this.#moves();
		this.request.attempt!.connection?.resume();
	}

	/** The upstream sends nothing more. Without a Close the client would see a broken connection, so it gets one. */
	onEnd(): void {
		this.#upstreamEnded = true;
		this.#moves();
		// After the client's own end, this is the reply to it.
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

	/**
	 * Ends the tunnel, with a Close to each side that may still get one (RFC 6455 section 5.5.1). No effect if it is already ending.
	 * Many tunnels may end at once, so a throw cuts this one off and concerns no other.
	 */
	close(why: TunnelClose): void {
		if (this.#state !== 'open') return;
		this.#state = 'closing';
		this.#why ??= why;
		try {
			this.#sendCloses(why);
		} catch (error) {
			endOwner(this, error);
		}
	}

	#sendCloses(why: TunnelClose): void {
		const { context, attempt } = this.request;
		context.plane.deadlines.linger.add(this.request);
		this.#paced?.drop();
		this.#toUpstream.close(closeFrame(CODE.goingAway, randomBytes(4)));
		this.#toClient.close(closeFrame(CODES[why], undefined));
		// Bytes for a side that has ended are read and dropped. A frame under way ends as fast as it is taken.
		if (this.#toClient.hasEnded) attempt!.connection?.resume();
		if (this.#toUpstream.hasEnded || !this.#isUpstreamFull) context.client.resumeBody();
		if (this.#toClient.follower.isLost) this.#cut();
	}

	/** The connection to the upstream is broken. The client gets a Close now, or is cut off. */
	onUpstreamLost(): void {
		this.#upstreamEnded = true;
		this.close('upstream_lost');
		if (this.#toClient.hasEnded) this.#endIfOver();
		else this.#cut();
	}

	/** Our code has thrown; the client is cut off. */
	onFault(error: unknown): void {
		this.#why = 'internal_error';
		this.request.onFault(error);
	}

	/** Bytes have moved, or a side has ended. */
	#moves(): void {
		if (this.#state !== 'open') return;
		const { idle, halfEnded } = this.#route;
		(this.#hasHalfEnded() ? halfEnded : idle).add(this.request);
	}

	#hasHalfEnded(): boolean {
		return this.#clientEnded || this.#upstreamEnded || this.request.context.client.hasEnded;
	}

	/** Deadline of the request: nothing has moved for too long, or the time for a clean end is over. */
	onDeadline(): void {
		if (this.#state === 'closing') this.#cut();
		// The client's paced messages wait here. A client that has left does not keep its tunnel by messages beyond its rate.
		else if (this.#isHolding() && !this.#hasHalfEnded()) this.#moves();
		else this.close('idle');
	}

	/** Cuts off each side that has not got the end. */
	#cut(): void {
		if (this.#state === 'over') return;
		this.#state = 'over';
		if (this.#toClient.hasEnded) this.request.closeTunnel();
		else this.request.context.client.reset();
	}

	release(): void {
		this.#state = 'over';
		this.#paced?.drop();
		this.#heldBytes?.release();
	}
}

/** Frames of a client that cost a token of its connection's share: a microsecond of the worker, about. */
const FRAMES_PER_TOKEN = 32;
/** Status codes (RFC 6455 section 7.4.1 and its registry). */
const CODE = { goingAway: 1001, policy: 1008, internalError: 1011, tryAgainLater: 1013 } as const;

/** The status code for the client when the proxy ends its tunnel. */
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
