/**
 * Memory that all threads of the process share. All structures in this folder follow one convention:
 *
 * - `X.allocate(…)` creates the region, once, on the main thread;
 * - `new X(region, worker)`, or `X.view(…)` for a part of a region, is one thread's view of it;
 * - `X.reclaim(region, worker)` releases everything that an ended thread held.
 */
export type Region = SharedArrayBuffer;
