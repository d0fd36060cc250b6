import type { FastifyPluginAsync, FastifyRequest } from 'fastify';
import { authorizationIn } from './authorization.ts';
import { GateError } from './error.ts';
import type { Claims, Gate } from './gate.ts';

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
	}
}

export interface GuardOptions {
	readonly gate: Gate;
}

const ADMITTED = Symbol('mtls-edge-proxy.claims');

type Guarded = FastifyRequest & { [ADMITTED]: Claims | null };

/**
 * Plugin for Fastify 5: guards every route of the instance it is registered on and of the instances below (its hook
 * runs before the body is read), except routes with `config: { gate: false }`. A refused request is answered with 401
 * `unauthorized` or 429 `rate limited` (specification 4.4), an admitted one has `request.claims`.
 */
export const guard: FastifyPluginAsync<GuardOptions> = async (app, { gate }) => {
	if (!app.hasRequestDecorator(ADMITTED)) {
		// Both in advance, so that all requests have one shape.
		app.decorateRequest(ADMITTED, null);
		app.decorateRequest('claims', { getter: claimsOf });
	}
	app.addHook('onRequest', (request, reply, next) => {
		if (request.routeOptions.config.gate === false) return next();
		const verdict = gate.check(authorizationIn(request.raw.rawHeaders));
		if (verdict.ok) {
			(request as Guarded)[ADMITTED] = verdict.claims;
			return next();
		}
		const { status, headers, body } = verdict.refusal;
		reply.code(status).headers(headers).send(body);
	});
};

function claimsOf(this: FastifyRequest): Claims {
	const claims = (this as Guarded)[ADMITTED];
	if (claims) return claims;
	throw new GateError('ERR_GATE_NO_CLAIMS', 'request.claims was read on a route that is not behind the gate');
}

// What the package fastify-plugin would add: the hook belongs to the instance that registers the plugin, not to a
// scope of the plugin's own, and an instance of another major version refuses it.
Object.assign(guard, {
	[Symbol.for('skip-override')]: true,
	[Symbol.for('fastify.display-name')]: 'mtls-edge-proxy',
	[Symbol.for('plugin-meta')]: { name: 'mtls-edge-proxy', fastify: '5.x' },
});

export default guard;
