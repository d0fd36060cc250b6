/** What one tenant may hold of the memory for bodies (`max_buffered_bytes_per_tenant`), across all threads. */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { type H1Raw, h1Raw, h2Raw, PROTOCOLS, type Protocol, request } from '../fixtures/clients.ts';
import { FRAME, headersFrame, requestFields, SETTING, statusOf } from '../fixtures/h2-frames.ts';
import { type TestPki, testPki } from '../fixtures/pki.ts';
import { BODY_MODE } from '../fixtures/proxy.ts';
import { type Stage, startStage } from '../fixtures/stage.ts';
import { until } from '../fixtures/wait.ts';

/** The share is half of it: 8 MB. */
const ROOM = 16_000_000;
const BODY = Buffer.alloc(1_500_000, 'x');
const MANY = 12;

let pki: TestPki;
let stage: Stage;
before(async () => {
	pki = await testPki();
	stage = await startStage({
		workers: 2,
		limits: { max_buffered_bytes: ROOM, max_request_body_bytes: 2_000_000 },
		script: (exchange) => exchange.respond({ body: BODY }),
	});
});
after(() => stage.end());

/** Requests of one tenant that go on for as long as it likes; each is held, or refused. */
interface Hoard extends Disposable {
	/** Resolves when it is known of each what became of it, with how many were refused. */
	refused(): Promise<number>;
}

/** Uploads that stop shortly before their end. */
async function uploads(token: string): Promise<Hoard> {
	const connections: H1Raw[] = [];
	const refusals: Promise<number>[] = [];
	for (let i = 0; i < MANY; i++) {
		const connection = await h1Raw(stage.proxy);
		connections.push(connection);
		const length = `Content-Length: ${BODY.length + 1}`;
		connection.send(`POST /a HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${token}\r\n${length}\r\n\r\n`);
		connection.send(BODY);
		refusals.push(connection.readResponse('POST', 60_000).then(({ status }) => status));
	}
	let refused = 0;
	for (const refusal of refusals) {
		refusal.then(
			(status) => {
				if (status === 503) refused++;
			},
			() => {},
		);
	}
	return {
		refused: () => until(() => refused, 'one to be refused'),
		[Symbol.dispose]: () => {
			for (const connection of connections) connection.close();
		},
	};
}

/** Responses that the client does not read. */
async function answers(token: string): Promise<Hoard> {
	const connections = await Promise.all(
		Array.from({ length: MANY }, () =>
			h2Raw(stage.proxy, {
				settings: [
					[SETTING.HEADER_TABLE_SIZE, 0],
					[SETTING.INITIAL_WINDOW_SIZE, 0],
				],
			}),
		),
	);
	for (const connection of connections) connection.send(headersFrame(1, requestFields('GET', '/a', token)));
	return {
		refused: async () => {
			const heads = await Promise.all(connections.map((connection) => connection.frameOf(FRAME.HEADERS, 1)));
			return heads.filter((head) => Number(statusOf(head)) === 503).length;
		},
		[Symbol.dispose]: () => {
			for (const connection of connections) connection.close();
		},
	};
}

const HOARDS: Readonly<Record<Protocol, (token: string) => Promise<Hoard>>> = { h1: uploads, h2: answers };

describe('a tenant that holds its share of the memory for bodies', { skip: BODY_MODE !== 'collected' }, () => {
	for (const protocol of PROTOCOLS) {
		it(`is refused, while others are served, and has it again when it lets go, over ${protocol}`, async () => {
			const tokenOf = (tenant: string) => pki.token(`${tenant} over ${protocol}`);
			const ask = async (tenant: string) => {
				const answer = await request(protocol, stage.proxy, { method: 'POST', body: BODY, token: tokenOf(tenant) });
				return answer.status === 200 ? `200 of ${answer.body.length}` : `${answer.status} ${answer.text}`;
			};
			const served = `200 of ${BODY.length}`;
			{
				using hoard = await HOARDS[protocol](tokenOf('hoarder'));
				assert.ok((await hoard.refused()) > 0);
				await until(async () => (await ask('hoarder')) === '503 overloaded', 'it to be refused');
				// One at a time: body and response of one are 3 MB, and the hoarder leaves 8.5 MB.
				for (const other of ['one', 'two', 'one', 'two']) assert.equal(await ask(other), served);
				assert.equal(await ask('hoarder'), '503 overloaded');
			}
			await until(async () => (await ask('hoarder')) === served, 'it to be served again');
			await stage.whateverCounted();
		});
	}
});
