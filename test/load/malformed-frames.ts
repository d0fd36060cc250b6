/** Frames that are not part of any HTTP/2 response (RFC 9113), or break the connection. Each is made for the identifier of an open stream. */
import {
	dataFrame,
	FLAG,
	FRAME,
	frame,
	headersFrame,
	pingFrame,
	rstStreamFrame,
	settingsAck,
	windowUpdateFrame,
} from '../fixtures/h2-frames.ts';

type FramesFor = (id: number) => Buffer;

const head = (...lines: readonly (readonly [string, string])[]): FramesFor => {
	return (id) => headersFrame(id, lines, { endStream: false });
};
const tail = (...lines: readonly (readonly [string, string])[]): FramesFor => {
	return (id) => headersFrame(id, lines);
};
const OK = [':status', '200'] as const;

/** Instead of a head: a stream error. */
export const BROKEN_HEADS: readonly FramesFor[] = [
	head(['x-no-status', '1']),
	head([':status', '99']),
	head([':status', '2000']),
	head([':status', 'abc']),
	head(OK, OK),
	head(['x-first', '1'], OK),
	head(OK, [':path', '/']),
	head(OK, ['X-Upper', '1']),
	head(OK, ['connection', 'close']),
	head(OK, ['transfer-encoding', 'chunked']),
	head(OK, ['content-length', '1'], ['content-length', '2']),
	head(OK, ['content-length', '-1']),
	head(OK, ['x-nul', 'a\0b']),
	head(OK, ['x-line', 'a\r\nb: c']),
	head([':status', '101']),
	tail([':status', '103']),
	(id) => dataFrame(id, 'before the head'),
	(id) => windowUpdateFrame(id, 0),
];

/** After a head: a stream error. */
export const BROKEN_TAILS: readonly FramesFor[] = [
	head(['x-sum', 'trailers that end nothing']),
	head([':status', '103']),
	tail([':status', '200']),
	tail(['x-sum', '1'], [':status', '200']),
	tail(['X-Upper', '1']),
	tail(['x-line', 'a\r\nb: c']),
	(id) => windowUpdateFrame(id, 0),
];

/** A connection error, which ends every stream on the connection. */
export const BROKEN_CONNECTIONS: readonly FramesFor[] = [
	() => dataFrame(0, 'for nobody'),
	() => dataFrame(2, 'for nobody'),
	(id) => dataFrame(id + 100_000, 'for nobody yet'),
	() => headersFrame(2, [OK]),
	(id) => headersFrame(id + 100_000, [OK]),
	(id) => frame(FRAME.PUSH_PROMISE, FLAG.END_HEADERS, id, Buffer.of(0, 0, 0, 2, 0x82)),
	(id) => frame(FRAME.SETTINGS, 0, id),
	() => Buffer.concat([settingsAck(), settingsAck()]),
	() => frame(FRAME.SETTINGS, 0, 0, 'five!'),
	() => frame(FRAME.SETTINGS, 0, 0, Buffer.of(0, 4, 0xff, 0xff, 0xff, 0xff)),
	() => frame(FRAME.PING, 0, 0, 'seven b'),
	(id) => frame(FRAME.PING, 0, id, '8 bytes!'),
	() => frame(FRAME.GOAWAY, 0, 0, 'four'),
	(id) => rstStreamFrame(id + 100_000),
	() => rstStreamFrame(0),
	(id) => frame(FRAME.RST_STREAM, 0, id, 'five!'),
	() => windowUpdateFrame(0, 0),
	() => windowUpdateFrame(0, 2 ** 31 - 1),
	(id) => frame(FRAME.CONTINUATION, FLAG.END_HEADERS, id, Buffer.of(0x88)),
	(id) => Buffer.concat([headersFrame(id, [OK], { endHeaders: false }), pingFrame()]),
	(id) => frame(FRAME.HEADERS, FLAG.END_HEADERS, id, Buffer.of(0x80)),
	(id) => frame(FRAME.HEADERS, FLAG.END_HEADERS, id, Buffer.of(0xff, 0xff, 0xff, 0xff, 0xff, 0x0f)),
	(id) => frame(FRAME.HEADERS, FLAG.END_HEADERS | FLAG.PADDED, id, Buffer.of(9, 0x88)),
	(id) => frame(FRAME.DATA, FLAG.PADDED, id, Buffer.of(9, 0)),
	(id) => frame(FRAME.DATA, 0, id, '', 16_385),
	() => Buffer.from('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok'),
];
