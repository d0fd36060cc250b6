/** What an adapter does beyond the conformance suite: its framework's own conventions. */
import assert from 'node:assert/strict';
import { IncomingMessage } from 'node:http';
import { Socket } from 'node:net';
import { before, describe, it } from 'node:test';
import Fastify, { type FastifyInstance } from 'fastify';
import { Hono } from 'hono';
import { createTokenKey, mintToken } from '../../../src/cli/demo/tokens.ts';
import fastifyGuardDefault, { guard as fastifyGuard } from '../../../src/embed/fastify.ts';
import { guard as fetchGuard } from '../../../src/embed/fetch.ts';
import { createGate, type Gate } from '../../../src/embed/gate.ts';
import { guard as honoGuard } from '../../../src/embed/hono.ts';
import { claimsOf } from '../../../src/embed/node.ts';

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

	it('leaves a route with config.gate false outside, where request.claims throws instead of being nobody', async () => {
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
	it('passes on what the server gives beside the request', async () => {
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
	it('throws for a request that has passed no gate', () => {
		assert.throws(() => claimsOf(new IncomingMessage(new Socket())), NO_CLAIMS);
	});
});
