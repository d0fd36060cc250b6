/** What an adapter does beyond the conformance suite: its framework's own conventions. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { IncomingMessage, type ServerResponse } from 'node:http';
import { type AddressInfo, Socket } from 'node:net';
import { before, describe, it } from 'node:test';
import cors from 'cors';
import express from 'express';
import Fastify, { type FastifyInstance } from 'fastify';
import { Hono } from 'hono';
import { cors as honoCors } from 'hono/cors';
import fastifyGuardDefault, {
	type GuardOptions as FastifyOptions,
	guard as fastifyGuard,
} from '../../../packages/gate/src/embed/fastify.ts';
import { type GuardOptions as FetchOptions, guard as fetchGuard } from '../../../packages/gate/src/embed/fetch.ts';
import {
	createGate,
	type Gate,
	type GateError,
	type Refusal,
	RefusedError,
} from '../../../packages/gate/src/embed/gate.ts';
import {
	type GuardOptions as HonoOptions,
	claimsOf as honoClaimsOf,
	guard as honoGuard,
} from '../../../packages/gate/src/embed/hono.ts';
import {
	claimsOf,
	type GuardOptions as NodeOptions,
	guard as nodeGuard,
} from '../../../packages/gate/src/embed/node.ts';
import { createTokenKey, mintToken } from '../../../packages/proxy/src/cli/demo/tokens.ts';

let gate: Gate;
let authorization: string;

before(() => {
	const key = createTokenKey();
	gate = createGate({ jwtPublicKey: key.publicKeyPem, issuer: null, audience: null, tenantRps: 0 });
	authorization = `Bearer ${mintToken(key, { sub: 'tenant', exp: Date.now() / 1000 + 60 })}`;
});

const NO_CLAIMS = { code: 'ERR_GATE_NO_CLAIMS' };

describe('the Fastify plugin', () => {
	const status = async (app: FastifyInstance, url: string, headers = {}) =>
		(await app.inject({ url, headers })).statusCode;

	it('guards the instance that registers it, and those below, but not its siblings', async () => {
		const app = Fastify();
		app.get('/outside', () => 'ok');
		app.register(async (api) => {
			await api.register(fastifyGuard, { gate });
			api.get('/inside', (request) => request.claims.sub);
			api.register(async (deeper) => deeper.get('/deeper', (request) => request.claims.sub));
		});
		assert.equal(await status(app, '/outside'), 200);
		for (const url of ['/inside', '/deeper']) {
			assert.equal(await status(app, url), 401);
			assert.equal((await app.inject({ url, headers: { authorization } })).body, 'tenant');
		}
	});

	it('does not guard a route with config.gate = false, on which request.claims throws', async () => {
		const app = Fastify();
		await app.register(fastifyGuard, { gate });
		app.get('/health', { config: { gate: false } }, () => 'ok');
		app.get('/careless', { config: { gate: false } }, (request) => request.claims.sub);
		assert.equal(await status(app, '/health'), 200);
		const answer = await app.inject({ url: '/careless', headers: { authorization } });
		assert.equal(answer.statusCode, 500);
		assert.equal(answer.json().code, 'ERR_GATE_NO_CLAIMS');
	});

	it('refuses before the body is read, and routes that do not exist', async () => {
		const app = Fastify();
		await app.register(fastifyGuard, { gate });
		app.post('/', () => 'ok');
		const headers = { 'content-type': 'application/json' };
		assert.equal((await app.inject({ method: 'POST', url: '/', headers, payload: 'no json' })).statusCode, 401);
		assert.equal(await status(app, '/nowhere'), 401);
		assert.equal(await status(app, '/nowhere', { authorization }), 404);
	});

	it('lets hooks of the application see a refused request end', async () => {
		const app = Fastify();
		const seen: number[] = [];
		app.addHook('onResponse', async (_request, reply) => void seen.push(reply.statusCode));
		await app.register(fastifyGuard, { gate });
		app.get('/', () => 'ok');
		await status(app, '/');
		assert.deepEqual(seen, [401]);
	});

	it('stacks: an inner scope may have a gate of its own', async () => {
		const app = Fastify();
		await app.register(fastifyGuard, { gate });
		app.register(async (inner) => {
			await inner.register(fastifyGuard, { gate });
			inner.get('/', (request) => request.claims.sub);
		});
		assert.equal(await status(app, '/', { authorization }), 200);
		assert.equal(await status(app, '/'), 401);
	});

	it('does not take the place of a claims decorator that is not its own', async () => {
		const app = Fastify();
		app.decorateRequest('claims', { getter: () => ({ sub: 'somebody', scope: '', exp: 0 }) });
		app.register(fastifyGuard, { gate });
		await assert.rejects(async () => await app.ready(), { code: 'FST_ERR_DEC_ALREADY_PRESENT' });
	});

	it('names itself, and the major version that it is for', async () => {
		assert.equal(fastifyGuardDefault, fastifyGuard);
		const app = Fastify();
		await app.register(fastifyGuard, { gate });
		assert.ok(app.hasPlugin('mtls-edge-proxy'));
		assert.match(app.printPlugins(), /mtls-edge-proxy/);
	});
});

describe('the Hono middleware', () => {
	it('guards the paths that it is used on', async () => {
		const app = new Hono();
		app.get('/health', (c) => c.text('ok'));
		app.use('/api/*', honoGuard(gate));
		app.get('/api/whoami', honoGuard(gate), (c) => c.text(c.get('claims').sub));
		assert.equal((await app.request('/health')).status, 200);
		assert.equal((await app.request('/api/whoami')).status, 401);
		assert.equal(await (await app.request('/api/whoami', { headers: { authorization } })).text(), 'tenant');
	});

	it('lets middleware around it see and extend the refusal', async () => {
		const app = new Hono();
		app.use(async (c, next) => {
			await next();
			c.header('x-seen', String(c.res.status));
		});
		app.use(honoGuard(gate));
		assert.equal((await app.request('/')).headers.get('x-seen'), '401');
	});
});

describe('the fetch adapter', () => {
	it("passes on the server's further arguments", async () => {
		const handler = fetchGuard(
			gate,
			(_request, claims, env: { region: string }) => new Response(claims.sub + env.region),
		);
		const request = new Request('https://localhost/', { headers: { authorization } });
		assert.equal(await (await handler(request, { region: '-eu' })).text(), 'tenant-eu');
	});

	it('refuses two Authorization headers', async () => {
		const headers = new Headers([
			['authorization', authorization],
			['authorization', authorization],
		]);
		const response = await fetchGuard(gate, () => new Response())(new Request('https://localhost/', { headers }));
		assert.equal(response.status, 401);
	});
});

describe('claimsOf', () => {
	it('throws for a request that did not pass a gate', async () => {
		assert.throws(() => claimsOf(new IncomingMessage(new Socket())), NO_CLAIMS);
		const app = new Hono();
		let thrown: unknown;
		app.onError((error, c) => {
			thrown = error;
			return c.text('failed', 500);
		});
		app.get('/careless', (c) => c.text(honoClaimsOf(c).sub));
		app.get('/guarded', honoGuard(gate), (c) => c.text(honoClaimsOf(c).sub));
		assert.equal((await app.request('/careless', { headers: { authorization } })).status, 500);
		assert.equal((thrown as GateError).code, NO_CLAIMS.code);
		assert.equal(await (await app.request('/guarded', { headers: { authorization } })).text(), 'tenant');
	});
});

/** What came of a refused request with a hook of each adapter. `handled` is for the framework's own error handler. */
interface Hooked {
	readonly status: number;
	readonly type: string | null;
	readonly challenge: string | null;
	readonly body: string;
}

