import type { FastifyContextConfig, FastifyPluginAsync, FastifyReply, FastifyRequest } from 'fastify';
import { suggest } from '../shared/suggest.ts';
import { checkGuard, questionTo } from './admission.ts';
import { authorizationIn } from './authorization.ts';
import { certificateOf } from './caller.ts';
import { GateError } from './error.ts';
import { callForeign } from './foreign.ts';
import type { Claims, Gate } from './gate.ts';
import { ANY, BOOLEAN, checkOptions, FUNCTION, type Kind, type Kinds, SCOPES } from './options.ts';
import { type Refusal, RefusedError, signalHeaders } from './refusal.ts';
import { releaseAfterResponse } from './slot.ts';

declare module 'fastify' {
	interface FastifyRequest {
		/**
		 * What the token says.
		 *
		 * @throws {GateError} `ERR_GATE_NO_CLAIMS` on a route that is not behind the gate.
		 */
		readonly claims: Claims;
	}
	interface FastifyContextConfig {
		/** `false` leaves this route outside the gate: `{ config: { gate: false } }`. */
		gate?: boolean;
		/** What the token must be good for on this route; see `Caller.scopes`. */
		scopes?: readonly string[];
	}
}

export interface GuardOptions {
	readonly gate: Gate;
	/**
	 * Answers a refused request in place of the gate's plain text: by `reply.send`, by a payload that it returns or resolves with,
	 * or by throwing, as a `RefusedError`, for the application's error handler. Status and `www-authenticate` or `retry-after`
	 * are set already. The request never goes on to the handlers behind the gate.
	 */
	readonly onRefused?: (refusal: Refusal, request: FastifyRequest, reply: FastifyReply) => unknown;
}

const ADMITTED = Symbol('mtls-edge-proxy.claims');

type Guarded = FastifyRequest & { [ADMITTED]: Claims | null };

/**
 * Plugin for Fastify 4 and later: guards every route of the instance it is registered on and of the instances below (its hook
 * runs before the body is read), except routes with `config: { gate: false }`. A refused request is answered with 401
 * `unauthorized` or 429 `rate limited`, an admitted one has `request.claims`.
 */
export const guard: FastifyPluginAsync<GuardOptions> = async (app, options) => {
	checkGuard(options.gate, options, KINDS, []);
	const { gate, onRefused } = options;
	const ask = questionTo(gate);
	if (!app.hasRequestDecorator(ADMITTED)) {
		// Both in advance, so that all requests have one shape.
		app.decorateRequest(ADMITTED, null);
		app.decorateRequest('claims', { getter: claimsOf });
	}
	app.addHook('onRoute', ({ config, url }) => checkRoute(config, url));
	app.addHook('onRequest', (request, reply, next) => {
		const config = configOf(request);
		try {
			checkRoute(config, config.url);
		} catch (error) {
			// The route is older than this plugin, and was not judged before: 500.
			next(error as GateError);
			return;
		}
		if (config.gate === false) return next();
		const { raw } = request;
		const caller = { certificate: () => certificateOf(raw), scopes: config.scopes };
		const verdict = ask(raw, authorizationIn(raw.rawHeaders), caller);
		if (verdict.ok) {
			(request as Guarded)[ADMITTED] = verdict.claims;
			if (verdict.slot !== undefined) releaseAfterResponse(verdict.slot, raw, reply.raw);
			if (verdict.headers !== undefined) reply.headers(verdict.headers);
			return next();
		}
		if (onRefused) leaveTo(onRefused, verdict.refusal, request, reply, next);
		else answer(reply, verdict.refusal);
	});
};

type RouteConfig = FastifyContextConfig & { readonly url?: string };

/** Of the request's route. The first releases of Fastify 4 keep it in a context, which later ones no longer have. */
function configOf(request: FastifyRequest): RouteConfig {
	return request.routeOptions?.config ?? (request as unknown as { context: { config: RouteConfig } }).context.config;
}

function leaveTo(
	onRefused: NonNullable<GuardOptions['onRefused']>,
	refusal: Refusal,
	request: FastifyRequest,
	reply: FastifyReply,
	next: (error: Error) => void,
): void {
	reply.code(refusal.status).headers(signalHeaders(refusal));
	let isAsync = false;
	callForeign(
		() => {
			const outcome = onRefused(refusal, request, reply);
			// It is a thenable that settles with the connection, which may be much later.
			return outcome === reply ? undefined : outcome;
		},
		// Fastify takes a hook that is done without an error for one that lets the request through.
		(error) => next(error instanceof Error ? error : new RefusedError(refusal)),
		(payload) => {
			if (isAsync) finish(reply, refusal, payload);
			else if (payload !== undefined && !reply.sent) reply.send(payload);
		},
	);
	isAsync = true;
}

/** Nothing more will come of the hook: without an answer the request would hang. */
function finish(reply: FastifyReply, refusal: Refusal, payload: unknown): void {
	if (reply.sent) return;
	if (payload === undefined || payload === reply) answer(reply, refusal);
	else reply.send(payload);
}

function answer(reply: FastifyReply, { status, headers, body }: Refusal): void {
	reply.code(status).headers(headers).send(body);
}

function claimsOf(this: FastifyRequest): Claims {
	const claims = (this as Guarded)[ADMITTED];
	if (claims) return claims;
	throw new GateError('ERR_GATE_NO_CLAIMS', 'request.claims was read on a route that is not behind the gate');
}

// Fastify puts options of its own beside those of a plugin.
const KINDS: Kinds<GuardOptions & { prefix: string; logLevel: string; logSerializers: object }> = {
	gate: ANY,
	onRefused: FUNCTION,
	prefix: ANY,
	logLevel: ANY,
	logSerializers: ANY,
};

const ROUTE_KINDS: Readonly<Record<'gate' | 'scopes', Kind>> = { gate: BOOLEAN, scopes: SCOPES };
const CHECKED = new WeakSet<object>();

/**
 * Judges what a route's `config` says to the guard, once. Other plugins have options there, too, so only those are refused that are
 * almost ours.
 *
 * @throws {GateError} `ERR_GATE_OPTIONS`.
 */
function checkRoute(config: FastifyContextConfig | undefined, url: string | undefined): void {
	if (config === undefined || CHECKED.has(config)) return;
	const names = Object.keys(ROUTE_KINDS);
	const isOurs = (key: string) =>
		names.some((name) => name[0] === key[0]?.toLowerCase()) && suggest(key, names) !== undefined;
	const ours = Object.entries(config).filter(([key]) => isOurs(key));
	checkOptions('ERR_GATE_OPTIONS', `config of ${url}`, Object.fromEntries(ours), ROUTE_KINDS);
	CHECKED.add(config);
}

// What the package fastify-plugin would add: the hook belongs to the instance that registers the plugin, not to a
// scope of the plugin's own, and an instance of another major version refuses it.
Object.assign(guard, {
	[Symbol.for('skip-override')]: true,
	[Symbol.for('fastify.display-name')]: 'mtls-edge-proxy',
	[Symbol.for('plugin-meta')]: { name: 'mtls-edge-proxy', fastify: '>=4' },
});

export default guard;
