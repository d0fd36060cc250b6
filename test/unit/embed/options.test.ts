/** Options that are misspelt or of another type are errors at construction, of every part of the embedded gate. */
import assert from 'node:assert/strict';
import { before, describe, it } from 'node:test';
import * as connect from '@connectrpc/connect';
import * as grpc from '@grpc/grpc-js';
import Fastify from 'fastify';
import { gated } from '../../../packages/gate/src/embed/connect.ts';
import { guard as fastifyGuard } from '../../../packages/gate/src/embed/fastify.ts';
import { guard as fetchGuard } from '../../../packages/gate/src/embed/fetch.ts';
import {
	authorizationOf,
	createGate,
	type Gate,
	GateError,
	type RefreshingGate,
} from '../../../packages/gate/src/embed/gate.ts';
import { gateInterceptor } from '../../../packages/gate/src/embed/grpc.ts';
import { guard as honoGuard } from '../../../packages/gate/src/embed/hono.ts';
import { guardUpgrade, guard as nodeGuard } from '../../../packages/gate/src/embed/node.ts';
import { createMtlsServer } from '../../../packages/gate/src/embed/tls.ts';
import { type Files, files } from './mtls-server.ts';
import { newGate, TOKEN_KEY } from './new-gate.ts';

/** As JavaScript calls it. */
type Untyped = (...args: unknown[]) => unknown;
const handler = () => new Response();

const NO_KEY = { jwtPublicKey: undefined, issuer: undefined, audience: undefined };

const gate = newGate();
let paths: Files;
const base = { jwtPublicKey: TOKEN_KEY.publicKeyPem, issuer: null, audience: null };
before(async () => {
	paths = await files();
});

const register = async (options: unknown) => {
	const app = Fastify();
	app.register(fastifyGuard, options as never);
	await app.ready();
};

/** Objects without keys that count. A missing `await` gives the first one. */
const NOT_PLAIN: readonly unknown[] = [
	Promise.resolve({ scopes: ['admin'] }),
	new Map([['scopes', ['admin']]]),
	Object.create({ scope: ['admin'] }),
	() => ({ scopes: ['admin'] }),
];

const GUARDS: Record<string, (gate: unknown, ...options: unknown[]) => unknown> = {
	node: nodeGuard as Untyped,
	upgrade: (one, ...options) => (guardUpgrade as Untyped)(one, handler, ...options),
	hono: honoGuard as Untyped,
	fetch: (one, ...options) => (fetchGuard as Untyped)(one, handler, ...options),
	grpc: (one, ...options) => (gateInterceptor as Untyped)(one, grpc, ...options),
	connect: (one, ...options) => (gated as Untyped)(one, connect, ...options),
};

async function refuses(code: string, message: RegExp, construct: () => unknown): Promise<void> {
	await assert.rejects(
		async () => construct(),
		(error) => {
			assert.ok(error instanceof GateError && error instanceof TypeError, String(error));
			assert.equal(error.code, code);
			assert.match(error.message, message);
			return true;
		},
	);
}

