import { TOKEN_INVALID } from '@mtls-edge-proxy/gate/gates/rejection.ts';
import { Timed } from '../loop/deadlines.ts';
import type { Exchange } from './exchange.ts';

/** Ends a response that still streams when its token expires. Only for routes that ask for it: each request is checked every second. */
export class StreamExpiry extends Timed {
	readonly #request: Exchange;
	/** Wall-clock seconds; leeway included. */
	readonly #endsAt: number;

	constructor(request: Exchange) {
		super();
		const { leewaySeconds, claims } = request.context.principal!;
		this.#request = request;
		this.#endsAt = claims.exp + leewaySeconds;
		request.context.plane.deadlines.patrol.add(this);
	}

	override onDeadline(): void {
		const { clock, deadlines } = this.#request.context.plane;
		if (clock.wallSeconds() < this.#endsAt) return deadlines.patrol.add(this);
		// The upstream has done nothing wrong.
		this.#request.fail(EXPIRED, 'abandoned');
	}

	override onFault(error: unknown): void {
		this.#request.onFault(error);
	}
}

const EXPIRED = TOKEN_INVALID.because('the token expired during the response');
