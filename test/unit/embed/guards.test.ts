/** What the guards of all adapters have in common: no failing hook admits a request, and two guards of a gate count it once. */
import assert from 'node:assert/strict';
import type { RequestListener } from 'node:http';
import { describe, it } from 'node:test';
import express from 'express';
import { Hono } from 'hono';
import { RefusedError } from '../../../packages/gate/src/embed/gate.ts';
import { guard as honoGuard } from '../../../packages/gate/src/embed/hono.ts';
import { guard } from '../../../packages/gate/src/embed/node.ts';
import { AWAY, FRAMEWORKS, type Hook, overNetwork, PASSED, type Serve } from './frameworks.ts';
import { bearer, newGate as unlimitedGate } from './new-gate.ts';

const BURST = 4;
const tenants = [{ name: 'two at once', rps: 5, concurrency: 2 }];
const clock = { now: () => 0, wallSeconds: () => Date.now() / 1000 };
const newGate = () => unlimitedGate({ tenantRps: BURST, tenants, rateLimitHeaders: true, clock });

const headersOf = (sub: string) => ({ authorization: bearer({ sub, scope: 'read' }) });
const headers = headersOf('tenant');

const thrower = (thrown: unknown) => () => {
	throw thrown;
};

/** As Connect and Express 4 do, whose `next` goes on with whatever is falsy, and skips to another route with `'route'`. */
function likeConnect(middleware: ReturnType<typeof guard>): RequestListener {
	return (req, res) => {
		Object.assign(req, { originalUrl: req.url });
		const next = (error?: unknown) => {
			if (error && error !== 'route') res.writeHead(500).end('handled');
			else res.end(PASSED);
		};
		try {
			middleware(req, res, next);
		} catch (error) {
			next(error);
		}
	};
}

const WITH_HOOKS: Readonly<Record<string, Serve>> = {
	...FRAMEWORKS,
	async 'a route of Express'({ gate, onRefused }) {
		const app = express().set('env', 'test');
		app.get('/', guard(gate, { onRefused } as never), (_req, res) => void res.send(PASSED));
		app.get('/', (_req, res) => void res.send(PASSED));
		return overNetwork(app);
	},
	'Connect and Express 4': async ({ gate, onRefused }) => overNetwork(likeConnect(guard(gate, { onRefused } as never))),
	async 'node:http with a promise for next'({ gate, onRefused }) {
		const guarded = guard(gate, { onRefused } as never);
		return overNetwork(async (req, res) => {
			await new Promise<void>((resolve) => guarded(req, res, resolve));
			res.end(PASSED);
		});
	},
};

for (const [name, serve] of Object.entries(WITH_HOOKS)) {
	describe(`onRefused with ${name}`, () => {
		const outcome = async (onRefused: Hook, handlesErrors = false) =>
			(await serve({ gate: newGate(), onRefused, handlesErrors }))('/');

		for (const thrown of [undefined, null, '', 0, 'route', 'router']) {
			it(`that throws or rejects with ${typeof thrown} ${String(thrown)} ends the request with 401`, async () => {
				for (const hook of [thrower(thrown), async () => Promise.reject(thrown)]) {
					const { status, body } = await outcome(hook);
					assert.equal(status, 401);
					assert.match(body, /unauthorized/);
				}
			});
		}

		it("that throws an Error ends the request with the framework's error, or with 401", async () => {
			for (const hook of [thrower(new Error('boom')), async () => Promise.reject(new Error('boom'))]) {
				const { status, body } = await outcome(hook).catch(() => ({ status: 500, body: '' }));
				assert.ok([401, 500].includes(status), `${status}`);
				assert.ok(!body.includes(PASSED));
			}
		});
	});
}

for (const name of ['Express', 'Fastify', 'Hono'] as const) {
	it(`onRefused that throws a RefusedError leaves the answer to the error handler of ${name}, or gets its default`, async () => {
		const onRefused: Hook = (refusal) => thrower(new RefusedError(refusal))();
		const later: Hook = async (refusal) => onRefused(refusal);
		const hooks = name === 'Fastify' ? [onRefused, later] : [onRefused];
		for (const hook of hooks) {
			for (const handlesErrors of [true, false]) {
				const { status, headers, body } = await (
					await FRAMEWORKS[name]({ gate: newGate(), onRefused: hook, handlesErrors })
				)('/');
				assert.deepEqual([status, headers.get('www-authenticate')], [401, 'Bearer']);
				assert.equal(headers.get('content-type')?.startsWith('text/x-handled'), handlesErrors);
				assert.doesNotMatch(body, /token-|reason/);
			}
		}
	});
}