describe('options of a guard', () => {
	for (const [name, guard] of Object.entries(GUARDS)) {
		it(`misspelt, of another type, or without a gate are refused: ${name}`, async () => {
			const cases: [message: RegExp, options: unknown][] = [
				[/^scope is unknown; did you mean scopes\?$/, { scope: ['admin'] }],
				[/^onrefused is unknown|^onErr is unknown/, name === 'upgrade' ? { onErr: handler } : { onrefused: handler }],
				[/^scopes must be a list of scopes/, { scopes: 'admin' }],
				[/^scopes must be a list of scopes/, { scopes: ['a b'] }],
				[/^scopes must be a list of scopes/, { scopes: null }],
				[/^scopes must be a list of scopes/, { scopes: new Array(1) }],
				[/^Symbol\(scopes\) is unknown/, { [Symbol('scopes')]: ['admin'] }],
				[/^scope is unknown/, Object.defineProperty({}, 'scope', { value: ['admin'] })],
				[
					['grpc', 'connect'].includes(name) ? /^onRefused is unknown/ : / must be a function$/,
					name === 'upgrade' ? { onError: 'log' } : { onRefused: 'log' },
				],
				[/^the options must be an object/, null],
				[/^options is undefined, .* leave it out$/, undefined],
				[/^the options must be an object/, 'admin'],
				[/^the options must be an object/, ['admin']],
				...NOT_PLAIN.map((options): [RegExp, unknown] => [/^the options must be an object/, options]),
			];
			for (const [message, options] of cases) await refuses('ERR_GATE_OPTIONS', message, () => guard(gate, options));
			for (const none of [undefined, null, {}, { check: true }, Promise.resolve(gate)]) {
				await refuses('ERR_GATE_OPTIONS', /^gate must be a gate/, () => guard(none));
			}
			guard(gate, { scopes: [] });
			guard(gate);
		});
	}

	it('are the last argument: one after them, such as the handler of another adapter, is refused', async () => {
		for (const guard of Object.values(GUARDS)) {
			for (const more of [handler, undefined])
				await refuses('ERR_GATE_OPTIONS', /argument after the options/, () => guard(gate, {}, more));
		}
	});

	it('need a handler: fetch and upgrade', async () => {
		for (const guard of [fetchGuard, guardUpgrade]) {
			await refuses('ERR_GATE_OPTIONS', /^handler must be a function$/, () => (guard as Untyped)(gate));
		}
	});

	it('need the library in front of them: gRPC and Connect', async () => {
		const adapters: [adapter: unknown, other: object, message: RegExp][] = [
			[
				gateInterceptor,
				connect,
				/^library must be @grpc\/grpc-js: write import \* as grpc from '@grpc\/grpc-js'.*gateInterceptor\(gate, grpc\)$/,
			],
			[
				gated,
				grpc,
				/^library must be @connectrpc\/connect: write import \* as connect from '@connectrpc\/connect'.*gated\(gate, connect\)$/,
			],
		];
		for (const [adapter, other, message] of adapters) {
			for (const library of [[], [undefined], [null], [{}], ['grpc'], [{ scopes: ['admin'] }], [other, {}]]) {
				await refuses('ERR_GATE_OPTIONS', message, () => (adapter as Untyped)(gate, ...library));
			}
		}
	});

	it('misspelt or without a gate are refused: Fastify', async () => {
		await refuses('ERR_GATE_OPTIONS', /^scopes is unknown/, () => register({ gate, scopes: ['admin'] }));
		await refuses('ERR_GATE_OPTIONS', /^gate must be a gate/, () => register({}));
		await refuses('ERR_GATE_OPTIONS', /^onRefused must be/, () => register({ gate, onRefused: 5 }));
		await register({ gate, prefix: '/api', logLevel: 'warn' });
	});

	it('invalid options of a Fastify route are refused when the route is made', async () => {
		const cases: [message: RegExp, config: object][] = [
			[/^config of \/x\.scope is unknown; did you mean scopes\?$/, { scope: ['admin'] }],
			[/^config of \/x\.Gate is unknown; did you mean gate\?$/, { Gate: false }],
			[/^config of \/x\.scopes must be a list/, { scopes: 'admin' }],
			[/^config of \/x\.scopes is undefined/, { scopes: undefined }],
			[/^config of \/x\.gate must be true or false/, { gate: 'false' }],
		];
		for (const [message, config] of cases) {
			await refuses('ERR_GATE_OPTIONS', message, async () => {
				const app = Fastify();
				await app.register(fastifyGuard, { gate });
				app.get('/x', { config }, () => 'secret');
				await app.ready();
			});
			// A route that is older than the plugin refuses all requests.
			const app = Fastify();
			app.get('/x', { config }, () => 'secret');
			await app.register(fastifyGuard, { gate });
			assert.equal((await app.inject('/x')).statusCode, 500);
		}
		const app = Fastify();
		await app.register(fastifyGuard, { gate });
		app.get('/x', { config: { rate: 5, cache: true, gate: false } as object }, () => 'fine');
		assert.equal((await app.inject('/x')).statusCode, 200);
	});
});

