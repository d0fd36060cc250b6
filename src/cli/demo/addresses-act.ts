/** The act about several addresses of one upstream. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Act } from './act.ts';
import { scrape } from './scrape.ts';

const PATH = '/svc-c/hello';
/** So many requests go on at the same time, over both protocols. */
const AT_ONCE = ['http/1.1', 'http/1.1', 'h2', 'h2'] as const;
/** For what health probes bring about, which go out every second. */
const SOON_MS = 10_000;
const PAUSE_MS = 50;

export async function twoAddresses(act: Act): Promise<void> {
	const { screen, upstreams } = act.stage;
	const [stays, dies] = upstreams.c;
	screen.heading('One route, two addresses: one dies while requests go on, and comes back');
	await requestsUntil(act, 'are spread over both', ({ by }) => by.has(stays.name) && by.has(dies.name));

	let isDead = false;
	void dies.die().then(() => {
		isDead = true;
	});
	const labels = `upstream="${dies.authority}",group="svc-c"`;
	const isOpen = new RegExp(`^proxy_circuit_state\\{${labels}\\} 1$`, 'm');
	await requestsUntil(act, `go on, though ${dies.name} dies`, ({ metrics }) => isDead && isOpen.test(metrics));
	const metrics = await scrape(act.stage.proxy.metricsPort);
	for (const [series, which] of [
		['proxy_upstream_retries_total', ''],
		['proxy_circuit_transitions_total', ',to="open"'],
	]) {
		const found = new RegExp(`^${series}\\{${labels}${which},reason="[^"]+"\\} [1-9]\\d*$`, 'm').exec(metrics)?.[0];
		act.report(found !== undefined, 'GET /metrics', found ?? `no ${series} of ${dies.name}`);
	}

	await dies.revive();
	await requestsUntil(act, `reach ${dies.name} again`, ({ by }) => by.has(dies.name));
}

/** What is known after each round of requests. */
interface Seen {
	/** How many were answered 200, by the upstream that they came to. */
	readonly by: ReadonlyMap<string, number>;
	readonly metrics: string;
}

/** Sends until what is expected has come about, for at most 10 s. Anything but 200 is a failure. */
async function requestsUntil(act: Act, what: string, hasCome: (seen: Seen) => boolean): Promise<void> {
	const token = act.stage.workspace.mint('first');
	const by = new Map<string, number>();
	const others: string[] = [];
	const deadline = performance.now() + SOON_MS;
	for (;;) {
		const answers = await Promise.all(
			AT_ONCE.map((protocol) => act.send({ protocol, path: PATH, token }).catch((error: Error) => error)),
		);
		for (const answer of answers) {
			if (answer instanceof Error) others.push(answer.message);
			else if (answer.status !== 200) others.push(`${answer.status} ${answer.body}`);
			else {
				const { upstream } = JSON.parse(answer.body);
				by.set(upstream, (by.get(upstream) ?? 0) + 1);
			}
		}
		const isDone = hasCome({ by, metrics: await scrape(act.stage.proxy.metricsPort) });
		if (isDone || others.length > 0 || performance.now() > deadline) {
			const served = [...by].sort().map(([name, count]) => `${count} by ${name}`);
			act.report(
				isDone && others.length === 0,
				`requests ${what}`,
				[`200: ${served.join(', ')}`, ...others].join('; '),
			);
			return;
		}
		await sleep(PAUSE_MS, undefined, { signal: act.stage.ended });
	}
}
