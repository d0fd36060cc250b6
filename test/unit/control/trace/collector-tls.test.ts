/** A collector over https, by the exporter's library itself: whose certificate it has to have. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { startTracing, type Tracing } from '../../../../packages/proxy/src/control/trace/tracing.ts';
import { Collector } from '../../../fixtures/collector.ts';
import { testPki } from '../../../fixtures/pki.ts';
import { FakeTime } from '../fixtures/fake-time.ts';
import { RecordedLog } from '../fixtures/recorded-log.ts';
import { spanRecord } from '../fixtures/span-record.ts';

const pki = await testPki();

/** Sends one span. */
async function send(
	endpoint: string,
	ca: string | undefined,
): Promise<{ counts: Tracing['counts']; log: RecordedLog }> {
	const log = new RecordedLog();
	const time = new FakeTime();
	const tracing = await startTracing({
		config: {
			endpoint,
			ratio: 1,
			caPath: undefined,
			headersPath: undefined,
			serviceName: 'edge',
			tenants: false,
			maxQueueSpans: 64,
		},
		files: { ca, headers: { authorization: 'Bearer hunter2' } },
		bind: { host: '127.0.0.1', port: 8443 },
		version: '0.0.0',
		timers: time,
		clock: time,
		log: log.logger,
	});
	tracing.exportSpans([spanRecord()], () => {});
	await tracing.flush(10_000);
	return { counts: { ...tracing.counts }, log };
}

describe('a collector over https', () => {
	test('gets spans and header fields if its certificate chains to the configured CA', async () => {
		await using collector = await Collector.start({ cert: pki.server.certPem, key: pki.server.keyPem });
		const { counts, log } = await send(collector.endpoint, pki.ca.certPem);
		assert.deepEqual([counts, log.lines], [{ exported: 1, failed: 0, dropped: 0 }, []]);
		assert.equal(collector.spans.length, 1);
		assert.equal(collector.heads[0]!.headers.authorization, 'Bearer hunter2');
	});

	for (const [whose, ca, own, code] of [
		['of another CA', pki.otherCa.certPem, pki.server, ''],
		['of a CA that nobody has named', undefined, pki.server, ''],
		['of another name', pki.ca.certPem, pki.clients.serverAuthOnly, 'ERR_TLS_CERT_ALTNAME_INVALID'],
	] as const) {
		test(`a collector whose certificate is ${whose} gets nothing, not even the header fields`, async () => {
			await using collector = await Collector.start({ cert: own.certPem, key: own.keyPem });
			const { counts, log } = await send(collector.endpoint, ca);
			assert.deepEqual(counts, { exported: 0, failed: 1, dropped: 0 });
			const { cause } = log.fields('the collector accepts no spans');
			assert.match(cause as string, new RegExp(`^the certificate is not trusted, or TLS failed \\(.*${code}\\)$`));
			assert.deepEqual([collector.heads, collector.spans], [[], []]);
		});
	}
});