describe('options of createMtlsServer', () => {
	it('misspelt, missing or of another type are refused', async () => {
		const create = createMtlsServer as Untyped;
		const cases: [message: RegExp, options: object, code?: string][] = [
			[/^minVerison is unknown; did you mean minVersion\?$/, { minVerison: 'TLSv1.3' }],
			[/^certPath must be a path/, { certPath: undefined }],
			[/^keyPath must be a path/, { keyPath: 5 }],
			[/^http2 must be true or false$/, { http2: 'true' }],
			[/^reloadOnSignal must be true or false$/, { reloadOnSignal: 0 }],
			[/^onError must be a function$/, { onError: {} }],
			[/^onReload must be a function$/, { onReload: 'log' }],
			[/^signal must be an AbortSignal$/, { signal: {} }],
			...[Number.NaN, -1, '5', Number.POSITIVE_INFINITY, 2 ** 31, null].map((drainMs): [RegExp, object] => [
				/^drainMs must be a number of ms from 0 to 2147483647$/,
				{ drainMs },
			]),
			...['TLSv1.1', 'tlsv1.3', '1.3', ''].map((minVersion): [RegExp, object, string] => [
				/^minVersion must be 'TLSv1.2' or 'TLSv1.3'$/,
				{ minVersion },
				'ERR_TLS_MIN_VERSION',
			]),
		];
		for (const [message, changes, code = 'ERR_TLS_OPTIONS'] of cases) {
			await refuses(code, message, () => create({ ...paths, ...changes }, handler));
		}
		await refuses('ERR_TLS_OPTIONS', /^the options must be an object/, () => create());
		await refuses('ERR_TLS_OPTIONS', /^handler must be a function$/, () => create(paths));
	});
});

