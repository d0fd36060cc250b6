import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { BAD_GATEWAY, NO_ROUTE, TOKEN_INVALID } from '../../../../packages/gate/src/gates/rejection.ts';
import { ClientConnection, type TlsFacts } from '../../../../packages/proxy/src/data/client/client-connection.ts';
import { ACCESS_MEMBERS, accessLine } from '../../../../packages/proxy/src/data/records/access-line.ts';
import { AccessLog, accessLogShare } from '../../../../packages/proxy/src/data/records/access-log.ts';
import { RequestLog, type RequestRecord } from '../../../../packages/proxy/src/data/records/request-record.ts';

const certificate = { subject: 'O="Zoë"\nCN=client', fingerprint256: 'AB:CD' };

function socket(): TlsFacts & { asked: number } {
	return {
		asked: 0,
		getProtocol: () => 'TLSv1.3',
		getPeerX509Certificate() {
			this.asked++;
			return certificate as never;
		},
		getX509Certificate: () => undefined,
	};
}

class Fake {
	now = 0;
	readonly clock = { now: () => this.now, wallSeconds: () => 1_800_000_000 + this.now / 1000 };
	readonly socket = socket();
	readonly connection = new ClientConnection(this.socket, '192.0.2.1', 'h2');
	readonly records: RequestRecord[] = [];
	readonly log = new RequestLog(this.clock, [(record) => this.records.push(record)]);

	begin(target = '/a?secret', method = 'GET'): RequestRecord {
		return this.log.begin({ connection: this.connection, method, target }, this.now)!;
	}

	/** The line of a request that ends now. */
	line(record: RequestRecord): Record<string, unknown> {
		this.log.end(record);
		const text = accessLine(record, Math.round(this.clock.wallSeconds() * 1000));
		assert.match(text, /^[\x20-\x7e]+\n$/);
		const line = JSON.parse(text);
		assert.deepEqual(
			Object.keys(line),
			Object.keys(ACCESS_MEMBERS).filter((name) => name in line),
			'the documented members, in their order',
		);
		return line;
	}
}

describe('the line of a request', () => {
	it('has all that is known of it', () => {
		const fake = new Fake();
		const record = fake.begin();
		record.tenant = 'a "quoted" tenant';
		record.route = { prefix: '/a' };
		record.upstream = { authority: 'up:1' };
		record.correlation = { traceId: 'f'.repeat(32), requestId: 'id"', lines: '', isShown: true };
		record.bodyBegins();
		record.received(3);
		fake.now = 1;
		record.received(4);
		record.bodyEnds();
		record.sent(fake.now);
		fake.now = 2.5;
		record.sent(fake.now);
		fake.now = 4.0004;
		record.upstreamEnds();
		record.responds(200, undefined);
		record.gave(10);
		fake.now = 7.12345;
		assert.deepEqual(fake.line(record), {
			timestamp: '2027-01-15T08:00:00.007Z',
			level: 'info',
			target: 'proxy::access',
			message: 'request',
			method: 'GET',
			path: '/a',
			status: 200,
			tenant: 'a "quoted" tenant',
			route: '/a',
			upstream: 'up:1',
			protocol: 'h2',
			tls: 'TLSv1.3',
			client: '192.0.2.1',
			client_subject: 'O="Zoë", CN=client',
			client_sha256: 'abcd',
			bytes_in: 7,
			bytes_out: 10,
			duration_ms: 7.123,
			body_ms: 1,
			upstream_ms: 3,
			attempt: 2,
			trace_id: 'f'.repeat(32),
			request_id: 'id"',
		});
	});

	it('has the reason of a refusal, and its words if it has none', () => {
		const fake = new Fake();
		const [expired, noRoute] = [fake.begin(), fake.begin()];
		expired.responds(401, TOKEN_INVALID.because('expired 12 s ago'));
		noRoute.responds(404, NO_ROUTE);
		assert.equal(fake.line(expired).reason, 'expired 12 s ago');
		const line = fake.line(noRoute);
		assert.deepEqual([line.reason, line.upstream_ms, line.attempt], ['no route', undefined, undefined]);
	});

	it('says how it ended, if not with a whole response', () => {
		const fake = new Fake();
		const [gone, broken] = [fake.begin(), fake.begin()];
		gone.losesClient();
		broken.responds(200, undefined);
		broken.breaksOff(BAD_GATEWAY);
		broken.losesClient();
		const line = fake.line(gone);
		assert.deepEqual([line.status, line.ending, line.reason], [undefined, 'client gone', undefined]);
		const other = fake.line(broken);
		assert.deepEqual([other.status, other.ending, other.reason], [200, 'broken off', 'bad gateway']);
	});

	it('is one line whatever the client has sent', () => {
		const fake = new Fake();
		const path = '/"},\n{"\\\0\x1b[2J\x7f\x9b\u2028\u202e\ud800\xff';
		assert.equal(fake.line(fake.begin(`${path}?x`)).path, path.toWellFormed());
	});

	it('reads the certificate once for a connection', () => {
		const fake = new Fake();
		for (let i = 0; i < 3; i++) fake.line(fake.begin());
		assert.equal(fake.socket.asked, 1);
	});

	it('does without what a closed connection no longer tells', () => {
		const closed: TlsFacts = {
			getProtocol: () => null,
			getPeerX509Certificate: () => undefined,
			getX509Certificate: () => undefined,
		};
		const members = new ClientConnection(closed, '::1', 'http/1.1').logMembers;
		assert.deepEqual(JSON.parse(`{"x":0${members}}`), { x: 0, protocol: 'http/1.1', client: '::1' });
	});
});