for (const name of ['Fastify', 'Hono', 'fetch'] as const) {
	it(`onRefused that resolves with no response does not admit the request: ${name}`, async () => {
		for (const value of [undefined, null, 0, '', true]) {
			const { status, body } = await (await FRAMEWORKS[name]({ gate: newGate(), onRefused: async () => value }))('/');
			assert.ok(status >= 400 && !body.includes(PASSED), `${status}`);
			if (value === undefined) assert.deepEqual([status, body], [401, 'unauthorized']);
		}
	});
}

describe('onRefused of node:http', () => {
	it('a response that it began before it rejects is broken off', async () => {
		const onRefused: Hook = async (_refusal, _req, res) => {
			res.write('half');
			throw new Error('boom');
		};
		await assert.rejects((await FRAMEWORKS['node:http']({ gate: newGate(), onRefused }))('/'));
	});

	it('leaves the headers that others have set, and its failure takes those of its body', async () => {
		const guarded = guard(newGate(), {
			onRefused(_refusal, _req, res) {
				res.setHeader('content-encoding', 'gzip');
				res.setHeader('content-length', '1000');
				throw undefined;
			},
		});
		const ask = overNetwork((req, res) => {
			res.setHeader('access-control-allow-origin', '*');
			guarded(req, res, () => res.end(PASSED));
		});
		const answer = await ask('/');
		assert.equal(answer.body, 'unauthorized');
		const names = ['content-encoding', 'access-control-allow-origin', 'www-authenticate'];
		assert.deepEqual(
			names.map((one) => answer.headers.get(one)),
			[null, '*', 'Bearer'],
		);
	});
});

for (const [name, serve] of Object.entries(FRAMEWORKS)) {
	describe(`guards of ${name}`, () => {
		const scopes = { '/read': ['read'], '/admin': ['read', 'admin'] };

		it('two guards of one gate count a request once', async () => {
			const ask = await serve({ gate: newGate(), scopes });
			const statuses: number[] = [];
			for (let i = 0; i <= BURST; i++) statuses.push((await ask('/read', headers)).status);
			assert.deepEqual(statuses, [200, 200, 200, 200, 429]);
		});

		it('two guards of one gate ask for the scopes of both', async () => {
			const ask = await serve({ gate: newGate(), scopes });
			assert.deepEqual([(await ask('/admin', headers)).status, (await ask('/read', headers)).status], [403, 200]);
		});

		it('put the RateLimit fields on a response, also if its headers cannot be changed', async () => {
			const { status, headers } = await (await serve({ gate: newGate() }))('/away', headersOf('two at once'));
			assert.deepEqual([status, headers.get('location')], [302, AWAY]);
			assert.equal(headers.get('ratelimit-policy'), '"tenant";q=5;w=1, "concurrency";q=2;qu="concurrent-requests"');
			assert.equal(headers.get('ratelimit'), '"tenant";r=4;t=1, "concurrency";r=1');
		});
	});
}

it('a request within another one is judged by its own token: Hono, with the bindings of the outer request', async () => {
	const gate = newGate();
	const app = new Hono();
	app.use(honoGuard(gate));
	app.get('/whoami', honoGuard(gate), (c) => c.text(c.get('claims').sub));
	app.get('/batch', async (c) => {
		const answers: (number | string)[] = [];
		for (const own of [headers, headersOf('other'), { authorization: 'Bearer forged' }, {}]) {
			const answer = await app.request('/whoami', { headers: own as Record<string, string> }, c.env);
			answers.push(answer.ok ? await answer.text() : answer.status);
		}
		return c.json(answers);
	});
	const outer = await app.request('/batch', { headers }, { incoming: {} });
	assert.deepEqual(await outer.json(), ['tenant', 'other', 401, 401]);
});

it('two gates each count a request that passes both', async () => {
	const app = new Hono();
	app.use(honoGuard(newGate()), honoGuard(unlimitedGate({ tenantRps: 1, clock })));
	app.get('/', (c) => c.text('ok'));
	assert.equal((await app.request('/', { headers })).status, 200);
	assert.equal((await app.request('/', { headers })).status, 429);
});