describe('options of createGate', () => {
	const create = (changes: object) => (createGate as Untyped)({ ...base, ...changes });

	/** By code: the message, and options that are wrong in it. */
	const CASES: Readonly<Record<string, readonly (readonly [message: RegExp, ...options: object[]])[]>> = {
		ERR_GATE_OPTIONS: [
			[/^rateLimitHeader is unknown; did you mean rateLimitHeaders\?$/, { rateLimitHeader: true }],
			[/^rateLimitHeaders must be/, { rateLimitHeaders: 'false' }],
			[/^onEvent must be a function$/, { onEvent: 'log' }],
			[/^clock must be a clock/, { clock: Date }],
		],
		ERR_GATE_ISSUER: [[/^issuer must be/, { issuer: undefined }, { issuer: '' }, { issuer: 7 }]],
		ERR_GATE_AUDIENCE: [[/^audience must be/, { audience: undefined }, { audience: '' }, { audience: 7 }]],
		ERR_GATE_ISSUERS: [[/^issuers replaces/, { issuers: [] }]],
		ERR_GATE_TENANT_RPS: [
			[/^tenantRps must be/, ...[-1, 0.5, 1_000_001, Number.NaN, '5'].map((tenantRps) => ({ tenantRps }))],
		],
		ERR_GATE_TENANTS: [
			[/^tenants must be a list/, { tenants: {} }, { tenants: null }, { tenants: 'acme' }],
			[/^tenants\[0\].concurency is unknown; did you mean/, { tenants: [{ name: 'a', rps: 1, concurency: 2 }] }],
			[/^tenants\[0\].concurrency must be a whole number/, { tenants: [{ name: 'a', concurrency: 0 }] }],
			[/^tenants\[0\].burst needs rps, too$/, { tenants: [{ name: 'a', burst: 2 }] }],
		],
		ERR_GATE_REVOKED: [
			[/^revoked must be an object/, ...[null, ...NOT_PLAIN].map((revoked) => ({ revoked }))],
			[/^revoked.certificate is unknown; did you mean certificates\?$/, { revoked: { certificate: [] } }],
			[/^revoked.certificates\[0\] must be the SHA-256 of a certificate/, { revoked: { certificates: ['ab'] } }],
			[
				/^revoked.serials\[0\].issuer must be a name/,
				{ revoked: { serials: [{ issuer: 'x', serial: '1' }] } },
				{ revoked: { serials: [{ issuer: 'CN=q"uo\\te', serial: '1' }] } },
			],
			[/^revoked.serials\[0\].serial must be a/, { revoked: { serials: [{ issuer: 'CN=x', serial: 'z' }] } }],
			[/^revoked.serials\[0\].number is unknown/, { revoked: { serials: [{ issuer: 'CN=x', number: '1' }] } }],
			[/^revoked.tokens must be a list$/, { revoked: { tokens: 'seven' } }],
			[/^revoked.tenants\[0\] must be the name of a tenant$/, { revoked: { tenants: [7] } }],
			[/^revoked.leafOnly must be true or false$/, { revoked: { leafOnly: 'false' } }, { revoked: { leafOnly: null } }],
			[/^revoked.leafonly is unknown; did you mean leafOnly\?$/, { revoked: { leafonly: true } }],
		],
	};
	for (const [code, cases] of Object.entries(CASES)) {
		it(`options of createGate that are refused with ${code}`, async () => {
			for (const [message, ...wrong] of cases) {
				for (const options of wrong) await refuses(code, message, () => create(options));
			}
		});
	}

	it('setRevoked refuses what createGate refuses', async () => {
		for (const list of NOT_PLAIN) {
			await refuses('ERR_GATE_REVOKED', /^revoked must be an object/, () => gate.setRevoked(list as object));
		}
	});

	it('options of an issuer that are wrong, or contradict each other, are refused', async () => {
		const local = { issuer: 'https://i.test', audience: 'a', jwks: { keys: [] }, tenantPrefix: 'i:' };
		const remote = { issuer: 'https://i.test', audience: 'a', discovery: true };
		const { jwtPublicKey: publicKey } = base;
		const keyed = { ...remote, discovery: false, publicKey, tenantPrefix: 'i:' };
		const other = { ...keyed, issuer: 'https://other.test' };
		const cases: [message: RegExp, ...issuers: unknown[]][] = [
			[/^issuers must be a list of at least one/],
			[/^issuers\[0\] must be an object/, null],
			[/^issuers\[0\]\.issuer must be a non-empty string/, { ...keyed, issuer: '' }],
			[/^issuers\[1\]\.issuer is duplicated/, keyed, { ...keyed, tenantPrefix: 'other:' }],
			[/^issuers\[1\]\.tenantPrefix must not equal/, keyed, other],
			[/^issuers\[1\]\.tenantPrefix must not equal/, keyed, { ...other, tenantPrefix: 'i:x' }],
			[/^issuers\[1\]\.tenantPrefix must not equal/, keyed, { ...other, tenantPrefix: '' }],
			[/^issuers\[0\]\.algorithms must be a list of algorithms from RS256/, { ...keyed, algorithms: ['HS256'] }],
			[/^issuers\[0\] must have one of publicKey, jwks, jwksUrl, discovery, but has 2/, { ...keyed, discovery: true }],
			[/^issuers\[0\] must have one of .* has 0/, { ...keyed, publicKey: undefined }],
			[/^issuers\[0\]\.jwks is an empty JWK Set/, local],
			[/jwksUrl must be an https:/, { ...keyed, publicKey: undefined, jwksUrl: 'http://issuer.example/jwks' }],
			[/discovery must be a boolean/, { ...remote, discovery: 'yes' }],
			[/refreshMs must be above 0/, { ...remote, refreshMs: 0 }],
			[/refreshMs must be a number/, { ...remote, refreshMs: '5' }],
			[/audience must be/, { ...keyed, audience: [] }],
			[/leewayMs must be/, { ...keyed, leewayMs: Number.NaN }],
			[/leewayMs must be/, { ...keyed, leewayMs: '60' }],
			[/tenantPrefix must be up to 64/, { ...keyed, tenantPrefix: 'a b' }],
			[/tenantClaim must be/, { ...keyed, tenantClaim: [] }],
			[/certificateBound must be one of/, { ...keyed, certificateBound: 'yes' }],
			[/^issuers\[0\].refresh_secs is unknown; write refreshMs, in milliseconds$/, { ...keyed, refresh_secs: 3 }],
			[/^issuers\[0\].leewaySecs is unknown; write leewayMs, in milliseconds$/, { ...keyed, leewaySecs: 3 }],
			[/^issuers\[0\].tennant is unknown; there are issuer, audience, /, { ...keyed, tennant: 3 }],
			[/^issuers\[0\].refreshMs is only for jwksUrl and discovery; leave it out$/, { ...keyed, refreshMs: 3 }],
			[/^issuers\[0\].maxStaleMs is only for jwksUrl and discovery/, { ...keyed, maxStaleMs: 3 }],
			[/^issuers\[0\].fetch is only for jwksUrl and discovery/, { ...keyed, fetch }],
			[
				/^issuers\[0\].maxRps is the upper bound of rateClaim, which is not set; set rateClaim/,
				{ ...keyed, maxRps: 3 },
			],
			...['email', 5, null, [5], [''], ...NOT_PLAIN].map((requiredClaims): [RegExp, unknown] => [
				/requiredClaims must be a list of claim names/,
				{ ...remote, requiredClaims },
			]),
			...[null, [], [null], {}].map((env): [RegExp, unknown] => [
				/requiredClaims\.env must be a string/,
				{ ...remote, requiredClaims: { env } },
			]),
		];
		for (const [message, ...issuers] of cases) {
			await refuses('ERR_GATE_ISSUERS', message, () => create({ ...NO_KEY, issuers }));
		}
		const unfit = { ...keyed, algorithms: ['ES256'] };
		const message = /^issuers\[0\]\.publicKey contains a key of type rsa/;
		await refuses('ERR_GATE_PUBLIC_KEY', message, () => create({ ...NO_KEY, issuers: [unfit] }));
	});
});

