/** The extended CONNECT (RFC 8441) as the client's half of HTTP/2 carries it. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import {
	dataFrame,
	ERROR_CODE,
	FLAG,
	FRAME,
	goawayFrame,
	headersFrame,
	rstStreamFrame,
	settingsFrame,
	windowUpdateFrame,
} from '../../../fixtures/h2-frames.ts';
import { ClientPeer, type TestRequest } from './fixtures/client-peer.ts';

const ENABLE_CONNECT_PROTOCOL = 0x8;
const taken = (id: number, status = '200', endStream = false) => headersFrame(id, [[':status', status]], { endStream });

/** A CONNECT that has been taken. */
function opened(peer = new ClientPeer(), status = '200'): { peer: ClientPeer; tunnel: TestRequest } {
	const tunnel = peer.request('CONNECT', undefined, false);
	peer.send(taken(tunnel.id, status));
	return { peer, tunnel };
}

/** Sends from our side. */
function sends(peer: ClientPeer, tunnel: TestRequest, text: string, ends = false): void {
	tunnel.sendData(Buffer.from(text), ends);
	peer.flush();
}

const endsOf = (peer: ClientPeer, id: number) =>
	peer.of(FRAME.DATA, id).filter(({ flags }) => (flags & FLAG.END_STREAM) !== 0).length;

