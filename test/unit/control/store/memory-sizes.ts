import type { MemorySizes } from '../../../../packages/proxy/src/control/process-memory.ts';

/** Of a small process. */
export const MEMORY_SIZES: MemorySizes = {
	workers: 2,
	maxBufferedBytes: 2 ** 20,
	maxBufferedBytesPerTenant: 2 ** 20,
	maxConnections: 10,
	histograms: {
		upstream: { bounds: [1], exemplars: false },
		handshake: { bounds: [1], exemplars: false },
		gate: { bounds: [1], exemplars: false },
	},
};