const problem = ({ status, body }: Refusal) => ({ title: body, status });
const PROBLEM = 'application/problem+json';
const boom = () => {
	throw new Error('boom');
};

describe('onRefused', () => {
	const seen = async (response: Response): Promise<Hooked> => {
		const { status, headers } = response;
		const type = headers.get('content-type')?.split(';')[0] ?? null;
		return { status, type, challenge: headers.get('www-authenticate'), body: await response.text() };
	};
	const expressAsk = async (onRefused: NodeOptions['onRefused'] & {}) => {
		const app = express();
		app.use(nodeGuard(gate, { onRefused }));
		app.use(() => assert.fail('passed'));
		app.use(((error, _req, res, _next) => {
			res
				.status(error.status ?? 500)
				.set(error.headers)
				.type('text/x-handled')
				.send(error.message);
		}) as express.ErrorRequestHandler);
		const server = app.listen(0, '127.0.0.1');
		await once(server, 'listening');
		const response = await seen(await fetch(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`));
		server.close();
		return response;
	};
	const fastifyAsk = async (onRefused: FastifyOptions['onRefused'] & {}) => {
		const app = Fastify();
		await app.register(fastifyGuard, { gate, onRefused });
		app.setErrorHandler((error: RefusedError, _request, reply) =>
			reply
				.code(error.status ?? 500)
				.headers(error.headers ?? {})
				.type('text/x-handled')
				.send(error.message),
		);
		app.get('/', () => assert.fail('passed'));
		const { statusCode, headers, body } = await app.inject('/');
		return seen(new Response(body, { status: statusCode, headers: headers as Record<string, string> }));
	};
	const honoAsk = async (onRefused: HonoOptions['onRefused'] & {}) => {
		const app = new Hono();
		app.use(honoGuard(gate, { onRefused }));
		app.get('/', () => assert.fail('passed'));
		app.onError((error, c) => {
			const { status = 500, headers, message } = error as Partial<RefusedError>;
			return c.body(message ?? '', status, { ...headers, 'content-type': 'text/x-handled' });
		});
		return seen(await app.request('/'));
	};
	const fetchAsk = async (onRefused: FetchOptions['onRefused'] & {}) =>
		seen(await fetchGuard(gate, () => assert.fail('passed'), { onRefused })(new Request('https://localhost/')));

	const asProblem = { status: 401, type: PROBLEM, body: '{"title":"unauthorized","status":401}' };
	const answers: Record<string, () => Promise<Hooked>> = {
		'node and Express': () =>
			expressAsk((refusal, _req, res) => {
				res.setHeader('content-type', PROBLEM);
				(res as ServerResponse).end(JSON.stringify(problem(refusal)));
			}),
		'Fastify, by reply.send': () =>
			fastifyAsk((refusal, _request, reply) => reply.type(PROBLEM).send(JSON.stringify(problem(refusal)))),
		'Fastify, by its payload': () =>
			fastifyAsk((refusal, _request, reply) => {
				reply.type(PROBLEM);
				return JSON.stringify(problem(refusal));
			}),
		'Fastify, later': () =>
			fastifyAsk(async (refusal, _request, reply) => {
				await new Promise(setImmediate);
				reply.type(PROBLEM);
				return JSON.stringify(problem(refusal));
			}),
		Hono: () =>
			honoAsk((refusal, c) => c.body(JSON.stringify(problem(refusal)), { headers: { 'content-type': PROBLEM } })),
		fetch: () =>
			fetchAsk((refusal) => {
				const { 'content-length': _, ...rest } = refusal.headers;
				return Response.json(problem(refusal), {
					status: refusal.status,
					headers: { ...rest, 'content-type': PROBLEM },
				});
			}),
	};
	for (const [name, ask] of Object.entries(answers)) {
		it(`answers with problem+json (RFC 9457): ${name}`, async () => {
			assert.deepEqual(await ask(), { ...asProblem, challenge: 'Bearer' });
		});
	}

	const refuse = (refusal: Refusal) => {
		throw new RefusedError(refusal);
	};
	const handlers: Record<string, () => Promise<Hooked>> = {
		'node and Express': () => expressAsk(refuse),
		Fastify: () => fastifyAsk(refuse),
		'Fastify, later': () => fastifyAsk(async (refusal) => refuse(refusal)),
		Hono: () => honoAsk(refuse),
	};
	for (const [name, ask] of Object.entries(handlers)) {
		it(`leaves the answer to the framework's own error handler: ${name}`, async () => {
			assert.deepEqual(await ask(), { status: 401, type: 'text/x-handled', challenge: 'Bearer', body: 'unauthorized' });
		});
	}

	it('onRefused that throws a RefusedError is 401, even without an error handler of the application', async () => {
		const app = new Hono();
		app.use(honoGuard(gate, { onRefused: refuse }));
		assert.deepEqual(await seen(await app.request('/')), {
			status: 401,
			type: 'text/plain',
			challenge: 'Bearer',
			body: 'unauthorized',
		});
		const fastify = Fastify();
		await fastify.register(fastifyGuard, { gate, onRefused: refuse });
		const answer = await fastify.inject('/');
		assert.equal(answer.statusCode, 401);
		assert.equal(answer.headers['www-authenticate'], 'Bearer');
		assert.equal(/token-|reason/.test(answer.body), false);
	});

	it('never lets a request through or leaves it without an answer, whatever it does', async () => {
		assert.equal((await expressAsk(boom)).status, 500);
		assert.equal((await expressAsk(async () => boom())).status, 401);
		assert.equal((await fastifyAsk(boom)).status >= 400, true);
		assert.equal((await fastifyAsk(async () => boom())).status >= 400, true);
		for (const thrown of [undefined, null, 'text']) {
			const outcome = await fastifyAsk(() => {
				throw thrown;
			});
			assert.equal(outcome.status, 401);
		}
		assert.deepEqual(await fastifyAsk(async () => {}), {
			status: 401,
			type: 'text/plain',
			challenge: 'Bearer',
			body: 'unauthorized',
		});
		assert.equal((await honoAsk((() => undefined) as never)).status, 401);
		assert.equal((await honoAsk(boom)).status, 500);
	});

	it('is given the reason, for logs', async () => {
		const noTime = createGate({
			jwtPublicKey: createTokenKey().publicKeyPem,
			issuer: null,
			audience: null,
			tenantRps: 0,
			clock: { now: () => 0, wallSeconds: () => Number.NaN },
		});
		const reasons: unknown[] = [];
		const onRefused = ({ reason, status }: Refusal) => {
			reasons.push(reason);
			return new Response(null, { status });
		};
		await fetchGuard(noTime, () => new Response(), { onRefused })(
			new Request('https://localhost/', { headers: { authorization } }),
		);
		assert.match(String(reasons[0]), /clock/);
	});
});

