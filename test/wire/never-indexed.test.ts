/** Fields that a sender has marked as never indexed (RFC 7541 section 6.2.3), between HTTP/2 clients and upstreams. */
import { equal } from 'node:assert/strict';
import { after, describe, test } from 'node:test';
import {
	dataFrame,
	FLAG,
	FRAME,
	type Frame,
	frame,
	headerBlock,
	headersFrame,
	requestFields,
	settingsFrame,
} from '../fixtures/h2-frames.ts';
import { type FramesConnection, startFramesUpstream } from '../fixtures/h2-frames-upstream.ts';
import { h2Raw } from '../fixtures/h2-raw.ts';
import { neverIndexed, type Representation, representationsOf } from '../fixtures/hpack-representations.ts';
import { testPki } from '../fixtures/pki.ts';
import { ASKED_ONCE, firstVerdicts, startProxy } from '../fixtures/proxy.ts';
import { until } from '../fixtures/wait.ts';

const upstream = await startFramesUpstream();
/** Of the probe, too, which gets its answer. */
const connections: FramesConnection[] = [];
async function asked(path: string): Promise<readonly [FramesConnection, Frame]> {
	return until(() => {
		const next = upstream.take();
		next?.send(settingsFrame());
		if (next !== undefined) connections.push(next);
		for (const connection of connections) {
			const heads = connection.frames.filter(({ type }) => type === FRAME.HEADERS);
			const found = heads.find(({ payload }) => payload.includes(path));
			if (found !== undefined) return [connection, found] as const;
		}
		return undefined;
	}, path);
}
const probed = asked('/health').then(([connection, { streamId }]) =>
	connection.send(headersFrame(streamId, [[':status', '200']])),
);
const proxy = await startProxy({
	routes: [{ prefix: '/', upstream: `h2c://${upstream.authority}` }],
	workers: 1,
	config: ASKED_ONCE,
});
await probed;
await firstVerdicts(proxy);
after(async () => {
	await proxy.stop();
	await upstream.stop();
});

const token = (await testPki()).token();
const control = (path: string) => requestFields('POST', path, token);
/** The same fields, without marks and with them. The second value is in the static table. */
const SECRETS: readonly (readonly [string, string])[] = [
	['x-key', 'secret'],
	['accept-encoding', 'gzip, deflate'],
];
const OPEN = ['x-open', 'anybody'] as const;

/** A block with the secrets, and one field without a mark. */
function block(begin: readonly (readonly [string, string])[], isMarked: boolean, secrets = SECRETS): Buffer {
	const own = isMarked ? secrets.map(([name, value]) => neverIndexed(name, value)) : [headerBlock(secrets)];
	return Buffer.concat([headerBlock(begin), ...own, headerBlock([OPEN])]);
}

const TRAILERS: readonly (readonly [string, string])[] = [['x-sum', '1234']];

/** The blocks that arrive for a message of two blocks with or without marks, in each direction. */
async function exchange(path: string, isMarked: boolean) {
	const client = await h2Raw(proxy);
	const heads = (id: number, begin: readonly (readonly [string, string])[]) => [
		frame(FRAME.HEADERS, FLAG.END_HEADERS, id, block(begin, isMarked)),
		dataFrame(id, 'x'),
		frame(FRAME.HEADERS, FLAG.END_HEADERS | FLAG.END_STREAM, id, block([], isMarked, TRAILERS)),
	];
	client.send(...heads(1, control(path)));
	const [connection, request] = await asked(path);
	const isLast = ({ type, flags, streamId }: Frame) =>
		type === FRAME.HEADERS && streamId === request.streamId && (flags & FLAG.END_STREAM) !== 0;
	const requestTrailers = await connection.frame(isLast);
	connection.send(...heads(request.streamId, [[':status', '200']]));
	const response = await client.frameOf(FRAME.HEADERS, 1);
	const responseTrailers = await client.frame(
		({ type, flags }) => type === FRAME.HEADERS && (flags & FLAG.END_STREAM) !== 0,
	);
	client.close();
	return { request, requestTrailers, response, responseTrailers };
}

describe('a field that its sender has marked as never indexed', () => {
	const isMark = (kind: Representation | undefined) => kind === 'never indexed';

	test('is forwarded with the mark, and so is a field with the same bytes that came without it before', async () => {
		const before = await exchange('/before', false);
		for (const { payload } of [before.request, before.response]) {
			equal(representationsOf(payload).get('x-key: secret'), 'plain');
			equal(representationsOf(payload).get('accept-encoding: gzip, deflate'), 'indexed');
		}
		const { request, response, requestTrailers, responseTrailers } = await exchange('/marked', true);
		for (const { payload } of [request, response]) {
			const fields = representationsOf(payload);
			for (const secret of SECRETS) equal(isMark(fields.get(secret.join(': '))), true, secret.join(': '));
			equal(fields.get(OPEN.join(': ')), 'plain');
		}
		for (const { payload } of [requestTrailers, responseTrailers]) {
			equal(isMark(representationsOf(payload).get('x-sum: 1234')), true);
		}
	});

	test('a path is never indexed, however it came', async () => {
		const { request } = await exchange('/after', false);
		const fields = representationsOf(request.payload);
		equal(isMark(fields.get(':path: /after')), true);
	});
});
