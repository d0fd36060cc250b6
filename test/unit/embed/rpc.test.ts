/** The recipes of docs/reference/embed.md for servers of gRPC and Connect, unchanged, behind mutual TLS. */
import { deepEqual, equal, match, ok, throws } from 'node:assert/strict';
import { X509Certificate } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { before, describe, it } from 'node:test';
import { pathToFileURL } from 'node:url';
import { create, createFileRegistry } from '@bufbuild/protobuf';
import type { GenService } from '@bufbuild/protobuf/codegenv2';
import {
	type EmptySchema,
	FileDescriptorProtoSchema,
	file_google_protobuf_empty,
	file_google_protobuf_wrappers,
	type StringValueSchema,
} from '@bufbuild/protobuf/wkt';
import * as connectRpc from '@connectrpc/connect';
import {
	ConnectError,
	type ConnectRouter,
	createClient,
	createContextValues,
	type HandlerContext,
} from '@connectrpc/connect';
import { connectNodeAdapter, createConnectTransport, createGrpcTransport } from '@connectrpc/connect-node';
import * as grpcJs from '@grpc/grpc-js';
import {
	Client,
	credentials,
	Metadata,
	Server,
	ServerCredentials,
	type ServerDuplexStream,
	type ServerUnaryCall,
	type ServiceError,
	type sendUnaryData,
} from '@grpc/grpc-js';
import { admittedOf as admittedToConnect, gated } from '../../../packages/gate/src/embed/connect.ts';
import { createGate, type Gate, type RefreshingGate } from '../../../packages/gate/src/embed/gate.ts';
import { admittedOf as admittedToGrpc, gateInterceptor } from '../../../packages/gate/src/embed/grpc.ts';
import { blockNamed, type DocBlock } from '../../fixtures/doc-blocks.ts';
import { AUDIENCE, ISSUER, type TestPki, temporaryFolder, testPki } from '../../fixtures/pki.ts';
import { until } from '../../fixtures/wait.ts';
import { listening } from './mtls-server.ts';

let pki: TestPki;
before(async () => {
	pki = await testPki();
});

/** Three requests are good for a tenant, then none; a tenant has one at a time. */
function newGate(): RefreshingGate {
	return createGate({
		jwtPublicKey: pki.tokenKey.publicKeyPem,
		issuer: ISSUER,
		audience: AUDIENCE,
		tenantRps: 3,
		tenants: [{ name: 'one-by-one', rps: 0, concurrency: 1 }],
		clock: { now: () => 0, wallSeconds: () => Date.now() / 1000 },
	});
}

/** The recipe as a module, with the sources in the place of the package. */
async function recipe(name: string, { code }: DocBlock): Promise<unknown> {
	const file = join(temporaryFolder('recipe'), `${name}.ts`);
	const resolved = code.replaceAll(/ from '([^']+)'/g, (_all, from: string) => {
		const [, part] = /^mtls-edge-gate(?:\/(.+))?$/.exec(from) ?? [];
		const own = from.startsWith('mtls-edge-gate') && `../../../packages/gate/src/embed/${part ?? 'gate'}.ts`;
		return ` from '${import.meta.resolve(own || from)}'`;
	});
	writeFileSync(file, resolved);
	return import(pathToFileURL(file).href);
}

interface Outcome {
	/** 0 for a call that was answered. */
	readonly code: number;
	/** The answer, or why there is none. */
	readonly text: string;
	readonly retryAfter: string | undefined;
}

/** A server behind the gate, whose handlers respond with their tenant. */
interface Service extends AsyncDisposable {
	readonly handled: number;
	/** @returns the outcome of one call, with its client's `authorization`. */
	call(authorization?: string): Promise<Outcome>;
}

const REFUSED = { code: 16, text: 'unauthorized', retryAfter: undefined };

/** @param start the recipe's server; with scopes, one whose calls need them. */
function behavesAsAGate(start: (gate: Gate, scopes?: readonly string[]) => Promise<Service>): void {
	it('ends a call without a token, or with a bad one, as UNAUTHENTICATED, and calls no handler', async () => {
		await using service = await start(newGate());
		deepEqual(await service.call(), REFUSED);
		deepEqual(await service.call('Bearer x'), REFUSED);
		equal(service.handled, 0);
	});

	it('shows the handler who calls, and ends calls above the limit as RESOURCE_EXHAUSTED, with retry-after', async () => {
		await using service = await start(newGate());
		const authorization = `Bearer ${pki.token('acme')}`;
		for (let i = 0; i < 3; i++)
			deepEqual(await service.call(authorization), { code: 0, text: 'acme', retryAfter: undefined });
		deepEqual(await service.call(authorization), { code: 8, text: 'rate limited', retryAfter: '1' });
		equal(service.handled, 3);
	});

	it('accepts a bound token only with its certificate', async () => {
		await using service = await start(newGate());
		const bound = (thumbprint: Buffer) =>
			service.call(`Bearer ${pki.token('bound', { cnf: { 'x5t#S256': thumbprint.toString('base64url') } })}`);
		const { fingerprint256 } = new X509Certificate(pki.clients.valid.certPem);
		equal((await bound(Buffer.from(fingerprint256.replaceAll(':', ''), 'hex'))).text, 'bound');
		deepEqual(await bound(Buffer.alloc(32)), REFUSED);
	});

	it('ends a call without a scope that the server asks for as PERMISSION_DENIED, and calls no handler', async () => {
		await using service = await start(newGate(), ['admin']);
		const call = (scope: string) => service.call(`Bearer ${pki.token('acme', { scope })}`);
		deepEqual(await call('read'), { code: 7, text: 'insufficient scope', retryAfter: undefined });
		equal(service.handled, 0);
		equal((await call('read admin')).text, 'acme');
	});

	it('frees the slot of a call that has ended', async () => {
		const gate = newGate();
		await using service = await start(gate);
		const authorization = `Bearer ${pki.token('one-by-one')}`;
		const free = () => {
			const verdict = gate.check(authorization);
			if (verdict.ok) verdict.slot!.release();
			return verdict.ok;
		};
		equal((await service.call(authorization)).text, 'one-by-one');
		await until(free, 'a free slot');
		const verdict = gate.check(authorization);
		ok(verdict.ok);
		equal((await service.call(authorization)).code, 8);
		verdict.slot!.release();
		equal((await service.call(authorization)).text, 'one-by-one');
	});
}

