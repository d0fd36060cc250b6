/**
 * The pipeline: the name of every gate, in the order in which a request meets them. `proxy explain`, the events of spans and the
 * tables in docs/ take names and order from here. A new gate is a new row; tests then name the pages that lack it.
 *
 * `explained`: a gate of `proxy explain`. `traced`: an event of spans. If the proxy asks several gates at once, each is explained,
 * and the row above them traces them as one event.
 */
export const PIPELINE = {
	'client certificate': explained("the client's certificate chains to a CA in the file, is valid, and is not revoked"),
	'request head': both('framing, method and header fields of the head'),
	method: explained('the method is one that the proxy knows'),
	'header fields': explained('the header fields are unambiguous'),
	token: both('the token and its claims'),
	'bound token': both("a bound token is bound to this connection's certificate"),
	'tenant rate': both('the rate of the tenant'),
	'tenant concurrency': both("the tenant's requests in flight, if the tenant has a limit on them"),
	path: both('the path is unambiguous'),
	'protocol change': both('no upgrade, CONNECT or TRACE, except a WebSocket on a route that accepts WebSockets'),
	'grpc timeout': both('the `grpc-timeout` of a gRPC call, if it has one, is well-formed'),
	'body length': both('the declared length of the body (in streaming mode this gate comes after `route`)'),
	body: traced('collected mode: the whole body, if there is one'),
	route: both('a route matches the path'),
	forwarding: both('the forwarded host and the path after the prefix are unambiguous, if the route uses them'),
	'route access': traced('names in the certificate, tenants and scopes, if the route has rules'),
	'certificate names': explained("the route's rules admit the names in the certificate"),
	tenants: explained('the route is open to the tenant'),
	scopes: explained("the token has the route's scopes"),
	'certificate headers': both(
		"if the route sends the client's certificate to the upstream: the certificate is available",
	),
	'route rate': both('the rate of the route, if it has one'),
	'dispatch queue': traced('the request may be sent in this turn of the event loop'),
	'circuit breaker': both("the upstream's breaker admits the request"),
	'upstream queue': traced('an upstream that was at its limit now has room for the request'),
	upstream: both('the upstream has responded (streaming mode: its head has arrived)'),
	answer: traced('the response to the client broke off'),
} as const;

type Pipeline = typeof PIPELINE;
type NamesWhere<Shown extends 'explained' | 'traced'> = {
	[Name in keyof Pipeline]: Pipeline[Name][Shown] extends true ? Name : never;
}[keyof Pipeline];

/** Stable: members of `proxy explain --json` and events of spans. */
export type ExplainedGate = NamesWhere<'explained'>;
export type TracedGate = NamesWhere<'traced'>;

function both(meaning: string) {
	return { meaning, explained: true, traced: true } as const;
}

function explained(meaning: string) {
	return { meaning, explained: true, traced: false } as const;
}

function traced(meaning: string) {
	return { meaning, explained: false, traced: true } as const;
}

/** Names in the pipeline's order. */
export function gatesWhere(shown: 'explained' | 'traced'): string[] {
	return Object.entries(PIPELINE).flatMap(([name, gate]) => (gate[shown] ? [name] : []));
}
