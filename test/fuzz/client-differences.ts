/** Known differences between our HTTP/2 client half and nghttp2, with the reason for each. */
import { FLAG, FRAME } from '../fixtures/h2-frames.ts';

/** We refuse, nghttp2 accepts: by cause. */
const STRICTER: Readonly<Record<string, string>> = {
	'a body in a response that cannot have one': 'nghttp2 lets a 205 have one (RFC 9110 section 15.3.6)',
	'malformed content-length': 'nghttp2 takes more digits than can be counted exactly',
	'MAX_FRAME_SIZE out of range': 'nghttp2 looks at only the last of several values',
	INITIAL_WINDOW_SIZE: 'nghttp2 looks at only the last of several values',
	'a setting that is 0 or 1 out of range': 'nghttp2 looks at only the last of several values',
	'frame too large': 'we look at a length before we look at the frame',
	'too many table size updates': 'RFC 7541 section 4.2 has two at most',
	'DATA before the head': 'nghttp2 takes an empty frame there',
	'a window above 2^31-1': 'we have sent less: the rest of a request is dropped when its response is whole',
	'head too long': 'nghttp2 is given room for more',
	'ENABLE_PUSH out of range': 'nghttp2 looks at only the last of several values',
	'more padding than payload': 'nghttp2 does not look at the padding of what it drops',
	'no pad length': 'nghttp2 does not look at the padding of what it drops',
	'PRIORITY on stream 0': 'nghttp2 drops it, which RFC 9113 section 6.3 forbids',
	'malformed field name': 'nghttp2 drops the field',
	'malformed field value': 'nghttp2 drops the field',
	'malformed trailers': 'nghttp2 drops fields that are malformed, and takes content-length',
	'malformed :status': 'nghttp2 takes any three digits but 101',
	'stream reset with NO_ERROR': 'Node ends the body as if it were whole',
	'PUSH_PROMISE, which the proxy has disabled':
		'nghttp2 resets the promised stream until its SETTINGS are acknowledged',
	'DATA on a stream that has ended': 'nghttp2 forgets ended streams and drops what comes late',
	'HEADERS on a stream that has ended': 'nghttp2 forgets ended streams and drops what comes late',
};

export function isStricter(cause: string): boolean {
	return Object.hasOwn(STRICTER, cause);
}

/** We accept, nghttp2 refuses: frames that end its connection. */
export function explainLaxer(frame: Buffer): string | undefined {
	if (frame.length < 9 || frame.length < 9 + frame.readUIntBE(0, 3)) return 'we wait for the rest of the frame';
	const isBlock = frame[3] === FRAME.HEADERS || frame[3] === FRAME.CONTINUATION;
	if (isBlock && !(frame[4]! & FLAG.END_HEADERS)) {
		return 'we look at the stream when the block is whole (RFC 9113 section 4.3)';
	}
	if (frame[3] === FRAME.PING && frame[4]! & FLAG.ACK) {
		return 'Node ends a connection over an acknowledgement of no ping; RFC 9113 section 6.7 does not';
	}
	if (frame[3] === ALTSVC || frame[3] === ORIGIN) {
		return 'nghttp2 reads these; for us they are unknown frames, which are ignored (RFC 9113 section 5.5)';
	}
	if (frame[3] === FRAME.GOAWAY) return 'streams above its last one are sent again, whatever it is';
	if (frame[3] === FRAME.SETTINGS && frame.includes(NO_RFC7540_PRIORITIES)) {
		return 'RFC 9218 section 2.1 lets a change of it pass';
	}
	return undefined;
}

/** RFC 7838 section 4 and RFC 8336 section 2. */
const ALTSVC = 0xa;
const ORIGIN = 0xc;
/** The setting's identifier in a frame. */
const NO_RFC7540_PRIORITIES = Buffer.of(0, 9);
