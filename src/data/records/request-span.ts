import type { SpanContext } from '../../gates/correlation.ts';
import type { Rejection } from '../../gates/rejection.ts';
import type { Clock } from '../../shared/clock.ts';
import type { SpanEvent } from '../../shared/span-record.ts';
import type { ClientConnection } from '../client/client-connection.ts';

/** What a request passes through; each becomes an event of its span. The names are those of `proxy explain`, where it has them. */
export type Gate = keyof typeof GATE_MEANINGS;

/** For docs/reference/tracing.md, in the order of the pipeline. */
export const GATE_MEANINGS = {
	'request head': 'framing, method and header fields of the head',
	token: 'the token and its claims',
	'bound token': "a bound token is bound to this connection's certificate",
	'tenant rate': 'the rate of the tenant',
	'tenant concurrency': "the tenant's requests in flight, if it has such a limit",
	path: 'the path is unambiguous',
	'protocol change': 'no upgrade, CONNECT or TRACE',
	body: 'collected mode: the whole body, if there is one',
	route: 'a route has the path',
	forwarding: 'the path behind the prefix and the forwarded host are unambiguous, if the route uses them',
	'route access': 'names in the certificate, tenants and scopes, if the route has rules',
	'certificate headers': "the client's certificate is there, if the upstream gets it",
	'route rate': 'the rate of the route, if it has one',
	'body length': 'streaming mode: the declared length of the body',
	'dispatch queue': 'the request has had its turn to leave',
	'circuit breaker': 'the breaker of the upstream admits it',
	'upstream queue': 'the upstream, which is at a limit, has a place for it',
	upstream: 'the answer of the upstream is there (streaming mode: its head)',
	answer: 'the answer broke off on its way to the client',
} as const;

/** What is kept of a request that is sampled, beside its record: which gates it has passed and when. */
export class RequestSpan {
	readonly connection: Pick<ClientConnection, 'ip' | 'protocol'>;
	readonly context: SpanContext;
	/** In the order of time. */
	readonly events: SpanEvent[] = [];
	readonly #clock: Clock;
	readonly #startedAt: number;
	#gate: Gate = 'request head';

	/** @param startedAt monotonic milliseconds. */
	constructor(connection: RequestSpan['connection'], context: SpanContext, clock: Clock, startedAt: number) {
		this.connection = connection;
		this.context = context;
		this.#clock = clock;
		this.#startedAt = startedAt;
	}

	/** The gate before is passed. */
	enters(gate: Gate): void {
		this.#judged(undefined);
		this.#gate = gate;
	}

	/** The answer is there: the upstream's, or a refusal by the gate at which the request is. */
	answers(refusal: Rejection | undefined): void {
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
