import assert from 'node:assert/strict';
import { test } from 'node:test';
import { watchCrls } from '../../../../packages/proxy/src/control/crl/watch.ts';
import type { CrlSeed } from '../../../../packages/proxy/src/identity/client-chain.ts';
import { serialMemory } from '../../../fixtures/crl.ts';
import { FakeTime } from '../fixtures/fake-time.ts';
import { RecordedLog } from '../fixtures/recorded-log.ts';

test('a CRL that becomes stale causes one warning, unless its CA has a newer one', async () => {
	const time = new FakeTime();
	const log = new RecordedLog();
	const at = (minutes: number) => time.wallSeconds() + 60 * minutes;
	const crl = (ca: string, minutes: number): CrlSeed => {
		return {
			caId: ca,
			issuer: `CN=${ca}`,
			thisUpdate: 0,
			nextUpdate: at(minutes),
			covers: 'all',
			serials: serialMemory([]),
		};
	};
	let crls = [crl('a', 2.5), crl('b', 2.5), crl('b', 90), crl('c', -1)];
	const stop = watchCrls({ timers: time, crls: () => crls, wallSeconds: time.wallSeconds, log: log.logger });
	await time.advance(2 * 60_000);
	assert.deepEqual(log.lines, []);
	await time.advance(10 * 60_000);
	assert.deepEqual(log.lines, ['warn proxy::tls: CRL is out of date; fetch the next one and reload']);
	assert.deepEqual(log.fields('CRL is out of date; fetch the next one and reload'), {
		issuer: 'CN=a',
		next_update: new Date((1_800_000_000 + 150) * 1000).toISOString(),
	});
	crls = [crl('a', 60)];
	await time.advance(120 * 60_000);
	assert.equal(log.lines.length, 2);
	stop();
	assert.equal(time.pending, 0);
});
