/** The gate's adapters, each in an application of its framework, for suites over all of them. */
import { once } from 'node:events';
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import express from 'express';
import Fastify from 'fastify';
import { Hono } from 'hono';
import { guard as fastifyGuard } from '../../../packages/gate/src/embed/fastify.ts';
import { guard as fetchGuard } from '../../../packages/gate/src/embed/fetch.ts';
import type { Gate, Refusal, RefusedError } from '../../../packages/gate/src/embed/gate.ts';
import { guard as honoGuard } from '../../../packages/gate/src/embed/hono.ts';
import { guard as nodeGuard } from '../../../packages/gate/src/embed/node.ts';

export interface App {
	readonly gate: Gate;
	/** Of the guard in front of the whole application. */
	readonly onRefused?: Hook;
	/** Paths with a second guard of the same gate, each with the scopes that it requires. */
	readonly scopes?: Readonly<Record<string, readonly string[]>>;
	/** Whether the application answers errors itself, with the type `text/x-handled`. */
	readonly handlesErrors?: boolean;
}

/** Its further arguments are those of the framework. */
// biome-ignore lint/suspicious/noExplicitAny: they differ
export type Hook = (refusal: Refusal, ...rest: any[]) => unknown;

export interface Seen {
	readonly status: number;
	readonly headers: Headers;
	readonly body: string;
}

export type Ask = (path: string, headers?: Record<string, string>) => Promise<Seen>;

/** Behind the guards, `/away` redirects to `AWAY`, and every other path answers `PASSED`. */
export type Serve = (app: App) => Promise<Ask>;

export const PASSED = 'passed all guards';
export const AWAY = 'https://localhost/other';

/** A new server for each request. */
export function overNetwork(listener: RequestListener): Ask {
	return async (path, headers = {}) => {
		const server = createServer(listener).listen(0, '127.0.0.1');
		await once(server, 'listening');
		try {
			const { port } = server.address() as AddressInfo;
			return await seen(await fetch(`http://127.0.0.1:${port}${path}`, { headers, redirect: 'manual' }));
		} finally {
			server.close();
		}
	};
}

async function seen(response: Response): Promise<Seen> {
	const { status, headers } = response;
	return { status, headers, body: await response.text() };
}

export const FRAMEWORKS = {
	async 'node:http'({ gate, onRefused, scopes = {} }) {
		const outer = nodeGuard(gate, { onRefused } as never);
		const inner = new Map(Object.entries(scopes).map(([path, own]) => [path, nodeGuard(gate, { scopes: own })]));
		return overNetwork((req, res) => {
			const answer = () => {
				if (req.url === '/away') res.writeHead(302, { location: AWAY }).end();
				else res.end(PASSED);
			};
			outer(req, res, () => {
				const next = inner.get(req.url!);
				if (next) next(req, res, answer);
				else answer();
			});
		});
	},
	async Express({ gate, onRefused, scopes = {}, handlesErrors }) {
		const app = express().set('env', 'test');
		app.use(nodeGuard(gate, { onRefused } as never));
		for (const [path, own] of Object.entries(scopes)) app.use(path, nodeGuard(gate, { scopes: own }));
		app.get('/away', (_req, res) => res.redirect(AWAY));
		app.use((_req, res) => void res.send(PASSED));
		if (handlesErrors) {
			app.use((({ status = 500, headers, message }, _req, res, _next) => {
				res.status(status).set(headers).type('text/x-handled').send(message);
			}) as express.ErrorRequestHandler);
		}
		return overNetwork(app);
	},
	async Fastify({ gate, onRefused, scopes = {}, handlesErrors }) {
		const app = Fastify();
		await app.register(fastifyGuard, { gate, onRefused } as never);
		app.register(async (inner) => {
			await inner.register(fastifyGuard, { gate });
			for (const [path, own] of Object.entries(scopes)) inner.get(path, { config: { scopes: own } }, () => PASSED);
		});
		app.get('/away', (_request, reply) => reply.redirect(AWAY));
		app.get('/*', () => PASSED);
		if (handlesErrors) {
			app.setErrorHandler(({ status, headers = {}, message }: Partial<RefusedError>, _request, reply) =>
				reply
					.code(status ?? 500)
					.headers(headers)
					.type('text/x-handled')
					.send(message),
			);
		}
		return async (url, headers = {}) => {
			const { statusCode: status, headers: received, body } = await app.inject({ url, headers });
			return seen(new Response(body, { status, headers: received as Record<string, string> }));
		};
	},
	async Hono({ gate, onRefused, scopes = {}, handlesErrors }) {
		const app = new Hono();
		app.use(honoGuard(gate, { onRefused } as never));
		for (const [path, own] of Object.entries(scopes)) app.use(path, honoGuard(gate, { scopes: own }));
		app.get('*', (c) => passed(c.req.raw));
		if (handlesErrors) {
			app.onError((error, c) => {
				const { status = 500, headers, message = '' } = error as Partial<RefusedError>;
				return c.body(message, status, { ...headers, 'content-type': 'text/x-handled' });
			});
		}
		return async (path, headers = {}) => seen(await app.request(path, { headers }));
	},
	async fetch({ gate, onRefused, scopes = {} }) {
		const inner = new Map(
			Object.entries(scopes).map(([path, own]) => [path, fetchGuard(gate, passed, { scopes: own })]),
		);
		const outer = fetchGuard(gate, (request) => (inner.get(new URL(request.url).pathname) ?? passed)(request), {
			onRefused,
		} as never);
		return async (path, headers = {}) => seen(await outer(new Request(`https://localhost${path}`, { headers })));
	},
} satisfies Record<string, Serve>;

/** The headers of a redirect are immutable. */
function passed({ url }: Request): Response {
	return new URL(url).pathname === '/away' ? Response.redirect(AWAY) : new Response(PASSED);
}
