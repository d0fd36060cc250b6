/** What an adapter does beyond the conformance suite: its framework's own conventions. */
import assert from 'node:assert/strict';
import { IncomingMessage } from 'node:http';
import { Socket } from 'node:net';
import { describe, it } from 'node:test';
import Fastify, { type FastifyInstance } from 'fastify';
import { Hono } from 'hono';
import fastifyGuardDefault, { guard as fastifyGuard } from '../../../packages/gate/src/embed/fastify.ts';
import { guard as fetchGuard } from '../../../packages/gate/src/embed/fetch.ts';
import type { GateError, Refusal } from '../../../packages/gate/src/embed/gate.ts';
import { claimsOf as honoClaimsOf, guard as honoGuard } from '../../../packages/gate/src/embed/hono.ts';
import { claimsOf } from '../../../packages/gate/src/embed/node.ts';
import { FRAMEWORKS, type Hook } from './frameworks.ts';
import { bearer, newGate } from './new-gate.ts';

const gate = newGate();
const authorization = bearer();

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

describe('onRefused answers with problem+json (RFC 9457)', () => {
	const PROBLEM = 'application/problem+json';
	const problem = ({ status, body }: Refusal) => JSON.stringify({ title: body, status });
	const cases: readonly (readonly [framework: keyof typeof FRAMEWORKS, how: string, hook: Hook])[] = [
		['Express', 'by res.end', (refusal, _req, res) => res.setHeader('content-type', PROBLEM).end(problem(refusal))],
		['Fastify', 'by reply.send', (refusal, _request, reply) => reply.type(PROBLEM).send(problem(refusal))],
		[
			'Fastify',
			'by its payload',
			(refusal, _request, reply) => {
				reply.type(PROBLEM);
				return problem(refusal);
			},
		],
		[
			'Fastify',
			'later',
			async (refusal, _request, reply) => {
				await new Promise(setImmediate);
				reply.type(PROBLEM);
				return problem(refusal);
			},
		],
		['Hono', 'by c.body', (refusal, c) => c.body(problem(refusal), { headers: { 'content-type': PROBLEM } })],
		[
			'fetch',
			'by a Response',
			(refusal) =>
				new Response(problem(refusal), {
					status: refusal.status,
					headers: { 'www-authenticate': 'Bearer', 'content-type': PROBLEM },
				}),
		],
	];
	for (const [framework, how, onRefused] of cases) {
		it(`onRefused of ${framework} answers ${how}`, async () => {
			const { status, headers, body } = await (await FRAMEWORKS[framework]({ gate, onRefused }))('/');
			assert.deepEqual([status, body], [401, '{"title":"unauthorized","status":401}']);
			assert.deepEqual(
				[headers.get('content-type')?.split(';')[0], headers.get('www-authenticate')],
				[PROBLEM, 'Bearer'],
			);
		});
	}
});
