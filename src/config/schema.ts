import { z } from 'zod';
import { prefixProblem } from './prefix.ts';
import { parseUpstream } from './upstream.ts';
import { show, showWithType } from './wording.ts';

/**
 * The tables and keys of the file: types, ranges and defaults, in the file's own names and units (specification 2.1
 * and 8, decisions "Limits beyond the specification"). Unknown keys are reported by `diagnose.ts`.
 */

/** Node's timers fire at once when asked to wait for more than 2³¹ - 1 ms. */
const MAX_SECONDS = 2_147_483;
/** Budgets are counted in KiB in 32-bit words; half their range leaves room for all threads to overshoot. */
const MAX_BYTES = 2 ** 40;

const route = table('[[routes]]', {
	prefix: text('a path that begins with "/"', 'set it to the paths to route, for example "/api"').superRefine(
		(prefix, context) => {
			const problem = prefixProblem(prefix);
			if (problem !== undefined) context.addIssue(problem);
		},
	),
	upstream: text(
		'http://host[:port]',
		'set it to the address to route to, for example "http://localhost:3000"',
	).transform((address, context) => {
		const upstream = parseUpstream(address);
		if (typeof upstream !== 'string') return upstream;
		context.addIssue(upstream);
		return z.NEVER;
	}),
	cooldown_secs: wholeNumber(1, MAX_SECONDS, 'default_cooldown_secs', 'of seconds').optional(),
});

const tls = table('[tls]', {
	cert_path: file('the server certificate chain, PEM, leaf first'),
	key_path: file('the server private key, PEM'),
	client_ca_path: file('the bundle of CAs that client certificates must chain to, PEM'),
});

const jwt = table('[jwt]', {
	jwks_path: file('the RSA public key that tokens are verified with, PEM'),
	issuer: claim('iss').optional(),
	audience: claim('aud').optional(),
});

const limits = table('[limits]', {
	max_request_body_bytes: wholeNumberOr(8 * 1024 * 1024, 1, MAX_BYTES, 'of bytes'),
	request_body_timeout_secs: seconds(30),
	upstream_timeout_secs: seconds(30),
	tls_handshake_timeout_secs: seconds(10),
	first_request_timeout_secs: seconds(10),
	// RFC 9113 section 5.1.1: a connection has no more client-initiated streams than this.
	h2_max_concurrent_streams: wholeNumberOr(64, 1, 2 ** 30),
	shutdown_drain_secs: seconds(25),
	max_header_bytes: wholeNumberOr(16_384, 256, 1024 * 1024, 'of bytes'),
	max_buffered_bytes: wholeNumberOr(1024 ** 3, 1, MAX_BYTES, 'of bytes'),
	max_connections: wholeNumber(1, 2 ** 30, 'what the file limit allows').optional(),
});

export const configFile = z.strictObject({
	health_interval_secs: seconds(5),
	default_cooldown_secs: wholeNumberOr(30, 1, MAX_SECONDS, 'of seconds'),
	// Ticks of the limiter (`gates/tenant-limit.ts`) stay exact in a double for 28 years of uptime at this rate.
	tenant_rps: wholeNumberOr(1000, 0, 10_000_000, 'of requests per second'),
	tls: emptyIfAbsent(tls),
	jwt: emptyIfAbsent(jwt),
	routes: z.array(route, { error: expected('a list of tables', 'write [[routes]], with two brackets') }).default([]),
	limits: emptyIfAbsent(limits),
});

/** What the file says, with defaults filled in. */
export type ConfigFile = z.output<typeof configFile>;

/** The keys of each table; `''` stands for what comes before the first table header. */
export const KEYS: ReadonlyMap<string, readonly string[]> = new Map([
	['', Object.keys(configFile.shape)],
	['tls', Object.keys(tls.shape)],
	['jwt', Object.keys(jwt.shape)],
	['limits', Object.keys(limits.shape)],
	['routes', Object.keys(route.shape)],
]);

function table<Shape extends z.ZodRawShape>(header: string, shape: Shape) {
	return z.strictObject(shape, { error: expected('a table', `write ${header} on a line of its own above its keys`) });
}

/** An absent table is read as an empty one, so that each of its required keys is named as missing. */
function emptyIfAbsent<Table extends z.ZodObject>(table: Table) {
	return table.prefault({} as z.input<Table>);
}

function text(wanted: string, remedy: string) {
	return z.string({ error: expected(wanted, remedy) });
}

function file(content: string) {
	const error = expected('the path of a file', `set it to the file with ${content}`);
	// The operating system would cut the path at a NUL.
	return z.string({ error }).regex(/^[^\0]+$/, { error });
}

function claim(name: string) {
	const error = expected(`the "${name}" that tokens must carry`, `leave it out to leave "${name}" unchecked`);
	return z.string({ error }).min(1, { error });
}

/** Seconds, also fractions of one; they end up as whole milliseconds. */
function seconds(fallback: number) {
	const error = expected('a number of seconds above 0', `leave it out for ${fallback}`);
	const tooBig = expected(`a number of seconds, at most ${MAX_SECONDS}`, `leave it out for ${fallback}`);
	return z.number({ error }).positive({ error }).max(MAX_SECONDS, { error: tooBig }).default(fallback);
}

function wholeNumberOr(fallback: number, least: number, most: number, of?: string) {
	return wholeNumber(least, most, String(fallback), of).default(fallback);
}

/** @param unset what holds if the key is left out. */
function wholeNumber(least: number, most: number, unset: string, of?: string) {
	const wanted = of === undefined ? 'a whole number' : `a whole number ${of}`;
	const tooSmall = expected(`${wanted}, at least ${least}`, `set it to ${least} or more, or leave it out for ${unset}`);
	const tooBig = expected(`${wanted}, at most ${most}`, `set it to ${most} or less, or leave it out for ${unset}`);
	const error = (issue: RawIssue) => (Number(issue.input) > most ? tooBig(issue) : tooSmall(issue));
	return z.number({ error }).refine((n) => Number.isInteger(n) && n >= least && n <= most, { error });
}

interface RawIssue {
	readonly code?: string | undefined;
	readonly input?: unknown;
}

/** Words a zod issue: what the value must be, what it is, and what to do about it. */
function expected(wanted: string, remedy: string): (issue: RawIssue) => string {
	return ({ code, input }) => {
		if (input === undefined) return `is missing; ${remedy}`;
		return `must be ${wanted} (got ${code === 'invalid_type' ? showWithType(input) : show(input)}); ${remedy}`;
	};
}
