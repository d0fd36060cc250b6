import assert from 'node:assert/strict';
import { METHODS } from 'node:http';
import { after, before, describe, it } from 'node:test';
import { type Answer, connect, h1Raw, PROTOCOLS, type Protocol } from '../fixtures/clients.ts';
import { testPki } from '../fixtures/pki.ts';
import { type Stage, startStage } from '../fixtures/stage.ts';

/** CONNECT has no path over HTTP/2; `http1-hostile` and `http2-hostile` test it. */
const KNOWN = METHODS.filter((method) => method !== 'CONNECT' && method !== 'TRACE');
const UNKNOWN = ['FOO', 'get', 'PRI'];
const NOT_IMPLEMENTED = '501 method not implemented';

let stage: Stage;
let token: string;

before(async () => {
	token = (await testPki()).token();
	stage = await startStage({ script: (exchange) => exchange.respond({ body: exchange.request.method }) });
});
after(() => stage.end());

/** The response to a request with this method, on a new connection. */
async function outcome(protocol: Protocol, method: string): Promise<string> {
	if (protocol === 'h2') {
		await using connection = await connect('h2', stage.proxy);
		return shown(await connection.request({ method, path: '/a' }));
	}
	using connection = await h1Raw(stage.proxy);
	connection.send(`${method} /a HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${token}\r\n\r\n`);
	return shown(await connection.readResponse(method));
}

function shown({ status, body }: Pick<Answer, 'status'> & { body: Buffer | string }): string {
	return `${status} ${body}`.trim();
}

describe('a method', () => {
	for (const protocol of PROTOCOLS) {
		it(`forwards a known method unchanged, over ${protocol}`, async () => {
			for (const method of KNOWN) {
				assert.equal(await outcome(protocol, method), method === 'HEAD' ? '200' : `200 ${method}`);
				assert.equal(stage.upstream.requests.at(-1)!.method, method);
			}
			await stage.counted({ '200 upstream': KNOWN.length });
		});

		it(`refuses an unknown method with 501, over ${protocol}`, async () => {
			await stage.refused({ 501: UNKNOWN.length }, async () => {
				for (const method of UNKNOWN) assert.equal(await outcome(protocol, method), NOT_IMPLEMENTED, method);
			});
		});

		it(`refuses TRACE with 405, over ${protocol}`, async () => {
			await stage.refused({ 405: 1 }, async () =>
				assert.equal(await outcome(protocol, 'TRACE'), '405 method not allowed'),
			);
		});
	}

	it('a pipelined unknown method waits for its turn, and ends the connection', async () => {
		using connection = await h1Raw(stage.proxy);
		const head = `/a HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${token}\r\n\r\n`;
		connection.send(`GET ${head}FOO ${head}GET ${head}`);
		assert.equal(shown(await connection.readResponse()), '200 GET');
		assert.equal(shown(await connection.readResponse()), NOT_IMPLEMENTED);
		assert.equal(String(await connection.readToEnd()), '');
		await stage.counted({ '200 upstream': 1, 501: 1 });
	});
});
