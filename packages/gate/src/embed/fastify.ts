import type { FastifyContextConfig, FastifyPluginAsync, FastifyReply, FastifyRequest } from 'fastify';
import { suggest } from '../words/suggest.ts';
import { checkGuard, questionTo } from './admission.ts';
import { authorizationIn, certificateOf } from './caller.ts';
import { GateError } from './error.ts';
import { callForeign } from './foreign.ts';
import type { Claims, Gate } from './gate.ts';
import { ANY, BOOLEAN, checkOptions, FUNCTION, type Kind, type Kinds, SCOPES } from './options.ts';
import { type Refusal, RefusedError, signalHeaders } from './refusal.ts';
import { releaseAfterResponse } from './slot.ts';

declare module 'fastify' {
	interface FastifyRequest {
		/**
		 * The claims of the token.
		 *
		 * @throws {GateError} `ERR_GATE_NO_CLAIMS` on a route that is not behind the gate.
		 */
		readonly claims: Claims;
	}
	interface FastifyContextConfig {
		/** `false` leaves this route outside the gate: `{ config: { gate: false } }`. */
		gate?: boolean;
		/** The scopes that the token must have on this route; see `Caller.scopes`. */
		scopes?: readonly string[];
	}
}

export interface GuardOptions {
	readonly gate: Gate;
	/**
	 * Answers a refused request in place of the gate's plain text: by `reply.send`, by a payload that it returns or resolves with,
	 * or by an error such as a `RefusedError`, which goes to the application's error handler. The status and `www-authenticate` or
	 * `retry-after` are already set. The request never reaches the handlers behind the gate.
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
	const { gate } = options;
	const { onRefused } = checkGuard<GuardOptions>(gate, [options], KINDS);
	const ask = questionTo(gate);
	if (!app.hasRequestDecorator(ADMITTED)) {
		// Declared in advance, so that all requests have one shape.
		app.decorateRequest(ADMITTED, null);
		app.decorateRequest('claims', { getter: claimsOf });
	}
	app.addHook('onRoute', ({ config, url }) => checkRoute(config, url));
	app.addHook('onRequest', (request, reply, next) => {
		const config = configOf(request);
		try {
			checkRoute(config, config.url);
		} catch (error) {
			// The route was added before this plugin, so `onRoute` did not check it: 500.
			next(error as GateError);
			return;
		}
		// Own only: a polluted `Object.prototype` must not open all routes.
		if (Object.hasOwn(config, 'gate') && config.gate === false) return next();
		const { raw } = request;
		const caller = { certificate: () => certificateOf(raw), scopes: config.scopes ?? [] };
		const verdict = ask(raw, authorizationIn(raw.rawHeaders), caller);
		if (verdict.ok) {
			(request as Guarded)[ADMITTED] = verdict.claims;
			if (verdict.slot !== undefined) releaseAfterResponse(verdict.slot, raw, reply.raw);
			if (verdict.headers !== undefined) reply.headers(verdict.headers);
			return next();
		}
		if (onRefused) leaveTo(onRefused, verdict.refusal, request, reply, next);
		else respond(reply, verdict.refusal);
	});
};

type RouteConfig = FastifyContextConfig & { readonly url?: string };

/** The `config` of the request's route. Early releases of Fastify 4 keep it in `context`, which later ones lack. */
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
			// `reply` is a thenable that settles with the connection, which may be much later.
			return outcome === reply ? undefined : outcome;
		},
		// A hook that calls `next` without an error would let the request through.
		(error) => next(error instanceof Error ? error : new RefusedError(refusal)),
		(payload) => {
			if (isAsync) finish(reply, refusal, payload);
			else if (payload !== undefined && !reply.sent) reply.send(payload);
		},
	);
	isAsync = true;
}

/** The hook has finished. If it sent nothing, the gate answers; otherwise the request would hang. */
function finish(reply: FastifyReply, refusal: Refusal, payload: unknown): void {
	if (reply.sent) return;
	if (payload === undefined || payload === reply) respond(reply, refusal);
	else reply.send(payload);
}

function respond(reply: FastifyReply, { status, headers, body }: Refusal): void {
	reply.code(status).headers(headers).send(body);
}

function claimsOf(this: FastifyRequest): Claims {
	const claims = (this as Guarded)[ADMITTED];
	if (claims) return claims;
	throw new GateError('ERR_GATE_NO_CLAIMS', 'request.claims was read on a route that is not behind the gate');
}

// Fastify adds options of its own to those of a plugin.
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
 * Checks the guard's options in a route's `config`, once. Other plugins keep options there too, so only near misses of ours are refused.
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

// What the package fastify-plugin would add: the hook belongs to the instance that registers the plugin, not to a scope of the
// plugin, and an instance of an unsupported major version refuses it.
Object.assign(guard, {
	[Symbol.for('skip-override')]: true,
	[Symbol.for('fastify.display-name')]: 'mtls-edge-proxy',
	[Symbol.for('plugin-meta')]: { name: 'mtls-edge-proxy', fastify: '>=4' },
});

export default guard;
