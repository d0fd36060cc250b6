import assert from 'node:assert/strict';
import { duplexPair } from 'node:stream';
import { describe, it } from 'node:test';
import type { TLSSocket } from 'node:tls';
import { FORGOTTEN } from '../../../../packages/proxy/src/data/client/client-request.ts';
import { ResponseFields } from '../../../../packages/proxy/src/data/client/response-fields.ts';
import { RequestHeadReader } from '../../../../packages/proxy/src/data/http1/head-reader.ts';
import { Http1Request, type RequestConnection } from '../../../../packages/proxy/src/data/http1/request.ts';
import { Http1Response } from '../../../../packages/proxy/src/data/http1/response.ts';
import { FlushQueue } from '../../../../packages/proxy/src/data/loop/turn-end.ts';
import type { Delivery } from '../../../../packages/proxy/src/data/request/delivery.ts';
import type { Tunnel } from '../../../../packages/proxy/src/data/tunnel/tunnel.ts';
import type { RequestHead } from '../../../../packages/proxy/src/gates/headers.ts';
import { FakePlane } from '../fixtures/fake-plane.ts';

function requestOf(head: string): Http1Request {
	const reader = new RequestHeadReader(1000);
	reader.read(Buffer.from(head), 0);
	const plane = new FakePlane();
	const connection: RequestConnection = {
		plane,
		response: new Http1Response(duplexPair()[0] as TLSSocket, new FlushQueue(plane.turnEnd), () => {}),

		client: { protocol: 'http/1.1', spend() {} } as unknown as RequestConnection['client'],
		isLast: false,
		isAhead: false,
		hasUnread: false,
		openTunnel() {},
		closeTunnel() {},
		release() {},
		readOn() {},
		onResponseOut() {},
		breakOff() {},
		close() {},
	};
	return new Http1Request(connection, reader, 12);
}

/** A request whose body is being read; `broken` tells what its exchange has been told. */
function upload(): { request: Http1Request; broken: string[] } {
	const request = requestOf('POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n');
	const broken: string[] = [];
	request.exchange.onBodyError = ({ reason = '' }) => void broken.push(reason);
	request.exchange.onRequestBody = () => {};
	request.readBody();
	return { request, broken };
}

describe('an HTTP/1.1 request whose body breaks off', () => {
	const ways = {
		'in the middle of a chunk size': (request: Http1Request) => void request.take(Buffer.from('2\r\nabx')),
		'with the connection': (request: Http1Request) => request.onClientEnd(),
	};
	for (const [way, breakOff] of Object.entries(ways)) {
		it(`${way} is over, also when a part of its response is out: nothing more will come of it`, () => {
			for (const begins of [false, true]) {
				const { request, broken } = upload();
				if (begins) request.begin(200, new ResponseFields([]), true);
				breakOff(request);
				assert.equal(broken.length, 1);
			}
		});

		it(`${way} keeps the response that has been given whole`, () => {
			const { request, broken } = upload();
			request.begin(200, new ResponseFields([]), true);
			request.end();
			breakOff(request);
			assert.deepEqual(broken, []);
		});
	}
});

it('a tunnel keeps nothing of the head of its request', () => {
	const fields = 'Connection: upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n';
	const request = requestOf(
		`GET / HTTP/1.1\r\nHost: a\r\n${fields}Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n`,
	);
	const { exchange } = request;
	const { context } = exchange;
	const head = request.head as RequestHead;
	Object.assign(context, { head, handshake: head.webSocket, target: '/' });
	exchange.delivery = { attempt: { measure() {}, settle() {} } } as unknown as Delivery;
	exchange.becomes({} as Tunnel, new ResponseFields([]));
	assert.equal(request.head, FORGOTTEN);
	assert.deepEqual([context.head, context.handshake, context.target], [undefined, undefined, undefined]);
	assert.equal(context.isCall, false);
});
