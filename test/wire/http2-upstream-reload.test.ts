/** A reload while requests are in flight at an HTTP/2 upstream. */
import { deepEqual, equal } from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import type { Answer } from '../fixtures/clients.ts';
import { startHttp2Upstream } from '../fixtures/h2-upstream.ts';
import { ask, Held, type Stage, stage, upload } from '../fixtures/held-streams.ts';
import { temporaryFolder, testPki } from '../fixtures/pki.ts';
import type { ConfigOverrides, ProxyProcess } from '../fixtures/proxy.ts';
import { until } from '../fixtures/wait.ts';

const pki = await testPki();
const identity = { cert: pki.server.certPem, key: pki.server.keyPem };

async function reload(proxy: ProxyProcess, overrides: ConfigOverrides): Promise<void> {
	proxy.writeConfig(overrides);
	equal((await proxy.reload()).routes.message, 'routing table reloaded');
}

/** Responses that have not begun, responses under way, and uploads. Each protocol has one of each. */
async function begin(here: Stage): Promise<{ finish(): Promise<void> }> {
	const answers = await ask(here, ['/held', '/begun']);
	const uploads = await upload(here);
	await until(async () => (await here.proxy.metric('proxy_requests_in_flight')) === 6, 'all requests');
	return {
		finish: async () => {
			here.held.release();
			for (const { body } of uploads) body.finish('last');
			await checkBodies(
				[...answers, ...uploads.map(({ answer }) => answer)],
				[...['done', 'begun, done', 'done', 'begun, done'], ...['first, last', 'first, last']],
			);
		},
	};
}

async function checkBodies(answers: readonly Promise<Answer>[], bodies: readonly string[]): Promise<void> {
	const seen = (await Promise.all(answers)).map(({ status, body }) => `${status} ${body}`);
	deepEqual(
		seen,
		bodies.map((body) => `200 ${body}`),
	);
}

/** The connections that have carried requests. */
const connectionsOf = ({ sessions }: Held) => [...new Set(sessions.values())];

/** The reload changes the upstream at the same address, or its route: `later` go to a new connection. */
async function changesOver(here: Stage, overrides: ConfigOverrides, there = here.held): Promise<void> {
	const { held, proxy } = here;
	const begun = await begin(here);
	const [old, ...others] = connectionsOf(held);
	equal(others.length, 0);
	await reload(proxy, overrides);
	const later = await ask({ proxy, held: there }, ['/held-later']);
	equal(
		[...there.sessions].filter(([path]) => path.startsWith('/held-later')).some(([, one]) => one === old),
		false,
	);
	deepEqual([old!.closed, held.goaways], [false, []], 'it goes on as long as it has requests');
	there.release();
	await begun.finish();
	await checkBodies(later, ['done', 'done']);
	await until(() => old!.destroyed, 'the old connection to end');
	deepEqual(held.goaways, [0]);
	deepEqual([...new Set(held.resets.values())], [0]);
	await until(async () => (await proxy.metric('proxy_requests_in_flight')) === 0, 'all requests to be over');
	await until(async () => (await proxy.metric('proxy_upstream_streams')) === 0, 'all streams to be over');
}

describe('a reload with requests in flight at an HTTP/2 upstream', () => {
	test('that keeps the upstream leaves them on their connection, which takes later requests, too', () =>
		stage(noOptions, async (here) => {
			const { held, proxy, upstream } = here;
			const begun = await begin(here);
			const url = `h2c://${upstream.authority}`;
			await reload(proxy, {
				routes: [
					{ prefix: '/', upstream: url },
					{ prefix: '/more', upstream: url },
				],
			});
			const later = await ask(here, ['/held-later', '/more']);
			await begun.finish();
			await checkBodies(later, ['done', '', 'done', '']);
			equal(connectionsOf(held).length, 1);
			deepEqual(held.goaways, []);
			deepEqual([...new Set(held.resets.values())], [0]);
		}));

	test('that removes the upstream lets them finish, and then ends their connection with GOAWAY', () =>
		stage(noOptions, async (here) => {
			const there = new Held();
			const other = await startHttp2Upstream({ script: there.script });
			try {
				await changesOver(here, { routes: [{ prefix: '/', upstream: `h2c://${other.authority}` }] }, there);
			} finally {
				await other.stop();
			}
		}));

	test("that changes the upstream's breaker lets them finish on the old connection, and opens another one for later requests", () =>
		stage(noOptions, (here) =>
			changesOver(here, {
				routes: [{ prefix: '/', upstream: `h2c://${here.upstream.authority}`, cooldown_secs: 7 }],
			}),
		));

	test("that changes the upstream's CA lets them finish on the old connection, and opens another one for later requests", () => {
		const caPath = join(temporaryFolder('h2-reload'), 'ca.pem');
		writeFileSync(caPath, readFileSync(pki.caPath));
		const group = (authority: string) => ({
			...{ name: 'group', addresses: [authority], protocol: 'h2', tls: { ca_path: caPath } },
		});
		return stage(
			(authority) => ({ upstreams: [group(authority)], routes: [{ prefix: '/', upstream: 'group' }] }),
			async (here) => {
				writeFileSync(caPath, `${readFileSync(pki.caPath)}${readFileSync(pki.otherCaPath)}`);
				await changesOver(here, {});
			},
			identity,
		);
	});
});

const noOptions = () => ({});
