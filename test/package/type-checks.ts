/** What the types promise, checked by compiling this text in a project that has the package installed. */
export const TYPE_CHECKS = `
import { Hono } from 'hono';
import Fastify from 'fastify';
import express from 'express';
import { createPublicKey, type KeyObject, type webcrypto } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { authorizationOf, certificateOf, type Claims, createGate, type Gate, GateError, type GateErrorCode, type Refusal, RefusedError } from 'mtls-edge-gate';
import fastifyGuard, { guard as named } from 'mtls-edge-gate/fastify';
import { guard as fetchGuard } from 'mtls-edge-gate/fetch';
import { claimsOf as honoClaimsOf, type GateEnv, guard as honoGuard } from 'mtls-edge-gate/hono';
import { claimsOf, guard, guardUpgrade } from 'mtls-edge-gate/node';
import { createMtlsServer, type MtlsServer } from 'mtls-edge-gate/tls';

type Equal<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;
const same = <_ extends true>(): void => {};

export const gate: Gate = createGate({ jwtPublicKey: '', issuer: null, audience: 'a', tenantRps: 1 });
// @ts-expect-error a variable of the environment may not be set, and must not switch the check off
createGate({ jwtPublicKey: '', issuer: process.env.ISSUER, audience: null, tenantRps: 1 });
for (const jwtPublicKey of [Buffer.alloc(0), new Uint8Array(), createPublicKey('') as KeyObject, createPublicKey('').export({ format: 'jwk' })]) {
	createGate({ jwtPublicKey, issuer: null, audience: null, tenantRps: 1 });
}
export const withCryptoKey = (jwtPublicKey: webcrypto.CryptoKey) => createGate({ jwtPublicKey, issuer: null, audience: null, tenantRps: 1 });
// @ts-expect-error a key is not a number
createGate({ jwtPublicKey: 5, issuer: null, audience: null, tenantRps: 1 });
// @ts-expect-error the audience must be there
createGate({ jwtPublicKey: '', issuer: null, tenantRps: 1 });

// @ts-expect-error seconds are written in milliseconds
createGate({ issuers: [{ issuer: 'i', audience: 'a', discovery: true, refreshSecs: 300 }] });
const several = createGate({ issuers: [{ issuer: 'i', audience: 'a', jwks: { keys: [] }, algorithms: ['ES256'] }], tenantRps: 0 });
several.ready.then(() => several.close());
// @ts-expect-error an algorithm with a shared secret is none
createGate({ issuers: [{ issuer: 'i', audience: 'a', publicKey: '', algorithms: ['HS256'] }], tenantRps: 0 });
// @ts-expect-error issuers take the place of the one
createGate({ issuers: [], issuer: 'i', jwtPublicKey: '', audience: 'a', tenantRps: 0 });
export const bound = (req: IncomingMessage) => gate.check(authorizationOf(req), { certificate: () => certificateOf(req), scopes: ['a'] });

const verdict = gate.check(undefined);
if (verdict.ok) {
	same<Equal<typeof verdict.tenant, string>>();
	same<Equal<typeof verdict.claims.sub, string>>();
	same<Equal<typeof verdict.claims.scope, string>>();
	same<Equal<typeof verdict.claims.whatever, unknown>>();
	// @ts-expect-error claims are shared between requests
	verdict.claims.sub = 'root';
} else {
	same<Equal<typeof verdict.refusal.status, 401 | 403 | 429>>();
	same<Equal<typeof verdict.refusal.reason, string | undefined>>();
	same<Equal<RefusedError['refusal'], Refusal>>();
}

const app = express();
app.use(guard(gate));
app.get('/', (req, res) => {
	same<Equal<ReturnType<typeof claimsOf>['sub'], string>>();
	const sub: string | undefined = req.claims?.sub;
	// @ts-expect-error this route may be outside the gate
	res.send(req.claims.sub + sub);
});

app.use(guard(gate, { onRefused: (refusal, _req, res) => {
	same<Equal<typeof refusal, Refusal>>();
	res.end(refusal.body);
} }));
// @ts-expect-error the hook of a refused request has no way to let it through
app.use(guard(gate, { onRefused: (_refusal, _req, _res, next) => next() }));

export const readers = (req: IncomingMessage, request: Request) => [authorizationOf(req), authorizationOf(request)];
// @ts-expect-error the parsed headers show only the first of two
authorizationOf({ headers: { authorization: '' } });

const fastify = Fastify();
fastify.register(fastifyGuard, { gate, onRefused: (refusal, request, reply) => {
	request.log.info(refusal.reason);
	throw new RefusedError(refusal);
} });
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
// @ts-expect-error nobody can tell from the type whether this route is behind the gate
typed.get('/', (c) => c.text(c.get('claims').sub));
typed.get('/', (c) => {
	same<Equal<ReturnType<typeof honoClaimsOf>, Claims>>();
	return c.text(honoClaimsOf(c).sub);
});
typed.get('/guarded', honoGuard(gate), (c) => c.text(c.get('claims').sub));
const outside = new Hono();
outside.get('/', (c) => c.text(honoClaimsOf(c).sub));

export const handler = fetchGuard(gate, (_request, claims, env: { region: string }) => new Response(claims.sub + env.region));
handler(new Request('https://localhost'), { region: 'eu' });
fetchGuard(gate, (_request, claims, env: { region: string }) => new Response(claims.sub + env.region), {
	onRefused: (refusal, _request, env) => new Response(env.region, { status: refusal.status }),
});
fetchGuard(gate, () => new Response(), { onRefused: ({ status }) => new Response(null, { status }) });
// @ts-expect-error a refused request needs an answer
fetchGuard(gate, () => new Response(), { onRefused: () => {} });
hono.use(honoGuard(gate, { onRefused: (refusal, c) => c.json({ title: refusal.body }) }));
// @ts-expect-error a refused request needs an answer
hono.use(honoGuard(gate, { onRefused: () => {} }));
// @ts-expect-error what the handler wants in addition to the request must be passed on
handler(new Request('https://localhost'));

const files = { certPath: '', keyPath: '', clientCaPath: '' };
export async function serve(): Promise<void> {
	await using server: MtlsServer = createMtlsServer({ ...files, http2: true, minVersion: 'TLSv1.3', onError: (fault, req) => { same<Equal<typeof fault, unknown>>(); req.url; }, onReload: (reload) => {
		if (!reload.ok) same<Equal<typeof reload.error.code, GateErrorCode>>();
	} }, app);
	// @ts-expect-error versions of TLS are spelled as Node spells them
	createMtlsServer({ ...files, minVersion: '1.3' }, app);
	server.on('upgrade', guardUpgrade(gate, (req, socket, head, claims) => {
		same<Equal<typeof claims, Claims>>();
		socket.end(head.length + claimsOf(req).sub);
	}));
	server.listen(0);
	same<Equal<ReturnType<typeof server.reload>, number>>();
}
export const error: GateError = new GateError('ERR_TLS_MATERIAL', '');
`;
