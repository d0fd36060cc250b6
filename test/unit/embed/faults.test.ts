/** No request may end the process: faults of handlers, and frameworks that exchange prototypes. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { IncomingMessage, type RequestListener, ServerResponse } from 'node:http';
import { describe, it } from 'node:test';
import express from 'express';
import type { MtlsServerOptions } from '../../../packages/gate/src/embed/tls.ts';
import { type Connection, connect, PROTOCOLS, type Protocol, request } from '../../fixtures/clients.ts';
import { Changes } from '../../fixtures/wait.ts';
import { FAILING, warningsOf } from './failing-hooks.ts';
import { listening, type Running } from './mtls-server.ts';

const INTERNAL_ERROR = 2;
const boom = () => new Error('boom');

/** A server that keeps its faults, and a connection of another client, which must not be disturbed. */
class Watched {
	readonly faults: unknown[] = [];
	readonly changes = new Changes();
	#server: Running | undefined;
	#bystander: Connection | undefined;

	async start(protocol: Protocol, handler: RequestListener, options: Partial<MtlsServerOptions> = {}): Promise<void> {
		const onError = (error: unknown) => {
			this.faults.push(error);
			this.changes.notify();
		};
		const all: RequestListener = (req, res) => (req.url === '/bystander' ? void res.end('ok') : handler(req, res));
		this.#server = await listening({ http2: true, onError, ...options }, all);
		this.#bystander = await connect(protocol, this.#server);
		await this.assertAlive();
	}

