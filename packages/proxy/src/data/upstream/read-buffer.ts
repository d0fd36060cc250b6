/**
 * One read buffer for all connections to upstreams of the thread: libuv fills it and calls back before it reads again, and nothing
 * keeps a view beyond the callback. A KiB less than a slab, so that a read and its framing fit into one slab.
 */
export const READ_BUFFER: Buffer = Buffer.allocUnsafeSlow(64_512);
