/** The gate's own answers. */
import assert from 'node:assert/strict';
import { type Answer, h1Raw, type Target } from '../fixtures/clients.ts';

const UNAUTHORIZED = {
	'content-length': '12',
	'content-type': 'text/plain; charset=utf-8',
	'www-authenticate': 'Bearer',
};
const RATE_LIMITED = {
	'content-length': '12',
	'content-type': 'text/plain; charset=utf-8',
	'retry-after': '1',
};

/**
 * What the connection needs and what frameworks put on every answer says nothing about the gate. What is left of a limit is the
 * business of `test/wire/quotas.test.ts`.
 */
const NOT_OURS = ['date', 'connection', 'keep-alive', 'x-powered-by', 'ratelimit', 'ratelimit-policy'];

export function assertUnauthorized(answer: Answer, message = 'the answer'): void {
	assert.equal(answer.status, 401, message);
	assert.equal(answer.text, 'unauthorized', message);
	assert.deepEqual(ownHeaders(answer), UNAUTHORIZED, message);
}

export function assertRateLimited(answer: Answer): void {
	assert.equal(answer.status, 429);
	assert.equal(answer.text, 'rate limited');
	assert.deepEqual(ownHeaders(answer), RATE_LIMITED);
}

export function assertUnauthorizedToHead(answer: Answer): void {
	assert.equal(answer.status, 401);
	assert.equal(answer.text, '');
	assert.deepEqual(ownHeaders(answer), UNAUTHORIZED);
}

/** An answer's bytes as they came over HTTP/1.1, its header lines in alphabetical order and without those not ours. */
export async function rawAnswer(target: Target, headerLines: string): Promise<string> {
	using raw = await h1Raw(target);
	raw.send(`GET /whoami HTTP/1.1\r\nHost: localhost\r\n${headerLines}\r\n`);
	const { startLine, headers, body } = await raw.readResponse();
	const lines = headers
		.filter(([name]) => !NOT_OURS.includes(name.toLowerCase()))
		.map(([name, value]) => `${name}: ${value}`)
		.sort();
	return [startLine, ...lines, '', body.toString('latin1')].join('\r\n');
}

function ownHeaders({ headers }: Answer): Record<string, unknown> {
	return Object.fromEntries(Object.entries(headers).filter(([name]) => !NOT_OURS.includes(name)));
}
