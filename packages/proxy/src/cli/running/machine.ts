import { setTimeout as sleep } from 'node:timers/promises';
import type { Address } from '../options.ts';
import { askMetrics, type MetricsResponse } from './metrics-client.ts';
import { type ProcessEntry, readProcess } from './process-table.ts';

/** The machine as seen by commands to a running proxy; tests pass their own. */
export interface Machine {
	readonly ask: (address: Address, path: string, limitMs: number) => Promise<MetricsResponse>;
	readonly readProcess: (pid: number) => ProcessEntry | undefined;
	readonly signal: (pid: number, signal: NodeJS.Signals) => void;
	/** Monotonic milliseconds. */
	readonly now: () => number;
	readonly sleep: (ms: number) => Promise<unknown>;
}

export const THIS_MACHINE: Machine = {
	ask: askMetrics,
	readProcess,
	signal: (pid, signal) => void process.kill(pid, signal),
	now: () => performance.now(),
	sleep: (ms) => sleep(ms),
};