describe('CORS in front of the gate', () => {
	const origin = 'https://app.test';
	const preflight = {
		method: 'OPTIONS',
		headers: { origin, 'access-control-request-method': 'GET', 'access-control-request-headers': 'authorization' },
	} as const;
	/** A preflight has no token; a refusal that lacks the header is one that the page cannot read. */
	const assertWorks = async (ask: (init: RequestInit) => Response | Promise<Response>) => {
		const asked = await ask(preflight);
		assert.equal(asked.status, 204);
		assert.equal(asked.headers.get('access-control-allow-origin'), origin);
		assert.match(asked.headers.get('access-control-allow-headers') ?? '', /authorization/i);
		const refused = await ask({ headers: { origin } });
		assert.equal(refused.status, 401);
		assert.equal(refused.headers.get('access-control-allow-origin'), origin);
		const admitted = await ask({ headers: { origin, authorization } });
		assert.equal(await admitted.text(), 'tenant');
		assert.equal(admitted.headers.get('access-control-allow-origin'), origin);
	};

	it('CORS by the package cors, on Express', async () => {
		const app = express();
		app.use(cors({ origin }));
		app.use(nodeGuard(gate));
		app.get('/', (req, res) => void res.send(claimsOf(req).sub));
		const server = app.listen(0, '127.0.0.1');
		await once(server, 'listening');
		await assertWorks((init) => fetch(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`, init));
		server.close();
	});

	it("with Hono's own", async () => {
		const app = new Hono();
		app.use(honoCors({ origin }));
		app.get('/', honoGuard(gate), (c) => c.text(c.get('claims').sub));
		await assertWorks((init) => app.request('/', init));
	});
});
