import type { Rejection } from '@mtls-edge-proxy/gate/gates/rejection.ts';
import type { Clock } from '@mtls-edge-proxy/gate/shared/clock.ts';
import type { SpanContext } from '../../gates/correlation.ts';
import type { TracedGate } from '../../gates/pipeline.ts';
import type { SpanEvent } from '../../shared/span-record.ts';
import type { ClientConnection } from '../client/client-connection.ts';

/** The part of a sampled request that its record lacks: the gates it has passed, and when. */
export class RequestSpan {
	readonly connection: Pick<ClientConnection, 'ip' | 'protocol'>;
	readonly context: SpanContext;
	/** In chronological order. */
	readonly events: SpanEvent[] = [];
	readonly #clock: Clock;
	readonly #startedAt: number;
	#gate: TracedGate = 'request head';

	/** @param startedAt monotonic milliseconds. */
	constructor(connection: RequestSpan['connection'], context: SpanContext, clock: Clock, startedAt: number) {
		this.connection = connection;
		this.context = context;
		this.#clock = clock;
		this.#startedAt = startedAt;
	}

	/** The request has passed the previous gate and enters this one. */
	enters(gate: TracedGate): void {
		this.#judged(undefined);
		this.#gate = gate;
	}

	/** The upstream has answered, or the current gate has refused the request. */
	responds(refusal: Rejection | undefined): void {
		this.#judged(refusal);
		this.#gate = 'answer';
	}

	breaksOff(why: Rejection): void {
		this.#judged(why);
	}

	#judged(refusal: Rejection | undefined): void {
		const afterMs = this.#clock.now() - this.#startedAt;
		this.events.push(
			refusal === undefined
				? { gate: this.#gate, afterMs }
				: { gate: this.#gate, afterMs, refused: refusal.code, reason: refusal.reason ?? refusal.body },
		);
	}
}
