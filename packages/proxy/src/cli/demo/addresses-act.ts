/** The act about several addresses of one upstream. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Act } from './act.ts';

const PATH = '/svc-c/hello';
/** Concurrent requests, over both protocols. */
const AT_ONCE = ['http/1.1', 'http/1.1', 'h2', 'h2'] as const;
/** Health probes go out every second. */
const SOON_MS = 10_000;
const PAUSE_MS = 50;

export async function twoAddresses(act: Act): Promise<void> {
	const { screen, upstreams } = act.stage;
	const [stays, dies] = upstreams.c;
	screen.heading('One route, two addresses: one dies while requests go on, and comes back');
	await requestsUntil(act, 'are spread over both', (by) => by.has(stays.name) && by.has(dies.name));

	let isOpen = false;
	void Promise.all([dies.die(), act.stage.proxy.says('circuit is open')]).then(
		() => {
			isOpen = true;
		},
		() => {},
	);
	await requestsUntil(act, `go on, though ${dies.name} dies`, () => isOpen);
	await dies.revive();
	await requestsUntil(act, `reach ${dies.name} again`, (by) => by.has(dies.name));
}

/** Number of 200 answers by upstream. */
type Served = ReadonlyMap<string, number>;

/** Sends until the expected state is reached, for at most 10 s. Anything but 200 is a failure. */
async function requestsUntil(act: Act, what: string, hasCome: (by: Served) => boolean): Promise<void> {
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
		const isDone = hasCome(by);
		if (isDone || others.length > 0 || performance.now() > deadline) {
			const served = [...by].sort().map(([name, count]) => `${count} by ${name}`);
			const passed = isDone && others.length === 0;
			return act.report(passed, `requests ${what}`, [`200: ${served.join(', ')}`, ...others].join('; '));
		}
		await sleep(PAUSE_MS, undefined, { signal: act.stage.ended });
	}
}
