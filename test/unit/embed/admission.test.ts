/** Several guards of one gate in the way of a request: it is counted once, and asked for all their scopes. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { beforeEach, describe, it } from 'node:test';
import express from 'express';
import Fastify from 'fastify';
import { Hono } from 'hono';
import { guard as fastifyGuard } from '../../../packages/gate/src/embed/fastify.ts';
import { guard as fetchGuard } from '../../../packages/gate/src/embed/fetch.ts';
import { createGate, type Gate } from '../../../packages/gate/src/embed/gate.ts';
import { guard as honoGuard } from '../../../packages/gate/src/embed/hono.ts';
import { guard } from '../../../packages/gate/src/embed/node.ts';
import { createTokenKey, mintToken } from '../../../packages/proxy/src/cli/demo/tokens.ts';

const key = createTokenKey();
const exp = Date.now() / 1000 + 600;
const headers = { authorization: `Bearer ${mintToken(key, { sub: 'tenant', exp, scope: 'read' })}` };
const BURST = 4;

let gate: Gate;
beforeEach(() => {
	const clock = { now: () => 0, wallSeconds: () => Date.now() / 1000 };
	gate = createGate({ jwtPublicKey: key.publicKeyPem, issuer: null, audience: null, tenantRps: BURST, clock });
});

type Ask = (path: string) => Promise<number>;

const SERVERS: Record<string, (use: (ask: Ask) => Promise<void>) => Promise<void>> = {
	Express: async (use) => {
		const app = express();
		app.use(guard(gate));
		app.get('/read', guard(gate, { scopes: ['read'] }), (req, res) => void res.send(req.claims?.sub));
		app.get('/admin', guard(gate, { scopes: ['read', 'admin'] }), (_req, res) => void res.send('secret'));
		const server = app.listen(0, '127.0.0.1');
		await once(server, 'listening');
		const { port } = server.address() as AddressInfo;
		await use(async (path) => (await fetch(`http://127.0.0.1:${port}${path}`, { headers })).status);
		server.close();
	},
	Fastify: async (use) => {
		const app = Fastify();
		await app.register(fastifyGuard, { gate });
		app.register(async (inner) => {
			await inner.register(fastifyGuard, { gate });
			inner.get('/read', { config: { scopes: ['read'] } }, (request) => request.claims.sub);
			inner.get('/admin', { config: { scopes: ['admin'] } }, () => 'secret');
		});
		await use(async (path) => (await app.inject({ url: path, headers })).statusCode);
	},
	Hono: async (use) => {
		const app = new Hono();
		app.use(honoGuard(gate));
		app.get('/read', honoGuard(gate, { scopes: ['read'] }), (c) => c.text(c.get('claims').sub));
		app.get('/admin', honoGuard(gate, { scopes: ['admin'] }), (c) => c.text('secret'));
		await use(async (path) => (await app.request(path, { headers })).status);
	},
	fetch: async (use) => {
		const inner = (scopes: string[]) => fetchGuard(gate, (_request, { sub }) => new Response(sub), { scopes });
		const outer = fetchGuard(gate, (request) =>
			inner(new URL(request.url).pathname === '/read' ? ['read'] : ['admin'])(request),
		);
		await use(async (path) => (await outer(new Request(`https://localhost${path}`, { headers }))).status);
	},
};

for (const [name, serve] of Object.entries(SERVERS)) {
	describe(`two guards of one gate: ${name}`, () => {
		it('count a request once', () =>
			serve(async (ask) => {
				const statuses: number[] = [];
				for (let i = 0; i <= BURST; i++) statuses.push(await ask('/read'));
				assert.deepEqual(statuses, [200, 200, 200, 200, 429]);
			}));

		it('ask for the scopes of both', () =>
			serve(async (ask) => {
				assert.deepEqual([await ask('/admin'), await ask('/read')], [403, 200]);
			}));
	});
}

describe('a request that a program makes in the course of another one', () => {
	it('is judged by its own token: Hono, with the bindings of the outer request', async () => {
		const other = { authorization: `Bearer ${mintToken(key, { sub: 'other', exp })}` };
		const app = new Hono();
		app.use(honoGuard(gate));
		app.get('/whoami', honoGuard(gate), (c) => c.text(c.get('claims').sub));
		app.get('/batch', async (c) => {
			const answers: (number | string)[] = [];
			for (const own of [headers, other, { authorization: 'Bearer forged' }, {}]) {
				const answer = await app.request('/whoami', { headers: own as Record<string, string> }, c.env);
				answers.push(answer.ok ? await answer.text() : answer.status);
			}
			return c.json(answers);
		});
		const outer = await app.request('/batch', { headers }, { incoming: {} });
		assert.deepEqual(await outer.json(), ['tenant', 'other', 401, 401]);
	});
});

describe('two gates', () => {
	it('each count a request that passes both', async () => {
		const other = createGate({ jwtPublicKey: key.publicKeyPem, issuer: null, audience: null, tenantRps: 1 });
		const app = new Hono();
		app.use(honoGuard(gate), honoGuard(other));
		app.get('/', (c) => c.text('ok'));
		assert.equal((await app.request('/', { headers })).status, 200);
		assert.equal((await app.request('/', { headers })).status, 429);
	});
});