interface GrpcRecipe {
	serverBehind(gate: Gate): Server;
	tenantOf(call: { readonly metadata: Metadata }): string;
}

const asIs = (bytes: Buffer) => bytes;
const method = (name: string, isStream: boolean) => ({
	path: `/test.Who/${name}`,
	requestStream: isStream,
	responseStream: isStream,
	requestSerialize: asIs,
	requestDeserialize: asIs,
	responseSerialize: asIs,
	responseDeserialize: asIs,
});
const METHODS = { unary: method('Unary', false), stream: method('Stream', true) };

describe('a server of @grpc/grpc-js with the gate', () => {
	let loaded: GrpcRecipe;
	before(async () => {
		loaded = (await recipe('grpc', blockNamed('a gate for @grpc/grpc-js'))) as GrpcRecipe;
	});

	async function start(gate: Gate, kind: keyof typeof METHODS, scopes?: readonly string[]): Promise<Service> {
		let handled = 0;
		const whoIs = (call: { readonly metadata: Metadata }) => {
			handled++;
			return Buffer.from(loaded.tenantOf(call));
		};
		const server =
			scopes === undefined
				? loaded.serverBehind(gate)
				: new Server({ interceptors: [gateInterceptor(gate, grpcJs, { scopes })] });
		server.addService(METHODS, {
			unary: (call: ServerUnaryCall<Buffer, Buffer>, answer: sendUnaryData<Buffer>) => answer(null, whoIs(call)),
			stream: (call: ServerDuplexStream<Buffer, Buffer>) => {
				call.write(whoIs(call));
				call.end();
			},
		});
		const [ca, { certPem, keyPem }] = [Buffer.from(pki.ca.certPem), pki.clients.valid];
		const own = { cert_chain: Buffer.from(pki.server.certPem), private_key: Buffer.from(pki.server.keyPem) };
		const port = await new Promise<number>((resolve, reject) => {
			server.bindAsync('localhost:0', ServerCredentials.createSsl(ca, [own], true), (error, bound) =>
				error ? reject(error) : resolve(bound),
			);
		});
		const client = new Client(
			`localhost:${port}`,
			credentials.createSsl(ca, Buffer.from(keyPem), Buffer.from(certPem)),
		);
		return {
			get handled() {
				return handled;
			},
			call: (authorization) =>
				new Promise((resolve) => {
					const metadata = new Metadata();
					if (authorization !== undefined) metadata.set('authorization', authorization);
					const failed = ({ code, details, metadata: trailers }: ServiceError) =>
						resolve({ code, text: details, retryAfter: trailers.get('retry-after')[0]?.toString() });
					const answered = (bytes: Buffer) => resolve({ code: 0, text: String(bytes), retryAfter: undefined });
					const { path } = METHODS[kind];
					if (kind === 'unary') {
						client.makeUnaryRequest(path, asIs, asIs, Buffer.from('?'), metadata, (error, bytes) =>
							error ? failed(error) : answered(bytes!),
						);
					} else {
						const stream = client.makeBidiStreamRequest(path, asIs, asIs, metadata);
						stream.on('error', failed).on('data', answered).end(Buffer.from('?'));
					}
				}),
			async [Symbol.asyncDispose]() {
				client.close();
				server.forceShutdown();
			},
		};
	}

	for (const kind of ['unary', 'stream'] as const)
		describe(`asked for a ${kind} call`, () => behavesAsAGate((gate, scopes) => start(gate, kind, scopes)));

	it('refuses all calls while certificates are revoked, unless only those of clients are compared', async () => {
		const gate = newGate();
		await using service = await start(gate, 'unary');
		const [leaf, ca] = [pki.clients.valid, pki.ca].map(({ certPem }) => new X509Certificate(certPem).fingerprint256);
		const call = () => service.call(`Bearer ${pki.token('acme')}`);
		gate.setRevoked({ certificates: [ca!] });
		deepEqual(await call(), REFUSED);
		gate.setRevoked({ certificates: [ca!], leafOnly: true });
		equal((await call()).text, 'acme');
		gate.setRevoked({ certificates: [leaf!], leafOnly: true });
		deepEqual(await call(), REFUSED);
	});
});