	ask(protocol: Protocol, path = '/', options: object = {}) {
		return request(protocol, this.#server!, { path, token: null, ...options });
	}

	open(protocol: Protocol): Promise<Connection> {
		return connect(protocol, this.#server!);
	}

	/** The connection that was open before the fault is served, and so is a new one. */
	async assertAlive(): Promise<void> {
		const path = '/bystander';
		assert.equal((await this.#bystander!.request({ path, token: null })).text, 'ok');
		for (const protocol of PROTOCOLS) assert.equal((await this.ask(protocol, path)).text, 'ok');
	}

	faultCount(count: number): Promise<unknown> {
		return this.changes.until(() => this.faults.length >= count, 'faults to be told');
	}

	async [Symbol.asyncDispose](): Promise<void> {
		await this.#bystander?.close();
		await this.#server?.server.drain();
	}
}

async function watched(protocol: Protocol, handler: RequestListener, options = {}): Promise<Watched> {
	const one = new Watched();
	await one.start(protocol, handler, options);
	return one;
}

async function* never(): AsyncGenerator<string> {
	yield 'x';
	await new Promise(() => {});
}

for (const protocol of PROTOCOLS) {
	describe(`an error of a handler over ${protocol}`, () => {
		const cases: Record<string, RequestListener> = {
			'an error that is thrown': () => {
				throw boom();
			},
			'a promise that rejects': async () => {
				throw boom();
			},
			'a promise that rejects later': async (req) => {
				await once(req.resume(), 'end');
				throw boom();
			},
			'an error after headers were set': (_req, res) => {
				res.setHeader('content-length', '100');
				res.setHeader('set-cookie', 'session=1');
				throw boom();
			},
		};
		for (const [name, handler] of Object.entries(cases)) {
			it(`${name} becomes 500, reaches the hook, and disturbs no other request`, async () => {
				await using server = await watched(protocol, handler);
				for (const options of [{}, { method: 'POST', body: 'x'.repeat(100_000) }]) {
					const answer = await server.ask(protocol, '/', options);
					assert.deepEqual([answer.status, answer.text, answer.ended], [500, 'internal error', 'complete']);
					assert.equal(answer.headers['content-length'], '14');
					assert.equal(answer.headers['set-cookie'], undefined);
				}
				assert.deepEqual(server.faults, [boom(), boom()]);
				await server.assertAlive();
			});
		}

		it('does not keep a connection that is to be closed', async () => {
			await using server = await watched(protocol, (_req, res) => {
				res.setHeader('connection', 'close');
				throw boom();
			});
			const answer = await server.ask(protocol);
			assert.deepEqual([answer.status, answer.headers.connection], [500, protocol === 'h1' ? 'close' : undefined]);
		});

		it("a handler's error during a response breaks it off visibly", async () => {
			await using server = await watched(protocol, async (_req, res) => {
				await new Promise<void>((written) => res.write('the first half', () => written()));
				throw boom();
			});
			const answer = await server.ask(protocol);
			assert.equal(answer.status, 200);
			assert.notEqual(answer.ended, 'complete');
			if (protocol === 'h2') assert.equal(answer.resetCode, INTERNAL_ERROR);
			await server.assertAlive();
		});

		it("a handler's error after a complete response leaves it complete", async () => {
			await using server = await watched(protocol, async (_req, res) => {
				res.end('whole');
				throw boom();
			});
			assert.equal((await server.ask(protocol)).text, 'whole');
			assert.equal(server.faults.length, 1);
		});

		it('includes an error event without a listener', async () => {
			await using server = await watched(protocol, (req, res) => {
				if (req.url === '/request') req.destroy(boom());
				else res.emit('error', boom());
			});
			for (const path of ['/request', '/response']) await server.ask(protocol, path);
			await server.faultCount(1);
			assert.ok(server.faults.every((fault) => (fault as Error).message === 'boom'));
			await server.assertAlive();
		});

		it('is not an error event that the handler listens for, nor a client that goes away', async () => {
			const begun = Promise.withResolvers<void>();
			const gone = Promise.withResolvers<unknown>();
			await using server = await watched(protocol, (req, res) => {
				if (req.url === '/gone') {
					res.once('close', gone.resolve);
					begun.resolve();
					return;
				}
				res.on('error', () => res.end('heard'));
				res.emit('error', boom());
			});
			assert.equal((await server.ask(protocol)).text, 'heard');
			const leaving = await server.open(protocol);
			const answer = leaving.request({
				path: '/gone',
				token: null,
				method: 'POST',
				headers: { 'content-length': '9' },
				body: never(),
			});
			await begun.promise;
			await leaving.close();
			await Promise.all([gone.promise, answer]);
			await server.assertAlive();
			assert.deepEqual(server.faults, []);
		});
	});
}

describe('the hook for faults', () => {
	for (const [how, hook] of FAILING) {
		it(`a fault hook that ${how} becomes one warning of the process`, async () => {
			await using server = await watched('h1', () => assert.fail('fault'), { onError: hook });
			const warnings = await warningsOf(async () => {
				assert.equal((await server.ask('h1')).status, 500);
				await server.assertAlive();
			});
			assert.equal(warnings.length, 1);
			assert.match(warnings[0]!, /^onError has failed: Error: from the hook/);
		});
	}

	it('is optional: errors become warnings, at a limited rate', async () => {
		const warnings: string[] = [];
		const note = ({ message }: Error) => void warnings.push(message);
		process.on('warning', note);
		const thrown: unknown[] = [boom(), 'text', undefined, null, Object.create(null), 5n];
		await using server = await watched(
			'h1',
			() => {
				throw thrown.shift();
			},
			{ onError: undefined },
		);
		for (let i = 0; i < 20; i++) assert.equal((await server.ask('h1')).status, 500);
		process.off('warning', note);
		assert.match(warnings[0]!, /^the handler of a request has failed: Error: boom\n/);
		assert.match(warnings.join('|'), /failed: text\|.*failed: undefined\|.*failed: null\|.*cannot be printed/s);
		assert.ok(warnings.length <= 5, warnings.join('|'));
	});
});

describe('an Express application that createMtlsServer cannot see', () => {
	const app = express();
	app.use(express.json());
	app.get('/send', (_req, res) => void res.send('sent'));
	app.get('/late', (_req, res) => void setImmediate(() => res.json({ late: true })));
	app.get('/async', async (_req, res) => {
		await new Promise(setImmediate);
		res.cookie('a', 'b').status(201).json({});
	});
	app.get('/file', (_req, res) => res.sendFile(import.meta.filename));
	app.get('/redirect', (_req, res) => res.redirect('/send'));
	app.post('/echo', (req, res) => void res.send(req.body));
	app.get('/throw', () => {
		throw boom();
	});
	app.get('/reject', async () => {
		await new Promise(setImmediate);
		throw boom();
	});
	app.use(((_error, _req, res, _next) => void res.status(500).end('handled')) as express.ErrorRequestHandler);

	const hidden: Record<string, RequestListener> = {
		'a function': (req, res) => app(req, res),
		'an async function': async (req, res) => {
			await null;
			app(req, res);
		},
		'a callback': (req, res) => void setImmediate(() => app(req, res)),
		'a microtask': (req, res) => queueMicrotask(() => app(req, res)),
	};
	for (const [where, handler] of Object.entries(hidden)) {
		for (const protocol of PROTOCOLS) {
			it(`within ${where} ends nothing, and its requests are answered (${protocol})`, async () => {
				await using server = await watched(protocol, handler);
				const outcome = async (path: string, options = {}) => {
					const { status, text, ended } = await server.ask(protocol, path, options);
					assert.equal(ended, 'complete', path);
					return `${status} ${text.slice(0, 9)}`;
				};
				const headers = { 'content-type': 'application/json' };
				assert.equal(await outcome('/send'), '200 sent');
				assert.equal(await outcome('/late'), '200 {"late":t');
				assert.equal(await outcome('/async'), '201 {}');
				assert.equal(await outcome('/file'), '200 /** No re');
				assert.equal(await outcome('/redirect'), '302 Found. Re');
				assert.equal(await outcome('/throw'), '500 handled');
				assert.equal(await outcome('/reject'), '500 handled');
				assert.equal(await outcome('/nothing'), '404 <!DOCTYPE');
				assert.equal(await outcome('/echo', { method: 'POST', headers, body: '{"a":1}' }), '200 {"a":1}');
				assert.equal(await outcome('/echo', { method: 'POST', headers, body: '{' }), '500 handled');
				assert.equal((await server.ask(protocol, '/send', { method: 'HEAD' })).status, 200);
				await server.assertAlive();
			});
		}
	}

	it('keeps what a middleware in front of it has wrapped, and takes no other `res` for a response', async () => {
		await using server = await watched('h2', (req, res) => {
			Object.assign(req, { res: 'not a response' });
			const { writeHead } = res;
			res.writeHead = function (this: typeof res, ...args: unknown[]) {
				this.setHeader('x-wrapped', 'yes');
				return writeHead.apply(this, args as never);
			};
			if (req.url === '/send') app(req, res);
			else res.writeHead(200).end('plain');
		});
		const { text, headers } = await server.ask('h2', '/send');
		assert.deepEqual([text, headers['x-wrapped']], ['sent', 'yes']);
		assert.equal((await server.ask('h2', '/plain')).text, 'plain');
	});

	it('causes one warning', async () => {
		await using server = await watched('h2', (req, res) => app(req, res));
		for (let i = 0; i < 3; i++) assert.equal((await server.ask('h2', '/send')).text, 'sent');
		assert.equal(server.faults.length, 1);
		const [{ code, message }] = server.faults as [NodeJS.ErrnoException];
		assert.equal(code, 'ERR_TLS_HTTP2_HANDLER');
		assert.match(message, /http2/);
	});

	it('is not offered over HTTP/2 unless that was asked for', async () => {
		await using server = await listening({}, (req, res) => app(req, res));
		await assert.rejects(request('h2', server, { token: null }));
		assert.equal((await request('h1', server, { path: '/send', token: null })).text, 'sent');
	});
});

describe('an exchange of prototypes at run time', () => {
	const exchange = (req: object, res: object) => {
		Object.setPrototypeOf(req, IncomingMessage.prototype);
		Object.setPrototypeOf(res, ServerResponse.prototype);
	};
	const cases: Record<string, RequestListener> = {
		'is repaired behind the handler': (req, res) => {
			exchange(req, res);
			setImmediate(() => res.end('repaired'));
		},
		'is repaired where the handler fails on it': (req, res) => {
			exchange(req, res);
			res.end('never');
		},
		'and a rejection': async (req, res) => {
			await null;
			exchange(req, res);
			throw boom();
		},
		'that comes later ends nothing but its own request': (req, res) =>
			void setImmediate(() => {
				exchange(req, res);
				req.resume();
			}),
	};
	for (const [name, handler] of Object.entries(cases)) {
		it(name, async () => {
			await using server = await watched('h2', handler);
			for (const options of [{}, { method: 'POST', body: 'x'.repeat(100_000) }]) {
				const { status, text } = await server.ask('h2', '/', options);
				assert.ok(status === 500 || text === 'repaired', String(status));
			}
			assert.ok(server.faults.length > 0);
			await server.assertAlive();
		});
	}
});
