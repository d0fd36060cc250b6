/**
 * The head that goes to the upstream, as two others read it: Node's HTTP server, and a server that folds names as CGI does.
 * Whatever the client sent, the head has one tenant, one host and one framing.
 */
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { Duplex } from 'node:stream';
import { after, describe, it } from 'node:test';
import fc from 'fast-check';
import { Rejection } from '../../../packages/gate/src/gates/rejection.ts';
import { Forwarding } from '../../../packages/proxy/src/gates/forwarding.ts';
import { type RequestHead, readHttp1Head } from '../../../packages/proxy/src/gates/headers.ts';
import { readHttp2Head } from '../../fixtures/http2-head.ts';
import {
	type Field,
	folded,
	forwardedByTheContract,
	forwardedByTheRoute,
	HOP_BY_HOP,
	OURS,
	OURS_BY_ROUTE,
} from '../../models/header-contract.ts';

const NAMES = [
	...OURS,
	...OURS_BY_ROUTE,
	...HOP_BY_HOP,
	'host',
	'connection',
	'content-length',
	'transfer-encoding',
	'expect',
	'cookie',
	'content-type',
];

/** A name with a meaning, in any spelling that a reader could take for it, or any other name. */
const name = fc.oneof(
	fc
		.tuple(fc.constantFrom(...NAMES), fc.constantFrom('-', '_', '.', '~', '!', '^'), fc.infiniteStream(fc.boolean()))
		.map(([text, separator, upper]) =>
			[...text.replaceAll('-', separator)].map((char) => (upper.next().value ? char.toUpperCase() : char)).join(''),
		),
	fc.constantFrom(
		'authorization',
		'x-a',
		'x_a',
		'X-B',
		'accept',
		'constructor',
		'x-proxy-tenants',
		'xx-proxy-tenant',
		'x--proxy-tenant',
		'x-proxy-tenan7',
		'x_real_ips',
		'_',
		'__proto__',
		'n'.repeat(256),
		'n'.repeat(5000),
	),
	fc.stringMatching(/^[!#$%&'*+\-.^_`|~0-9A-Za-z]{1,20}$/),
);
/** Values that llhttp and our HTTP/2 accept. */
const value = fc.oneof(
	fc.constantFrom('', '1', 'close', 'x-proxy-tenant', 'host, x-proxy-tenant', 'chunked', 'victim', 'h2c', 'edge.test'),
	fc.constantFrom('x-a', 'close, X-B', 'cookie, x_a', 'Authorization', '__proto__, constructor', 'te'),
	fc.constantFrom('content-length, transfer-encoding', 'victim, mallory', 'x_proxy_tenant', '0', '5'),
	fc.stringMatching(/^(?:[\x21-\x7e\x80-\xff](?:[\t\x20-\x7e\x80-\xff]{0,20}[\x21-\x7e\x80-\xff])?)?$/),
);
const fields = fc.array(fc.tuple(name, value), { maxLength: 10 });

const PROTOCOLS: readonly { protocol: string; read: (fields: Field[]) => RequestHead | Rejection }[] = [
	{ protocol: 'HTTP/1.1', read: (list) => readHttp1Head(['Host', 'edge.test', ...list.flat()], 1) },
	{
		protocol: 'HTTP/2',
		read: (list) => {
			const lower = list.map(([key, text]) => [key.toLowerCase(), text]);
			const pseudo = [':method', 'POST', ':path', '/a', ':scheme', 'https', ':authority', 'edge.test'];
			return readHttp2Head([...pseudo, ...lower.flat()], false);
		},
	},
];

const reader = createServer();
after(() => reader.close());

for (const { protocol, read } of PROTOCOLS) {
	describe(`the head that goes to the upstream after ${protocol}`, () => {
		it('has one tenant, one host and one framing, none from the client, for every parser', async () => {
			let forwarded = 0;
			await fc.assert(
				fc.asyncProperty(fields, async (list) => {
					const head = read(list);
					if (head instanceof Rejection) return;
					forwarded++;
					const received = await readByNode(
						`POST /a HTTP/1.1\r\nhost: up.test\r\nx-forwarded-for: 10.0.0.1\r\nx-forwarded-proto: https\r\n` +
							`x-proxy-tenant: tenant\r\n${head.lines}content-length: 0\r\n\r\n`,
					);
					const means = (wanted: string) => received.filter(([key]) => folded(key) === wanted).map(([, text]) => text);
					assert.deepEqual(means('x-proxy-tenant'), ['tenant']);
					assert.deepEqual(means('host'), ['up.test']);
					assert.deepEqual(means('content-length'), ['0']);
					assert.deepEqual(means('transfer-encoding'), []);
					assert.deepEqual(means('x-forwarded-for'), ['10.0.0.1']);
					assert.deepEqual(means('x-forwarded-proto'), ['https']);
					for (const never of [...HOP_BY_HOP, 'connection', 'forwarded', 'x-real-ip', 'expect'])
						assert.deepEqual(means(never), []);
					assert.ok(means('cookie').length <= 1);
				}),
				{ numRuns: 2000 },
			);
			assert.ok(forwarded > 200, `the generator is too wild: ${forwarded} forwarded`);
		});

		it('has each forwarding header once, as the proxy writes it, for every parser', async () => {
			const seed = {
				host: 'client',
				stripsPrefix: true,
				forwardedHost: true,
				forwardedPort: true,
				forwarded: true,
			} as const;
			const forwarding = new Forwarding(seed, '/api');
			const arrival = { ip: '10.0.0.1', port: 8443 };
			let claimed = 0;
			await fc.assert(
				fc.asyncProperty(fields, async (list) => {
					const head = read(list);
					if (head instanceof Rejection) return;
					if (head.claimsOrigin) claimed++;
					const sent = protocol === 'HTTP/2' ? list.map(([key, text]): Field => [key.toLowerCase(), text]) : list;
					const left = forwarding.linesOf(head);
					const wanted = forwardedByTheRoute(sent, OURS_BY_ROUTE).map(([key, text]) => `${key}: ${text}\r\n`);
					assert.equal(left, wanted.join(''));
					const host = forwarding.host(head.authority);
					assert.equal(host, 'edge.test');
					const received = await readByNode(
						`GET /a HTTP/1.1\r\nhost: ${host}\r\n${forwarding.lines(head.authority, arrival)}${left}\r\n`,
					);
					const means = (name: string) => received.filter(([key]) => folded(key) === name).map(([, text]) => text);
					assert.deepEqual(means('host'), ['edge.test']);
					assert.deepEqual(means('x-forwarded-host'), ['edge.test']);
					assert.deepEqual(means('x-forwarded-port'), ['8443']);
					assert.deepEqual(means('x-forwarded-prefix'), ['/api']);
					assert.deepEqual(means('forwarded'), ['for=10.0.0.1;host=edge.test;proto=https']);
				}),
				{ numRuns: 1000 },
			);
			assert.ok(claimed > 50, `the generator is too tame: ${claimed}`);
		});

		it('is what the header contract leaves of what the client sent', () => {
			fc.assert(
				fc.property(fields, (list) => {
					const head = read(list);
					if (head instanceof Rejection) return;
					const sent = protocol === 'HTTP/2' ? list.map(([key, text]): Field => [key.toLowerCase(), text]) : list;
					const wanted = forwardedByTheContract(sent).map(([key, text]) => `${key}: ${text}\r\n`);
					assert.equal(head.lines, wanted.join(''));
				}),
				{ numRuns: 2000 },
			);
		});
	});
}

/** All fields of a request as Node's HTTP server reads them, with their repetitions. */
function readByNode(text: string): Promise<Field[]> {
	return new Promise((resolve, reject) => {
		const socket = new Duplex({ read() {}, write: (_chunk, _encoding, done) => done() });
		const settle = (done: () => void) => {
			reader.removeAllListeners('request');
			reader.removeAllListeners('clientError');
			socket.destroy();
			done();
		};
		reader.once('request', ({ rawHeaders }) => {
			const pairs = Array.from(
				{ length: rawHeaders.length / 2 },
				(_, i): Field => [rawHeaders[2 * i]!, rawHeaders[2 * i + 1]!],
			);
			settle(() => resolve(pairs));
		});
		reader.once('clientError', (error) => settle(() => reject(error)));
		reader.emit('connection', socket);
		socket.push(text, 'latin1');
	});
}