interface ConnectRecipe {
	adapterBehind(gate: Gate, routes: (router: ConnectRouter) => void): ReturnType<typeof connectNodeAdapter>;
	tenantOf(context: HandlerContext): string;
}

const WHO = createFileRegistry(
	create(FileDescriptorProtoSchema, {
		name: 'who.proto',
		package: 'test',
		syntax: 'proto3',
		dependency: ['google/protobuf/empty.proto', 'google/protobuf/wrappers.proto'],
		service: [
			{
				name: 'Who',
				method: [
					{ name: 'Unary', inputType: '.google.protobuf.Empty', outputType: '.google.protobuf.StringValue' },
					{
						name: 'Stream',
						inputType: '.google.protobuf.Empty',
						outputType: '.google.protobuf.StringValue',
						serverStreaming: true,
					},
				],
			},
		],
	}),
	(name) => (name.includes('empty') ? file_google_protobuf_empty : file_google_protobuf_wrappers),
).getService('test.Who') as GenService<{
	unary: { methodKind: 'unary'; input: typeof EmptySchema; output: typeof StringValueSchema };
	stream: { methodKind: 'server_streaming'; input: typeof EmptySchema; output: typeof StringValueSchema };
}>;

describe('a server of @connectrpc/connect-node with the gate', () => {
	let loaded: ConnectRecipe;
	before(async () => {
		loaded = (await recipe('connect', blockNamed('a gate for @connectrpc/connect-node'))) as ConnectRecipe;
	});

	async function start(
		gate: Gate,
		newTransport: typeof createGrpcTransport,
		kind: 'unary' | 'stream',
		adapterBehind = loaded.adapterBehind,
	) {
		let handled = 0;
		const whoIs = (context: HandlerContext) => {
			handled++;
			return { value: loaded.tenantOf(context) };
		};
		const handler = adapterBehind(gate, ({ service }) =>
			service(WHO, {
				unary: (_request, context) => whoIs(context),
				async *stream(_request, context) {
					yield whoIs(context);
				},
			}),
		);
		const running = await listening({ http2: true }, handler as never);
		const { certPem: cert, keyPem: key } = pki.clients.valid;
		const client = createClient(
			WHO,
			newTransport({ baseUrl: `https://localhost:${running.port}`, nodeOptions: { ca: pki.ca.certPem, cert, key } }),
		);
		const ask = async (headers: Record<string, string>) => {
			if (kind === 'unary') return (await client.unary({}, { headers })).value;
			let text = '';
			for await (const { value } of client.stream({}, { headers })) text += value;
			return text;
		};
		return {
			get handled() {
				return handled;
			},
			async call(authorization?: string): Promise<Outcome> {
				try {
					const text = await ask(authorization === undefined ? {} : { authorization });
					return { code: 0, text, retryAfter: undefined };
				} catch (error) {
					const { code, rawMessage, metadata } = ConnectError.from(error);
					return { code, text: rawMessage, retryAfter: metadata.get('retry-after') ?? undefined };
				}
			},
			[Symbol.asyncDispose]: () => running[Symbol.asyncDispose](),
		};
	}

	const asking =
		(scopes: readonly string[]): ConnectRecipe['adapterBehind'] =>
		(gate, routes) =>
			connectNodeAdapter({ routes, ...gated(gate, connectRpc, { scopes }) });

	const connect: typeof createGrpcTransport = (options) => createConnectTransport({ ...options, httpVersion: '2' });
	for (const [protocol, newTransport] of [
		['Connect', connect],
		['gRPC', createGrpcTransport],
	] as const)
		for (const kind of ['unary', 'stream'] as const)
			describe(`asked by ${protocol} for a ${kind} call`, () =>
				behavesAsAGate((gate, scopes) =>
					start(gate, newTransport, kind, scopes === undefined ? loaded.adapterBehind : asking(scopes)),
				));

	for (const kind of ['unary', 'stream'] as const)
		it(`ends every ${kind} call if the adapter is too old to ask the gate`, async () => {
			const adapterBehind: ConnectRecipe['adapterBehind'] = (gate, routes) =>
				connectNodeAdapter({
					routes,
					...gated(gate, { ConnectError, createContextValues }),
					requestGate: undefined as never,
				});
			await using service = await start(newGate(), connect, kind, adapterBehind);
			const outcome = await service.call(`Bearer ${pki.token('acme')}`);
			equal(outcome.code, 13);
			match(outcome.text, /needs @connectrpc\/connect-node 2\.2 or later/);
			equal(service.handled, 0);
		});
});

it('a handler that no gate is in front of gets an error instead of a tenant', () => {
	const noClaims = { code: 'ERR_GATE_NO_CLAIMS' };
	throws(() => admittedToGrpc(new Metadata()), noClaims);
	throws(() => admittedToConnect(createContextValues()), noClaims);
});
