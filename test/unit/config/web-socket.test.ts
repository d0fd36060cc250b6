import assert from 'node:assert/strict';
import { it } from 'node:test';
import { conflictsBetweenTables } from '../../../src/config/route-conflicts.ts';
import { parseToml } from '../../../src/config/toml.ts';

const UPSTREAMS = ['http/1.1', 'h2', 'auto']
	.map((protocol, i) => `[[upstreams]]\nname = "u${i}"\naddresses = ["http://a:1"]\nprotocol = "${protocol}"\n`)
	.join('');

/** What the file has against a route. */
function problems(upstream: string, websocket = true): string[] {
	const text = `${UPSTREAMS}[[routes]]\nprefix = "/"\nupstream = "${upstream}"\nwebsocket = ${websocket}\n`;
	return conflictsBetweenTables(parseToml(text, 'config.toml'))
		.map(({ message }) => message)
		.filter((message) => message.includes('over HTTP/1.1 alone'));
}

it('refuses websocket = true where the upstream speaks h2, or may speak it', () => {
	for (const upstream of ['u1', 'u2', 'h2c://a:1']) {
		assert.equal(problems(upstream).length, 1, upstream);
		assert.deepEqual(problems(upstream, false), [], upstream);
	}
	for (const upstream of ['u0', 'http://a:1', 'https://a:1']) assert.deepEqual(problems(upstream), [], upstream);
});
