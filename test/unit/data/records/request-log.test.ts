import assert from 'node:assert/strict';
import { duplexPair } from 'node:stream';
import { describe, it } from 'node:test';
import type { TLSSocket } from 'node:tls';
import { Http1Front } from '../../../../packages/proxy/src/data/http1/front.ts';
import { RequestLog, type RequestRecord } from '../../../../packages/proxy/src/data/records/request-record.ts';
import { until } from '../../../fixtures/wait.ts';
import { FakePlane, LIMITS, settle } from '../fixtures/fake-plane.ts';

class Logged {
	readonly plane = new FakePlane();
	readonly records: RequestRecord[] = [];
	readonly client;
	readonly served;

	constructor() {
		this.plane.requestLog = new RequestLog(this.plane.clock, [(record) => this.records.push(record)]);
		const [client, served] = duplexPair();
		this.client = client;
		this.served = served;
		client.on('error', () => {}).resume();
		const tls = { getProtocol: () => 'TLSv1.3', getPeerX509Certificate: () => undefined };
		new Http1Front(this.plane).accept(
			Object.assign(served, tls) as unknown as TLSSocket,
			'192.0.2.1',
			this.plane.share(),
		);
	}

	/** The end of each request, in the order of these ends. */
	get endings(): string[] {
		return this.records.map(({ path, status, ending, refusal }) => `${path} ${status} ${ending} (${refusal?.reason})`);
	}

	async untilRecorded(count: number): Promise<void> {
		await until(() => this.records.length >= count, `${count} records`);
		await settle();
	}
}

const request = (path: string, rest = '\r\n') => `GET ${path} HTTP/1.1\r\nHost: a\r\n${rest}`;
const upload = (path: string) => request(path, 'Content-Length: 5\r\n\r\n');

describe('each request leaves one record', () => {
	it('records each response, in the order of the responses, and each malformed request', async () => {
		const logged = new Logged();
		logged.client.write(`${request('/a?b')}${request('/b')}nonsense\r\n\r\n`);
		await logged.untilRecorded(3);
		assert.deepEqual(logged.endings, [
			'/a 401 complete (no token)',
			'/b 401 complete (no token)',
			' 400 complete (malformed request line)',
		]);
		logged.served.destroy();
		await settle();
		assert.equal(logged.records.length, 3);
	});

	it('records a request whose client leaves', async () => {
		const logged = new Logged();
		logged.plane.letsPass = true;
		logged.client.write(`${upload('/a')}hello`);
		await logged.untilRecorded(1);
		logged.client.write(`${upload('/b')}he`);
		await settle();
		logged.served.destroy();
		await logged.untilRecorded(2);
		const [answered, left] = logged.endings;
		assert.equal(answered, '/a 404 complete (undefined)');
		assert.equal(left, '/b 0 client gone (undefined)');
		assert.equal(logged.records[1]!.bytesIn, 2);
		assert.equal(logged.records.length, 2);
	});

	it('records a request that was too slow, or whose body was malformed', async (t) => {
		if (process.env.PROXY_TEST_BODY === 'streaming') return t.skip('collected bodies');
		for (const [rest, wanted] of [
			['Content-Length: 5\r\n\r\nhe', '/ 408 complete (undefined)'],
			['Transfer-Encoding: chunked\r\n\r\nxyz\r\n', '/ 400 complete (malformed chunk size)'],
		] as const) {
			const logged = new Logged();
			logged.plane.letsPass = true;
			logged.client.write(request('/', rest));
			await settle();
			if (logged.records.length === 0) await logged.plane.pass(LIMITS.requestBody + 1000);
			await logged.untilRecorded(1);
			assert.deepEqual(logged.endings, [wanted]);
			assert.equal(logged.records[0]!.bytesIn, wanted.includes('408') ? 2 : 0);
		}
	});
});
