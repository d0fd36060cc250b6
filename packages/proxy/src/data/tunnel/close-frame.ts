/**
 * A Close frame (RFC 6455 section 5.5.1).
 *
 * @param code section 7.4.1.
 * @param mask of a client's frame, 4 unpredictable bytes (section 5.3); `undefined`: a server's frame.
 */
export function closeFrame(code: number, mask: Buffer | undefined): Buffer {
	if (mask === undefined) return Buffer.from([FINAL_CLOSE, CODE_BYTES, code >> 8, code & 0xff]);
	const masked = [(code >> 8) ^ mask[0]!, (code & 0xff) ^ mask[1]!];
	return Buffer.from([FINAL_CLOSE, MASKED | CODE_BYTES, ...mask, ...masked]);
}

const FINAL_CLOSE = 0x88;
const MASKED = 0x80;
const CODE_BYTES = 2;
