/** The limits on their way through an exchange: taken, given back, told. Endings that need an upstream: `test/wire/quotas.test.ts`. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Rate } from '../../../../packages/gate/src/gates/tenant-limit.ts';
import { ConcurrencyCounts } from '../../../../packages/gate/src/memory/concurrency.ts';
import { requestsInFlight } from '../../../fixtures/requests-in-flight.ts';
import { until } from '../../../fixtures/wait.ts';
import { FakePlane, LIMITS, settle } from '../fixtures/fake-plane.ts';
import { Http1Client } from '../fixtures/http1-client.ts';

class Rig {
	readonly plane = new FakePlane();
	readonly memory = ConcurrencyCounts.allocate(1, 4);

	/** @param limit requests under way. */
	constructor(limit: number, rate?: Rate) {
		const slots = new ConcurrencyCounts(this.memory, 0).slots(5n, limit);
		const principal = { claims: { sub: 'a' }, tenant: 'a', tenantKey: 5n, tenantHeader: '', quota: { rate, slots } };
		Object.assign(this.plane.authenticator, { authenticate: () => principal });
	}

	get underWay(): number {
		return requestsInFlight(this.memory);
	}

	connect(): Http1Client {
		return new Http1Client(this.plane);
	}
}

const WHOLE = 'GET / HTTP/1.1\r\nHost: localhost\r\n\r\n';
/** Of which the last byte is missing. */
const HELD = 'POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\na';

describe('a request that is counted as under way', () => {
	it('takes one of its tenant, is refused if there is none, and gives it back however it ends', async () => {
		const endings: Record<string, (rig: Rig, client: Http1Client) => void | Promise<void>> = {
			answered: (_, { socket }) => void socket.write('b'),
			'client gone': (_, { served }) => void served.destroy(),
			'too slow': (rig) => rig.plane.pass(LIMITS.requestBody + 1100),
		};
		for (const [name, end] of Object.entries(endings)) {
			const rig = new Rig(1);
			const held = rig.connect();
			held.socket.write(HELD);
			await until(() => rig.underWay === 1, `a request under way, to be ${name}`);
			const refused = rig.connect();
			refused.socket.write(WHOLE);
			await until(() => refused.received.endsWith('rate limited'), 'a refusal');
			assert.match(refused.received, /\r\nratelimit: "concurrency";r=0\r\nretry-after: 1\r\n/);
			assert.equal(rig.underWay, 1, 'what was refused was counted');
			await end(rig, held);
			await until(() => rig.underWay === 0, `it to be given back when ${name}`);
			await settle();
			assert.equal(rig.underWay, 0);
		}
	});

	it('is none any more before the next one of its connection', async () => {
		const rig = new Rig(1);
		const client = rig.connect();
		client.socket.write(WHOLE.repeat(3));
		await until(() => client.received.split('no route').length === 4, 'three responses');
		await until(() => rig.underWay === 0, 'all to be given back');
	});

	it('is released after an internal error', async () => {
		const rig = new Rig(1);
		Object.assign(rig.plane, { routes: undefined });
		const client = rig.connect();
		client.socket.write(WHOLE);
		await until(() => client.received.endsWith('internal error'), 'the response');
		await until(() => rig.underWay === 0, 'it to be given back');
	});

	it('is not one if the rate has refused it', async () => {
		const rig = new Rig(5, new Rate(1));
		const client = rig.connect();
		client.socket.write(WHOLE.repeat(2));
		await until(() => client.received.endsWith('rate limited'), 'a refusal');
		assert.match(
			client.received,
			/\r\nratelimit-policy: "tenant";q=1;w=1\r\nratelimit: "tenant";r=0;t=1\r\nretry-after: 1\r\n/,
		);
		const { rateLimited } = rig.plane.stats.read();
		assert.deepEqual([rateLimited.get('tenant'), rateLimited.get('concurrency')], [1, 0]);
		await until(() => rig.underWay === 0, 'the first one to be given back');
	});

	it('says what is left in responses of all kinds, if all are to say it', async () => {
		const rig = new Rig(3, new Rate(5));
		Object.assign(rig.plane.limits, { rateLimitHeaders: true });
		const client = rig.connect();
		client.socket.write(WHOLE);
		await until(() => client.received.endsWith('no route'), 'the response');
		assert.match(client.received, /^HTTP\/1.1 404 .*\r\n/);
		assert.match(
			client.received,
			/\r\nratelimit-policy: "tenant";q=5;w=1, "concurrency";q=3;qu="concurrent-requests"\r\n/,
		);
		assert.match(client.received, /\r\nratelimit: "tenant";r=4;t=1, "concurrency";r=2\r\n/);
		assert.doesNotMatch(client.received, /retry-after/);
	});
});
