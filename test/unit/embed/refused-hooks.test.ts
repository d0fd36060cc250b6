/** A refused request never reaches a handler, whatever `onRefused` does. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { before, describe, it } from 'node:test';
import { NestFactory } from '@nestjs/core';
import { ExpressAdapter } from '@nestjs/platform-express';
import express from 'express';
import Fastify from 'fastify';
import { Hono } from 'hono';
import { guard as fastifyGuard } from '../../../packages/gate/src/embed/fastify.ts';
import { guard as fetchGuard } from '../../../packages/gate/src/embed/fetch.ts';
import { createGate, type Gate } from '../../../packages/gate/src/embed/gate.ts';
import { guard as honoGuard } from '../../../packages/gate/src/embed/hono.ts';
import { guard } from '../../../packages/gate/src/embed/node.ts';
import { createTokenKey } from '../../../packages/proxy/src/cli/demo/tokens.ts';

let gate: Gate;
before(() => {
	gate = createGate({ jwtPublicKey: createTokenKey().publicKeyPem, issuer: null, audience: null, tenantRps: 0 });
});

type Hook = () => never;
/** Asks for `/secret` without a token. */
type Ask = (onRefused: Hook) => Promise<{ readonly status: number; readonly body: string }>;

async function overNetwork(listener: RequestListener): ReturnType<Ask> {
	const server = createServer(listener).listen(0, '127.0.0.1');
	await once(server, 'listening');
	try {
		const response = await fetch(`http://127.0.0.1:${(server.address() as AddressInfo).port}/secret`);
		return { status: response.status, body: await response.text() };
	} finally {
		server.close();
	}
}

const seen = async (response: Response) => ({ status: response.status, body: await response.text() });

/** As Connect and Express 4 do, whose `next` goes on with whatever is falsy, and skips to another route with `'route'`. */
function likeConnect(onRefused: Hook): RequestListener {
	const middleware = guard(gate, { onRefused });
	return (req, res) => {
		Object.assign(req, { originalUrl: req.url });
		const next = (error?: unknown) => {
			if (error && error !== 'route') res.writeHead(500).end('handled');
			else res.end('secret');
		};
		try {
			middleware(req, res, next);
		} catch (error) {
			next(error);
		}
	};
}

const FRAMEWORKS: Record<string, Ask> = {
	Express: (onRefused) => {
		const app = express();
		app.use(guard(gate, { onRefused }));
		app.get('/secret', (_req, res) => void res.send('secret'));
		return overNetwork(app);
	},
	'a route of Express': (onRefused) => {
		const app = express();
		app.get('/secret', guard(gate, { onRefused }), (_req, res) => void res.send('secret'));
		app.get('/secret', (_req, res) => void res.send('secret of another route'));
		return overNetwork(app);
	},
	'Connect and Express 4': (onRefused) => overNetwork(likeConnect(onRefused)),
	Nest: async (onRefused) => {
		const app = express();
		const nest = await NestFactory.create(class AppModule {}, new ExpressAdapter(app), { logger: false });
		nest.use(guard(gate, { onRefused }));
		nest.use((_req: unknown, res: express.Response) => res.send('secret'));
		await nest.init();
		return overNetwork(app);
	},
	'node:http': (onRefused) => {
		const guarded = guard(gate, { onRefused });
		return overNetwork((req, res) => guarded(req, res, () => res.end('secret')));
	},
	'node:http with a promise for next': (onRefused) => {
		const guarded = guard(gate, { onRefused });
		return overNetwork(async (req, res) => {
			await new Promise<void>((resolve) => guarded(req, res, resolve));
			res.end('secret');
		});
	},
	Fastify: async (onRefused) => {
		const app = Fastify();
		await app.register(fastifyGuard, { gate, onRefused });
		app.get('/secret', () => 'secret');
		const { statusCode, body } = await app.inject('/secret');
		return { status: statusCode, body };
	},
	Hono: async (onRefused) => {
		const app = new Hono();
		app.use(honoGuard(gate, { onRefused }));
		app.get('/secret', (c) => c.text('secret'));
		return seen(await app.request('/secret'));
	},
	fetch: async (onRefused) => {
		const handler = fetchGuard(gate, () => new Response('secret'), { onRefused });
		return seen(await handler(new Request('https://localhost/secret')));
	},
};

for (const [name, ask] of Object.entries(FRAMEWORKS)) {
	describe(`onRefused with ${name}`, () => {
		for (const thrown of [undefined, null, '', 0, 'route', 'router']) {
			for (const [how, hook] of [
				[
					'throws',
					() => {
						throw thrown;
					},
				],
				['rejects with', (async () => Promise.reject(thrown)) as unknown as Hook],
			] as const) {
				it(`onRefused that ${how} ${typeof thrown} ${String(thrown)} ends the request with 401`, async () => {
					const { status, body } = await ask(hook);
					assert.equal(status, 401);
					assert.doesNotMatch(body, /secret/);
					assert.match(body, /unauthorized/);
				});
			}
		}

		it("onRefused that throws an Error ends the request with the framework's error, or with 401", async () => {
			const boom = () => {
				throw new Error('boom');
			};
			const outcome = await ask(boom).catch(() => ({ status: 500, body: '' }));
			assert.ok([401, 500].includes(outcome.status), `${outcome.status}`);
			assert.doesNotMatch(outcome.body, /secret/);
		});

		it('onRefused that returns an invalid response does not admit the request', async () => {
			if (name === 'Fastify' || name === 'Hono' || name === 'fetch') {
				for (const value of [undefined, null, 0, '', true]) {
					const { status, body } = await Promise.race([
						ask((async () => value) as unknown as Hook),
						new Promise<never>((_, reject) => setTimeout(reject, 5000, new Error('no answer')).unref()),
					]);
					assert.ok(status >= 400, `${status}`);
					assert.doesNotMatch(body, /secret/);
				}
			}
		});
	});
}

describe('onRefused that has begun an answer', () => {
	it('a response that onRefused began before it rejects is broken off', async () => {
		const guarded = guard(gate, {
			onRefused: (async (_refusal: unknown, _req: unknown, res: { write(text: string): void }) => {
				res.write('half');
				throw new Error('boom');
			}) as never,
		});
		await assert.rejects(overNetwork((req, res) => guarded(req, res, () => res.end('secret'))));
	});

	it('leaves the headers that others have set, and takes its own of the body', async () => {
		const guarded = guard(gate, {
			onRefused: (_refusal, _req, res) => {
				res.setHeader('content-encoding', 'gzip');
				res.setHeader('content-length', '1000');
				throw undefined;
			},
		});
		const server = createServer((req, res) => {
			res.setHeader('access-control-allow-origin', '*');
			guarded(req, res, () => res.end('secret'));
		}).listen(0, '127.0.0.1');
		await once(server, 'listening');
		const response = await fetch(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`);
		assert.equal(await response.text(), 'unauthorized');
		assert.equal(response.headers.get('content-encoding'), null);
		assert.equal(response.headers.get('access-control-allow-origin'), '*');
		assert.equal(response.headers.get('www-authenticate'), 'Bearer');
		server.close();
	});
});
