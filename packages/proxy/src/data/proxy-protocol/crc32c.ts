/** CRC32c (Castagnoli), as in SCTP (RFC 9260 appendix A, formerly RFC 4960 appendix B). The CRC of zlib has another polynomial. */
export function crc32c(bytes: Uint8Array): number {
	let crc = 0xffffffff;
	for (const byte of bytes) crc = TABLE[(crc ^ byte) & 0xff]! ^ (crc >>> 8);
	return (crc ^ 0xffffffff) >>> 0;
}

/** Reflected. */
const POLYNOMIAL = 0x82f63b78;

const TABLE = Uint32Array.from({ length: 256 }, (_, byte) => {
	let rest = byte;
	for (let bit = 0; bit < 8; bit++) rest = rest & 1 ? POLYNOMIAL ^ (rest >>> 1) : rest >>> 1;
	return rest;
});
