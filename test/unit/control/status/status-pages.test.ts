import assert from 'node:assert/strict';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { test } from 'node:test';
import { examplePages } from '../../../system/status/example.ts';

type Ask = (path: string) => Promise<string>;

/** How many renderings a number of requests of one moment have cost, and the most that were done in one turn of the loop. */
async function asked(
	requests: (ask: Ask) => Promise<string>[],
): Promise<{ bodies: string[]; renderings: number; most: number }> {
	const pages = examplePages();
	const { stringify } = JSON;
	let [renderings, ofTurn, most] = [0, 0, 0];
	const endTurn = () => {
		ofTurn = 0;
	};
	JSON.stringify = (value: unknown, ...rest: never[]) => {
		if ((value as { schema?: number } | undefined)?.schema === 1) {
			renderings++;
			if (ofTurn++ === 0) setImmediate(endTurn);
			most = Math.max(most, ofTurn);
		}
		return stringify(value, ...rest);
	};
	const ask = async (path: string) => {
		const route = pages.routes.get(path.split('?')[0]!)!;
		return (await route({ url: path, headers: {} } as IncomingMessage, {} as ServerResponse))!.body;
	};
	try {
		const bodies = await Promise.all(requests(ask));
		return { bodies, renderings, most };
	} finally {
		JSON.stringify = stringify;
	}
}

test('128 requests for one view of the status page at once are one rendering', async () => {
	const { bodies, renderings } = await asked((ask) => Array.from({ length: 128 }, () => ask('/status.json')));
	assert.equal(renderings, 1);
	assert.equal(new Set(bodies).size, 1);
	const { bodies: pages } = await asked((ask) => Array.from({ length: 128 }, () => ask('/?filter=a')));
	assert.equal(new Set(pages).size, 1);
});

test('requests for many views are rendered one in a turn of the loop, so that health probes have theirs', async () => {
	const { most } = await asked((ask) => Array.from({ length: 20 }, (_, i) => ask(`/status.json?filter=${i}`)));
	assert.equal(most, 1);
});
