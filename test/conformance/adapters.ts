/** The gate's adapters and recipes, each on a real server of its framework, over mutual TLS. */
import 'reflect-metadata';
import type { IncomingMessage, RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { getRequestListener, type HttpBindings } from '@hono/node-server';
import { Controller, Get, Module, Req } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { ExpressAdapter } from '@nestjs/platform-express';
import express from 'express';
import Fastify from 'fastify';
import { Hono } from 'hono';
import Koa from 'koa';
import { guard as fastifyGuard } from '../../packages/gate/src/embed/fastify.ts';
import { guard as fetchGuard } from '../../packages/gate/src/embed/fetch.ts';
import { authorizationOf, certificateOf, createGate, type Gate } from '../../packages/gate/src/embed/gate.ts';
import { guard as honoGuard } from '../../packages/gate/src/embed/hono.ts';
import { claimsOf, guard as nodeGuard } from '../../packages/gate/src/embed/node.ts';
import { createMtlsServer, type MtlsServer, type MtlsServerOptions } from '../../packages/gate/src/embed/tls.ts';
import { testPki } from '../fixtures/pki.ts';
import type { Subject, WhoAmI } from './subject.ts';

export const adapters: readonly Subject[] = [
	subject('node:http', ['h1', 'h2'], (gate, tls) => {
		const guarded = nodeGuard(gate);
		return listening(tls, (req, res) => {
			if (req.url === '/health') return void res.end('ok');
			guarded(req, res, () => {
				const { sub, scope } = claimsOf(req);
				res.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify({ sub, scope }));
			});
		});
	}),
	subject('Express 5', ['h1'], (gate, tls) => {
		const app = express();
		app.get('/health', (_req, res) => void res.send('ok'));
		app.use(nodeGuard(gate));
		app.get('/whoami', (req, res) => {
			const { sub, scope } = claimsOf(req);
			res.json({ sub, scope });
		});
		return listening(tls, app);
	}),
	subject('Nest 12 on Express', ['h1'], async (gate, tls) => {
		const app = express();
		const nest = await NestFactory.create(AppModule, new ExpressAdapter(app), { logger: false });
		app.get('/health', (_req, res) => void res.send('ok'));
		nest.use(nodeGuard(gate));
		await nest.init();
		return listening(tls, app);
	}),
	subject('Koa 3', ['h1', 'h2'], (gate, tls) => {
		const app = new Koa();
		app.use((ctx, next) => {
			if (ctx.path !== '/health') return next();
			ctx.body = 'ok';
		});
		app.use((ctx, next) => {
			const verdict = gate.check(authorizationOf(ctx.req), { certificate: () => certificateOf(ctx.req) });
			if (verdict.ok) {
				ctx.state.claims = verdict.claims;
				ctx.set(verdict.headers ?? {});
				ctx.res.once('close', () => verdict.slot?.release());
				return next();
			}
			const { status, headers, body } = verdict.refusal;
			ctx.status = status;
			ctx.body = body;
			ctx.set(headers);
		});
		app.use((ctx) => {
			const { sub, scope } = ctx.state.claims;
			ctx.body = { sub, scope };
		});
		return listening(tls, app.callback());
	}),
	subject('Fastify 5', ['h1', 'h2'], async (gate, tls) => {
		let server: MtlsServer | undefined;
		const app = Fastify({ serverFactory: (handler) => (server = createMtlsServer(tls, handler)) });
		app.register(fastifyGuard, { gate });
		app.get('/health', { config: { gate: false } }, () => 'ok');
		app.get('/whoami', ({ claims: { sub, scope } }) => ({ sub, scope }));
		await app.listen({ host: '127.0.0.1', port: 0 });
		return server!;
	}),
	subject('Hono 4', ['h1', 'h2'], (gate, tls) => {
		const app = new Hono();
		app.get('/health', (c) => c.text('ok'));
		app.get('/whoami', honoGuard(gate), (c) => {
			const { sub, scope } = c.get('claims');
			return c.json({ sub, scope });
		});
		return listening(tls, getRequestListener(app.fetch));
	}),
	subject('fetch', ['h1', 'h2'], (gate, tls) => {
		const answer = (_request: Request, { sub, scope }: WhoAmI, _env: HttpBindings) => Response.json({ sub, scope });
		const whoami = fetchGuard(gate, answer, { certificate: (_request, { incoming }) => certificateOf(incoming) });
		const route = (request: Request, env: HttpBindings) =>
			new URL(request.url).pathname === '/health' ? new Response('ok') : whoami(request, env);
		return listening(
			tls,
			getRequestListener((request, env) => route(request, env as HttpBindings)),
		);
	}),
];

class WhoAmIController {
	whoami(req: IncomingMessage): WhoAmI {
		const { sub, scope } = claimsOf(req);
		return { sub, scope };
	}
}
class AppModule {}

// What decorators do, which Node does not compile.
const { prototype } = WhoAmIController;
Get('whoami')(prototype, 'whoami', Object.getOwnPropertyDescriptor(prototype, 'whoami')!);
Req()(prototype, 'whoami', 0);
Controller()(WhoAmIController);
Module({ controllers: [WhoAmIController] })(AppModule);

function subject(
	name: string,
	protocols: Subject['protocols'],
	serve: (gate: Gate, tls: MtlsServerOptions) => Promise<MtlsServer>,
): Subject {
	return {
		name,
		protocols,
		async start({ publicKeyPem, ...settings }) {
			const gate = createGate({ jwtPublicKey: publicKeyPem, ...settings });
			const { server: files, caPath } = await testPki();
			const { certPath, keyPath } = files;
			const http2 = protocols.includes('h2');
			const server = await serve(gate, { certPath, keyPath, clientCaPath: caPath, http2, drainMs: 1000 });
			const { port } = server.address() as AddressInfo;
			return { port, [Symbol.asyncDispose]: () => server.drain() };
		},
	};
}

function listening(tls: MtlsServerOptions, handler: RequestListener): Promise<MtlsServer> {
	const server = createMtlsServer(tls, handler);
	return new Promise((resolve, reject) => {
		server.once('error', reject);
		server.listen(0, '127.0.0.1', () => resolve(server));
	});
}
