import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { NO_ROUTE, TOKEN_MISSING } from '../../../../packages/gate/src/gates/rejection.ts';
import { RequestLog, type RequestRecord } from '../../../../packages/proxy/src/data/records/request-record.ts';
import { SpanQueue, toSpanRecord } from '../../../../packages/proxy/src/data/records/span-queue.ts';
import { MAX_PATH, type SpanRecord } from '../../../../packages/proxy/src/shared/span-record.ts';

const CONTEXT = { traceId: 'a'.repeat(32), spanId: 'b'.repeat(16), parentId: undefined, flags: 1 };

class Fixture {
	now = 100;
	readonly clock = { now: () => this.now, wallSeconds: () => 1_800_000_000 + this.now / 1000 };
	readonly sent: (readonly SpanRecord[])[] = [];
	dropped = 0;
	readonly queue = new SpanQueue({
		clock: this.clock,
		send: (spans) => this.sent.push(spans),
		maxSpans: 3,
		tenants: false,
		stats: { count: () => void this.dropped++ },
	});
	readonly log = new RequestLog(this.clock, [], { write: this.queue.write, sample: () => CONTEXT });

	begin(target = '/a?secret'): RequestRecord {
		const connection = { ip: '192.0.2.1', protocol: 'h2', logMembers: '' };
		return this.log.beginSpan({ connection, method: 'GET', target } as never, this.now, CONTEXT, undefined);
	}
}

describe('the span of a request', () => {
	it('has the verdict of each gate at its time, and the refusal at the last one', () => {
		const fixture = new Fixture();
		const record = fixture.begin();
		fixture.now += 1;
		record.span!.enters('token');
		fixture.now += 2;
		record.responds(401, TOKEN_MISSING);
		fixture.log.end(record);
		fixture.queue.flush();
		const [[span]] = fixture.sent as [[SpanRecord]];
		assert.deepEqual(span.events, [
			{ gate: 'request head', afterMs: 1 },
			{ gate: 'token', afterMs: 3, refused: 'token-missing', reason: 'no token' },
		]);
		assert.deepEqual([span.startMs, span.durationMs], [1_800_000_000_100, 3]);
		assert.deepEqual([span.status, span.refused, span.reason], [401, 'token-missing', 'no token']);
	});

	it('tells that a response was broken off, after the verdict on the upstream', () => {
		const fixture = new Fixture();
		const record = fixture.begin();
		record.span!.enters('upstream');
		record.responds(200, undefined);
		record.breaksOff(NO_ROUTE.because('x'));
		const names = record.span!.events.map(({ gate }) => gate);
		assert.deepEqual(names, ['request head', 'upstream', 'answer']);
	});

	it('has a path without its query, of bounded length, and names tenants if it is to', () => {
		const fixture = new Fixture();
		const record = fixture.begin(`/${'x'.repeat(5000)}?secret`);
		record.tenant = 'acme';
		const without = toSpanRecord(record, record.span!, 0, false);
		assert.deepEqual([without.path.length, without.tenant], [MAX_PATH, undefined]);
		assert.equal(toSpanRecord(record, record.span!, 0, true).tenant, 'acme');
		assert.equal(fixture.begin().path, '/a');
	});
});

describe('spans on their way', () => {
	it('never exceed their limit, even if nothing takes them; the rest is counted', () => {
		const fixture = new Fixture();
		for (let i = 0; i < 5; i++) fixture.log.end(fixture.begin());
		assert.equal(fixture.dropped, 2);
		fixture.queue.flush();
		fixture.log.end(fixture.begin());
		assert.equal(fixture.dropped, 3);
		fixture.queue.onDone(2);
		for (let i = 0; i < 3; i++) fixture.log.end(fixture.begin());
		fixture.queue.flush();
		assert.equal(fixture.dropped, 4);
		assert.deepEqual(
			fixture.sent.map((spans) => spans.length),
			[3, 2],
		);
		fixture.queue.flush();
		assert.equal(fixture.sent.length, 2);
	});
});

it('records only sampled requests if there is no access log', () => {
	const { log, now } = new Fixture();
	const client = { connection: { logMembers: '' }, method: '', target: '' } as never;
	assert.equal(log.begin(client, now), undefined);
	assert.deepEqual(log.beginUnread(client, now)!.span!.context, CONTEXT);
});
