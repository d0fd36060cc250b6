import type { RevokedTokens } from '@mtls-edge-proxy/gate/identity/revocations.ts';
import type { Clock } from '@mtls-edge-proxy/gate/shared/clock.ts';
import type { WorkerStats } from '../../memory/worker-stats.ts';
import { type DeadlineQueue, Timed } from '../loop/deadlines.ts';
import { guarded } from '../loop/faults.ts';
import type { Tunnel } from './tunnel.ts';

/**
 * The tunnels of one worker. Each is ended when its token expires or is revoked; they are checked when the earliest one is
 * due.
 */
export class OpenTunnels extends Timed {
	readonly #open = new Set<Tunnel>();
	readonly #clock: Clock;
	readonly #stats: Pick<WorkerStats, 'count' | 'tunnels'>;
	readonly #patrol: DeadlineQueue;
	/** Wall-clock seconds before which no token expires. May be that of a tunnel that has ended. */
	#earliest = Number.POSITIVE_INFINITY;
	#isWatching = false;
	/** The current sweep; a new one replaces it. */
	#sweep = 0;

	/** @param patrol its length is the interval between two looks. */
	constructor(clock: Clock, stats: Pick<WorkerStats, 'count' | 'tunnels'>, patrol: DeadlineQueue) {
		super();
		this.#clock = clock;
		this.#stats = stats;
		this.#patrol = patrol;
	}

	add(tunnel: Tunnel): void {
		this.#open.add(tunnel);
		this.#stats.tunnels(tunnel.request.context.client.connection.protocol, 1);
		if (tunnel.endsAt < this.#earliest) this.#earliest = tunnel.endsAt;
		if (this.#isWatching) return;
		this.#isWatching = true;
		this.#patrol.add(this);
	}

	/** Removes a tunnel that is over. */
	delete(tunnel: Tunnel): void {
		if (!this.#open.delete(tunnel)) return;
		this.#stats.tunnels(tunnel.request.context.client.connection.protocol, -1);
		this.#stats.count('tunnelEnds', tunnel.why);
	}

	/** Time for the next look. */
	override onDeadline(): void {
		this.#isWatching = this.#open.size > 0;
		if (!this.#isWatching) {
			this.#earliest = Number.POSITIVE_INFINITY;
			return;
		}
		this.#patrol.add(this);
		const now = this.#clock.wallSeconds();
		if (now < this.#earliest) return;
		this.#earliest = Number.POSITIVE_INFINITY;
		for (const tunnel of this.#open) {
			if (tunnel.endsAt <= now) tunnel.close('token_expired');
			else if (tunnel.endsAt < this.#earliest) this.#earliest = tunnel.endsAt;
		}
	}

	/** Ends tunnels whose token has been revoked, a few per turn of the loop. */
	endRevoked(revoked: RevokedTokens): void {
		const sweep = ++this.#sweep;
		const waiting = [...this.#open];
		const look = () => {
			if (sweep !== this.#sweep) return;
			for (const tunnel of waiting.splice(-A_FEW)) {
				if (revoked.refuse(tunnel.request.context.principal!) !== undefined) tunnel.close('revoked');
			}
			if (waiting.length > 0) setImmediate(guarded(this, look));
		};
		look();
	}
}

/** Tunnels that are checked in one turn of the event loop. */
const A_FEW = 256;