describe('an extended CONNECT', () => {
	it('is allowed only by the SETTINGS, which cannot withdraw it (section 3)', () => {
		const peer = new ClientPeer();
		assert.equal(peer.protocol.settings.takesConnect, false);
		peer.send(settingsFrame([[ENABLE_CONNECT_PROTOCOL, 1]]));
		assert.equal(peer.protocol.settings.takesConnect, true);
		peer.send(settingsFrame());
		assert.equal(peer.protocol.settings.takesConnect, true);
		peer.send(settingsFrame([[ENABLE_CONNECT_PROTOCOL, 0]]));
		assert.ok(peer.error);
	});

	for (const status of ['200', '204', '205', '299']) {
		it(`is a tunnel with ${status}: bytes pass both ways`, () => {
			const { peer, tunnel } = opened(new ClientPeer(), status);
			assert.equal(tunnel.isTunnel, true);
			peer.send(dataFrame(1, 'down'));
			sends(peer, tunnel, 'up');
			assert.deepEqual([tunnel.body, peer.body(1)], ['down', 'up']);
			assert.equal(peer.outcome, '');
		});
	}

	it('has no length, whatever its head says (RFC 9110 section 9.3.6)', () => {
		const peer = new ClientPeer();
		const tunnel = peer.request('CONNECT', undefined, false);
		const fields: [string, string][] = [
			[':status', '200'],
			['content-length', '2'],
		];
		peer.send(headersFrame(1, fields, { endStream: false }), dataFrame(1, 'more than two'));
		assert.equal(tunnel.body, 'more than two');
		assert.equal(tunnel.end, undefined);
	});

	it('that is refused is a response like any other', () => {
		const peer = new ClientPeer();
		const refused = peer.request('CONNECT', undefined, false);
		peer.send(taken(1, '403'), dataFrame(1, 'no', true));
		assert.equal(refused.isTunnel, false);
		assert.deepEqual([refused.body, refused.isWhole], ['no', true]);
		assert.equal(peer.protocol.streams.size, 0);
	});

	it('still sends after the server has ended its side, and ends with ours', () => {
		const { peer, tunnel } = opened();
		peer.send(dataFrame(1, 'last', true));
		assert.deepEqual([tunnel.body, tunnel.isWhole, tunnel.isClosed], ['last', true, false]);
		assert.deepEqual([peer.protocol.streams.size, peer.ends, peer.outcome], [1, 0, '']);
		sends(peer, tunnel, 'still');
		assert.equal(peer.body(1), 'still');
		sends(peer, tunnel, '', true);
		assert.deepEqual([peer.protocol.streams.size, peer.ends, endsOf(peer, 1), peer.outcome], [0, 1, 1, '']);
		assert.equal(tunnel.isClosed, true);
	});

	it('may end with its head, and still take bytes', () => {
		const peer = new ClientPeer();
		const tunnel = peer.request('CONNECT', undefined, false);
		peer.send(taken(1, '200', true));
		assert.deepEqual([tunnel.isTunnel, tunnel.isWhole, tunnel.isClosed], [true, true, false]);
		sends(peer, tunnel, 'still', true);
		assert.deepEqual([peer.body(1), peer.protocol.streams.size, peer.outcome], ['still', 0, '']);
	});

	it('ends only when all bytes that wait for the server’s window are sent', () => {
		const { peer, tunnel } = opened();
		sends(peer, tunnel, 'x'.repeat(65_536), true);
		peer.send(dataFrame(1, '', true));
		assert.deepEqual([peer.body(1).length, tunnel.isEnding, tunnel.isClosed], [65_535, true, false]);
		peer.send(windowUpdateFrame(0, 10), windowUpdateFrame(1, 10));
		assert.deepEqual([peer.body(1).length, endsOf(peer, 1), tunnel.isClosed], [65_536, 1, true]);
		assert.equal(peer.outcome, '');
	});

	it('stays open after a GOAWAY, like all others', () => {
		const { peer, tunnel } = opened();
		const late = peer.request('CONNECT', undefined, false);
		peer.send(goawayFrame(1));
		assert.equal(late.end?.kind, 'refused');
		peer.send(dataFrame(1, 'goes on'));
		sends(peer, tunnel, 'as well');
		assert.deepEqual([tunnel.body, peer.body(1), tunnel.end], ['goes on', 'as well', undefined]);
	});

	it('is broken by a reset, even after the end of the server’s side', () => {
		for (const before of [[], [dataFrame(1, '', true)]]) {
			const { peer, tunnel } = opened();
			peer.send(...before);
			tunnel.isWhole = false;
			peer.send(rstStreamFrame(1, ERROR_CODE.CANCEL));
			assert.deepEqual(tunnel.end, { kind: 'reset', cause: 'stream reset with CANCEL' });
			assert.deepEqual([peer.protocol.streams.size, peer.ends], [0, 1]);
		}
	});

	it('is cancelled with CANCEL, and only while it is open', () => {
		const { peer, tunnel } = opened();
		peer.protocol.streams.cancel(tunnel);
		peer.protocol.streams.cancel(tunnel);
		peer.flush();
		assert.equal(peer.outcome, `reset 1 ${ERROR_CODE.CANCEL}`);
		assert.deepEqual([peer.ends, peer.protocol.streams.size], [1, 0]);
	});

	const malformed = {
		'HEADERS in it (RFC 9113 section 8.5)': [[headersFrame(1, [['x-sum', '1']])], ERROR_CODE.PROTOCOL_ERROR],
		'a second head': [[taken(1)], ERROR_CODE.PROTOCOL_ERROR],
		'DATA behind the end of the server’s side (section 5.1)': [
			[dataFrame(1, '', true), dataFrame(1, 'x')],
			ERROR_CODE.STREAM_CLOSED,
		],
		'HEADERS behind the end of the server’s side': [[dataFrame(1, '', true), taken(1)], ERROR_CODE.STREAM_CLOSED],
	} as const;
	for (const [what, [frames, code]] of Object.entries(malformed)) {
		it(`is reset for ${what}, and no other stream`, () => {
			const { peer, tunnel } = opened();
			const other = peer.request();
			peer.send(...frames.slice(0, -1));
			tunnel.isWhole = false;
			peer.send(frames.at(-1)!);
			assert.equal(tunnel.end?.kind, 'malformed');
			assert.equal(peer.outcome, `reset 1 ${code}`);
			peer.send(taken(3), dataFrame(3, 'fine', true));
			assert.deepEqual([other.body, peer.error, peer.protocol.streams.size], ['fine', undefined, 0]);
		});
	}

	it('ends each side once and its stream once, whatever the order of bytes and ends', () => {
		const step = fc.oneof(
			fc.record({ side: fc.constantFrom('ours' as const, 'theirs' as const), size: fc.nat(3_000) }),
			fc.constantFrom('ours' as const, 'theirs' as const),
		);
		fc.assert(
			fc.property(fc.array(step, { maxLength: 12 }), (steps) => {
				const { peer, tunnel } = opened();
				const open = { ours: true, theirs: true };
				const bytes = { ours: 0, theirs: 0 };
				for (const one of [...steps, 'ours' as const, 'theirs' as const]) {
					const side = typeof one === 'string' ? one : one.side;
					if (!open[side]) continue;
					const text = typeof one === 'string' ? '' : 'x'.repeat(one.size);
					if (typeof one === 'string') open[side] = false;
					bytes[side] += text.length;
					if (side === 'ours') sends(peer, tunnel, text, !open.ours);
					else peer.send(dataFrame(1, text, !open.theirs));
					assert.equal(tunnel.isClosed, !open.ours && !open.theirs);
				}
				assert.deepEqual([peer.body(1).length, tunnel.body.length], [bytes.ours, bytes.theirs]);
				assert.deepEqual([endsOf(peer, 1), tunnel.isWhole, peer.ends], [1, true, 1]);
				assert.deepEqual([peer.protocol.streams.size, peer.outcome, peer.error], [0, '', undefined]);
			}),
		);
	});
});
