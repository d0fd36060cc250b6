/**
 * Loaded into the proxy's worker thread before its own code: puts the test's clock in the place of the system's, so that
 * the data plane runs as it is and knows nothing of it.
 */
import { performance } from 'node:perf_hooks';
import { workerData } from 'node:worker_threads';
import { FakeClock } from './subject.ts';

const clock = new FakeClock(workerData.fakeClock);
performance.now = () => clock.ms;
process.hrtime.bigint = () => BigInt(clock.ms) * 1_000_000n;
Date.now = () => clock.wall * 1000;
