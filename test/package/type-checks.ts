/** What the types promise, checked by compiling this text in a project that has the package installed. */
export const TYPE_CHECKS = `
import { Hono } from 'hono';
import Fastify from 'fastify';
import express from 'express';
import { createGate, type Gate, GateError, type GateErrorCode } from 'mtls-edge-proxy/embed';
import fastifyGuard, { guard as named } from 'mtls-edge-proxy/embed/fastify';
import { guard as fetchGuard } from 'mtls-edge-proxy/embed/fetch';
import { type GateEnv, guard as honoGuard } from 'mtls-edge-proxy/embed/hono';
import { claimsOf, guard } from 'mtls-edge-proxy/embed/node';
import { createMtlsServer, type MtlsServer } from 'mtls-edge-proxy/embed/tls';

type Equal<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;
const same = <_ extends true>(): void => {};

export const gate: Gate = createGate({ jwtPublicKey: '', issuer: null, audience: 'a', tenantRps: 1 });
// @ts-expect-error a variable of the environment may not be set, and must not switch the check off
createGate({ jwtPublicKey: '', issuer: process.env.ISSUER, audience: null, tenantRps: 1 });
// @ts-expect-error the audience must be there
createGate({ jwtPublicKey: '', issuer: null, tenantRps: 1 });

const verdict = gate.check(undefined);
if (verdict.ok) {
	same<Equal<typeof verdict.claims.sub, string>>();
	same<Equal<typeof verdict.claims.scope, string>>();
	same<Equal<typeof verdict.claims.whatever, unknown>>();
	// @ts-expect-error claims are shared between requests
	verdict.claims.sub = 'root';
} else {
	same<Equal<typeof verdict.refusal.status, 401 | 429>>();
}

const app = express();
app.use(guard(gate));
app.get('/', (req, res) => {
	same<Equal<ReturnType<typeof claimsOf>['sub'], string>>();
	const sub: string | undefined = req.claims?.sub;
	// @ts-expect-error this route may be outside the gate
	res.send(req.claims.sub + sub);
});

const fastify = Fastify();
fastify.register(fastifyGuard, { gate });
fastify.register(named, { gate });
// @ts-expect-error a guard needs its gate
fastify.register(fastifyGuard, {});
fastify.get('/', { config: { gate: false } }, (request) => {
	same<Equal<typeof request.claims.sub, string>>();
});

const hono = new Hono();
hono.get('/', honoGuard(gate), (c) => {
	const claims = c.get('claims');
	same<Equal<typeof claims.sub, string>>();
	return c.text(claims.scope);
});
const typed = new Hono<GateEnv>();
typed.use(honoGuard(gate));
typed.get('/', (c) => c.text(c.get('claims').sub));

export const handler = fetchGuard(gate, (_request, claims, env: { region: string }) => new Response(claims.sub + env.region));
handler(new Request('https://localhost'), { region: 'eu' });
// @ts-expect-error what the handler wants beside the request must be passed on
handler(new Request('https://localhost'));

const files = { certPath: '', keyPath: '', clientCaPath: '' };
export async function serve(): Promise<void> {
	await using server: MtlsServer = createMtlsServer({ ...files, http2: false, onReload: (reload) => {
		if (!reload.ok) same<Equal<typeof reload.error.code, GateErrorCode>>();
	} }, app);
	server.listen(0);
	same<Equal<ReturnType<typeof server.reload>, number>>();
}
export const error: GateError = new GateError('ERR_TLS_MATERIAL', '');
`;