describe('an option that is undefined', () => {
	const issuer = { issuer: 'https://i.test', audience: 'a', discovery: true, rateClaim: 'rps' };
	const create = (changes: object) => (createGate as Untyped)({ ...base, ...changes }) as RefreshingGate;
	const createIssuer = (changes: object) => {
		create({
			...NO_KEY,
			issuers: [{ fetch: () => Promise.reject(new Error('unreachable')), ...issuer, ...changes }],
		}).close();
	};
	const createTenant = (changes: object) => create({ tenants: [{ name: 'acme', rps: 5, ...changes }] });

	/** Places of options: how an object with the option is used, and the options whose absence lets more in or whose default is as strict. */
	const places: {
		readonly place: string;
		readonly use: (changes: object) => unknown;
		readonly refused: readonly string[];
		readonly allowed: readonly string[];
	}[] = [
		{
			place: '',
			use: create,
			refused: ['tenantRps', 'tenants', 'revoked'],
			allowed: ['issuers', 'rateLimitHeaders', 'readyTimeoutMs', 'onEvent', 'clock'],
		},
		{
			place: 'issuers[0].',
			use: createIssuer,
			refused: [
				...['algorithms', 'fetch', 'refreshMs', 'maxStaleMs', 'leewayMs', 'tenantPrefix', 'tenantClaim'],
				...['requiredClaims', 'certificateBound', 'rateClaim', 'maxRps'],
			],
			allowed: ['publicKey', 'jwks', 'jwksUrl'],
		},
		{ place: 'tenants[0].', use: createTenant, refused: ['rps', 'burst', 'concurrency'], allowed: [] },
		...[(revoked: object) => create({ revoked }), (revoked: object) => gate.setRevoked(revoked)].map((use) => ({
			place: 'revoked.',
			use,
			refused: ['certificates', 'serials', 'tokens', 'tenants', 'leafOnly'],
			allowed: [],
		})),
		{
			place: '',
			use: (changes) => (createMtlsServer as Untyped)({ ...paths, ...changes }, handler),
			refused: ['minVersion'],
			allowed: ['http2', 'reloadOnSignal', 'onReload', 'onError', 'drainMs', 'signal'],
		},
		...Object.entries(GUARDS).map(([name, guard]) => ({
			place: '',
			use: (changes: object) => guard(gate, changes),
			refused: ['scopes'],
			allowed: { fetch: ['certificate', 'onRefused'], upgrade: ['onError'], grpc: [], connect: [] }[name] ?? [
				'onRefused',
			],
		})),
		{
			place: 'config of /x.',
			use: async (config) => {
				const app = Fastify();
				await app.register(fastifyGuard, { gate });
				app.get('/x', { config }, () => 'secret');
				await app.ready();
			},
			refused: ['scopes'],
			allowed: ['gate'],
		},
		{ place: '', use: (changes) => register({ gate, ...changes }), refused: [], allowed: ['onRefused', 'prefix'] },
	];

	it('is refused where its absence would let more in; otherwise it has its default', async () => {
		for (const { place, use, refused, allowed } of places) {
			for (const key of refused) {
				await assert.rejects(async () => use({ [key]: undefined }), {
					name: 'GateError',
					message: `${place}${key} is undefined, as the value of a misspelt setting is; give it a value, or leave it out`,
				});
			}
			for (const key of allowed) await use({ [key]: undefined });
			await use({});
		}
	});
});

