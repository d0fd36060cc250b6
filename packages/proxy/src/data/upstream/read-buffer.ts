/**
 * One read buffer for all connections to upstreams of the thread: libuv fills it and calls back before it reads again, and nothing
 * keeps a view beyond the callback. A KiB less than a slab, so that what it brings fits into one with its framing.
 */
export const READ_BUFFER: Buffer = Buffer.allocUnsafeSlow(64_512);
