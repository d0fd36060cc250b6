import { ConnectionError } from './errors.ts';
import { CODE, INITIAL_WINDOW, MAX_FRAME_SIZE, MAX_WINDOW, SETTING } from './frame-format.ts';
import { uint32At } from './frame-reader.ts';

/**
 * Reads the payload of a SETTINGS frame (RFC 9113 section 6.5.2). All values are checked; the one that makes a difference to
 * a server that neither pushes, nor sends larger frames, nor keeps a dynamic table, is the streams' window.
 *
 * @param window the streams' window so far.
 * @returns the streams' window from now on. @throws ConnectionError
 */
export function readSettings(bytes: Buffer, from: number, to: number, window: number = INITIAL_WINDOW): number {
	if ((to - from) % 6 !== 0)
		throw new ConnectionError(CODE.FRAME_SIZE_ERROR, 'frame-size', 'SETTINGS of an odd length');
	let newest = window;
	for (let at = from; at < to; at += 6) {
		const id = (bytes[at]! << 8) | bytes[at + 1]!;
		const value = uint32At(bytes, at + 2);
		if (id === SETTING.ENABLE_PUSH || id === SETTING.ENABLE_CONNECT_PROTOCOL || id === SETTING.NO_RFC7540_PRIORITIES) {
			if (value > 1) throw outOfRange('a setting that is 0 or 1');
		} else if (id === SETTING.INITIAL_WINDOW_SIZE) {
			if (value > MAX_WINDOW) throw new ConnectionError(CODE.FLOW_CONTROL_ERROR, 'flow-control', 'INITIAL_WINDOW_SIZE');
			newest = value;
		} else if (id === SETTING.MAX_FRAME_SIZE) {
			if (value < MAX_FRAME_SIZE || value > 0xffffff) throw outOfRange('MAX_FRAME_SIZE');
		}
	}
	return newest;
}

function outOfRange(setting: string): ConnectionError {
	return new ConnectionError(CODE.PROTOCOL_ERROR, 'protocol', `${setting} out of range`);
}
