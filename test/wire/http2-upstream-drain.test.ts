/** The drain while requests are in flight at an HTTP/2 upstream. */
import { deepEqual, equal } from 'node:assert/strict';
import { describe, test } from 'node:test';
import { ask, type Stage, stage, upload } from '../fixtures/held-streams.ts';
import type { ProxyProcess } from '../fixtures/proxy.ts';
import { until, within } from '../fixtures/wait.ts';

/** Far below `shutdown_drain_secs`, 25 s by default, ms. */
const DRAIN_MS = 20_000;

async function terminate({ proxy }: Stage): Promise<void> {
	proxy.signal('SIGTERM');
	await proxy.waitForLog('draining');
}

const noOptions = () => ({});
const exitCode = (proxy: ProxyProcess) => within(proxy.exited, () => `the end of the drain${proxy.output()}`, DRAIN_MS);

describe('a drain with an HTTP/2 upstream', () => {
	test('finishes responses that have not begun, responses under way and uploads, and ends the connection in order', () =>
		stage(noOptions, async (here) => {
			const { proxy, held } = here;
			const answers = await ask(here, ['/held', '/begun']);
			const uploads = await upload(here);
			await until(async () => (await proxy.metric('proxy_requests_in_flight')) === 6, 'all requests');
			await terminate(here);
			held.release();
			for (const { body } of uploads) body.finish('last');
			const texts = [];
			for (const answer of [...answers, ...uploads.map((upload) => upload.answer)]) {
				const { status, body } = await answer;
				equal(status, 200);
				texts.push(String(body));
			}
			const half = ['done', 'begun, done'];
			deepEqual(texts, [...half, ...half, 'first, last', 'first, last']);
			equal(await exitCode(proxy), 0);
			await until(() => here.upstream.open.size === 0, 'the connection to end');
			deepEqual([...new Set(held.goaways)], [0]);
			deepEqual([...new Set(held.resets.values())], [0]);
		}));

	test('finishes what an upstream that goes away at the same moment has accepted', () =>
		stage(noOptions, async (here) => {
			const { proxy, held, upstream } = here;
			const answers = await ask(here, ['/held', '/begun']);
			await terminate(here);
			for (const session of upstream.open) session.goaway(0);
			held.release();
			for (const answer of answers) equal((await answer).status, 200);
			equal(await exitCode(proxy), 0);
		}));
});