describe('the access log', () => {
	function accessLog(options: { errorsOnly?: boolean; maxBytes?: number } = {}) {
		const fake = new Fake();
		const sent: { lines: string; dropped: number }[] = [];
		let counted = 0;
		const log = new AccessLog({
			errorsOnly: false,
			maxBytes: 1e9,
			...options,
			clock: fake.clock,
			send: (lines, dropped) => sent.push({ lines, dropped }),
			stats: { count: () => void counted++ },
		});
		const write = (status: number) => {
			const record = fake.begin();
			record.responds(status, undefined);
			fake.log.end(record);
			log.write(record);
		};
		return { log, sent, write, counted: () => counted };
	}

	it('sends lines together, at the latest after 20 ms', (t) => {
		t.mock.timers.enable({ apis: ['setTimeout'] });
		const { sent, write } = accessLog();
		for (let i = 0; i < 3; i++) write(200);
		t.mock.timers.tick(19);
		assert.equal(sent.length, 0);
		t.mock.timers.tick(1);
		assert.deepEqual(
			sent.map(({ lines }) => lines.split('\n').length - 1),
			[3],
		);
		write(200);
		t.mock.timers.tick(20);
		assert.equal(sent.length, 2);
	});

	it('sends them earlier when there are many', (t) => {
		t.mock.timers.enable({ apis: ['setTimeout'] });
		const { sent, write } = accessLog();
		for (let i = 0; i < 500; i++) write(200);
		assert.ok(sent.length >= 2, `${sent.length}`);
		for (const { lines } of sent) assert.ok(lines.length >= 65_536 && lines.length < 67_000);
	});

	it('sends them before they are all that may be under way', (t) => {
		t.mock.timers.enable({ apis: ['setTimeout'] });
		const { sent, write } = accessLog({ maxBytes: 32_768 });
		for (let i = 0; i < 100; i++) write(200);
		assert.ok(sent.length >= 1);
		assert.ok(sent[0]!.lines.length >= 16_384 && sent[0]!.lines.length < 18_000);
	});

	it('has only errors if so configured', (t) => {
		t.mock.timers.enable({ apis: ['setTimeout'] });
		const { sent, write } = accessLog({ errorsOnly: true });
		for (const status of [200, 304, 399, 400, 503]) write(status);
		t.mock.timers.tick(20);
		const lines = sent[0]!.lines.trim().split('\n');
		assert.deepEqual(
			lines.map((line) => JSON.parse(line).status),
			[400, 503],
		);
	});

	it('drops and counts what is over its share until something has been written, and says how many', (t) => {
		t.mock.timers.enable({ apis: ['setTimeout'] });
		const { log, sent, write, counted } = accessLog({ maxBytes: 40_000 });
		for (let i = 0; i < 1000; i++) write(200);
		t.mock.timers.tick(20);
		const bytes = sent.reduce((sum, { lines }) => sum + lines.length, 0);
		assert.ok(bytes >= 40_000 && bytes < 41_000, `${bytes}`);
		const kept = sent.flatMap(({ lines }) => lines.trim().split('\n')).length;
		assert.equal(counted(), 1000 - kept);
		assert.ok(sent.every(({ dropped }) => dropped === 0) || sent.at(-1)!.dropped > 0);
		const before = sent.reduce((sum, { dropped }) => sum + dropped, 0);
		for (const { lines } of [...sent]) log.onWritten(lines.length);
		assert.equal(
			sent.reduce((sum, { dropped }) => sum + dropped, 0),
			counted(),
		);
		assert.ok(before <= counted());
		write(200);
		t.mock.timers.tick(20);
		assert.equal(sent.at(-1)!.lines.split('\n').length - 1, 1);
	});

	it('hands over its lines once when it is flushed', (t) => {
		t.mock.timers.enable({ apis: ['setTimeout'] });
		const { log, sent, write } = accessLog();
		write(200);
		log.flush();
		log.flush();
		t.mock.timers.tick(100);
		assert.equal(sent.length, 1);
	});

	it('leaves room for the other records, however many workers there are', () => {
		for (const workers of [1, 2, 8, 64]) assert.ok(accessLogShare(workers) * workers <= 2 * 1024 * 1024, `${workers}`);
	});
});