describe('the options that were checked are those that hold', () => {
	it('changing a list later changes no requirement', () => {
		const scopes = ['admin'];
		const asked: unknown[] = [];
		const check: Gate['check'] = (authorization, caller) => {
			asked.push([...caller!.scopes!]);
			return gate.check(authorization, caller);
		};
		const guarded = fetchGuard({ check }, handler, { scopes });
		scopes.pop();
		guarded(new Request('http://localhost/'));
		assert.deepEqual(asked, [['admin']]);
	});

	it('an option with a getter is read once', () => {
		let reads = 0;
		const tenants = () => (reads++ === 0 ? [] : undefined);
		(createGate as Untyped)(Object.defineProperty({ ...base }, 'tenants', { get: tenants, enumerable: true }));
		assert.equal(reads, 1);
	});

	it('an option that every object inherits has no effect', () => {
		Object.defineProperty(Object.prototype, 'tenants', { value: 'polluted', configurable: true });
		try {
			(createGate as Untyped)(base);
		} finally {
			delete (Object.prototype as { tenants?: unknown }).tenants;
		}
	});

	it('an inherited gate: false does not open a Fastify route', async () => {
		const app = Fastify();
		await app.register(fastifyGuard, { gate });
		app.get('/x', () => 'secret');
		await app.ready();
		Object.defineProperty(Object.prototype, 'gate', { value: false, writable: true, configurable: true });
		try {
			assert.equal((await app.inject('/x')).statusCode, 401);
		} finally {
			delete (Object.prototype as { gate?: unknown }).gate;
		}
	});
});

describe('invalid calls', () => {
	it('authorizationOf throws a GateError for a value that is not a request', async () => {
		for (const request of [null, undefined, 5, 'text', {}, { headers: null }, { rawHeaders: 'x' }]) {
			await refuses('ERR_GATE_REQUEST', /^the request must have rawHeaders/, () =>
				(authorizationOf as Untyped)(request),
			);
		}
	});

	it('gate.check refuses a caller with an unknown member', () => {
		const verdict = gate.check('Bearer x', { scope: ['admin'] } as object);
		assert.match(verdict.ok ? '' : (verdict.refusal.reason ?? ''), /a member other than certificate and scopes/);
	});

	it('gate.check refuses a caller that is not a plain object, such as a promise or an explicit undefined', () => {
		for (const caller of [...NOT_PLAIN, true, 5, ['admin'], undefined]) {
			const verdict = gate.check('Bearer x', caller as object);
			assert.equal(verdict.ok ? '' : verdict.refusal.reason, 'the caller given to check is not a plain object');
		}
	});

	it('gate.check refuses scopes that are not a list, such as an iterator', () => {
		for (const scopes of ['admin', new Set(['admin']), ['admin'].values(), new Uint8Array(), null, undefined]) {
			const verdict = gate.check('Bearer x', { scopes } as object);
			assert.equal(verdict.ok ? '' : verdict.refusal.reason, 'the scopes given to check are not a list');
		}
	});
});
